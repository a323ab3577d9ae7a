// Walks within the process, as the tracer does: on the calling thread, and in a signal handler on another. Loaded by
// inside_program.py through ctypes.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdio>
#include <cstring>

#include "code_place.h"
#include "frames.h"

using namespace titan;
using namespace titan::tracer::python;

namespace {

constexpr uint32_t kFrames = 512;

Memory memory;
Runtime runtime;
Frame frames[kFrames];
Walk walked;
sem_t done;

uint64_t own_thread_state() { return reinterpret_cast<uint64_t (*)()>(runtime.this_thread_state)(); }

// By system calls, as the tracer's handlers: they may come while the interpreter enters a frame, whose pointers are not
// set yet.
void on_signal(int) {
    walked = walk(memory, runtime, own_thread_state(), frames, kFrames);
    sem_post(&done);
}

double now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

bool in_interpreter(void* address) {
    Dl_info info;
    void* extra = nullptr;
    if (dladdr1(address, &info, &extra, RTLD_DL_SYMENT) == 0 || extra == nullptr || info.dli_sname == nullptr) {
        return false;
    }
    const auto* symbol = static_cast<const ElfW(Sym)*>(extra);
    return std::strcmp(info.dli_sname, "_PyEval_EvalFrameDefault") == 0 &&
           static_cast<char*>(address) < static_cast<char*>(info.dli_saddr) + symbol->st_size;
}

// Native frames from the inside out, each with where its variables begin: what libgcc calls its CFA is the stack
// pointer at its call.
struct NativeStack {
    static constexpr int kMost = 4096;
    uint64_t starts[kMost];
    bool is_run[kMost];
    int count = 0, runs = 0;
};

_Unwind_Reason_Code next_native(_Unwind_Context* context, void* argument) {
    auto& stack = *static_cast<NativeStack*>(argument);
    if (stack.count == NativeStack::kMost) {
        return _URC_END_OF_STACK;
    }
    stack.is_run[stack.count] = in_interpreter(reinterpret_cast<char*>(_Unwind_GetIP(context)) - 1);
    stack.runs += stack.is_run[stack.count];
    stack.starts[stack.count++] = _Unwind_GetCFA(context);
    return _URC_NO_REASON;
}

template <class M>
double bench(const M& how, uint32_t depth, int times) {
    const uint64_t thread = own_thread_state();
    const double start = now_ns();
    for (int i = 0; i < times; ++i) {
        walked = walk(how, runtime, thread, frames, depth);
        asm volatile("" ::: "memory");
    }
    return (now_ns() - start) / times;
}

}  // namespace

extern "C" {

// Why there is no reader, or "".
const char* inside_open() {
    static char reason[kReasonBytes], room[kFindRoomBytes];
    sem_init(&done, 0, 0);
    if (open_memory(getpid(), memory) != 0) {
        return "denied";
    }
    return find_runtime(memory, room, runtime, reason) == Search::kFound ? "" : reason;
}

int inside_walk() {
    walked = walk(DirectMemory{}, runtime, own_thread_state(), frames, kFrames);
    return static_cast<int>(walked.count);
}

// Native runs of the interpreter as the walk counts them, and as the native stack shows them.
int inside_runs() {
    uint32_t runs = walked.bare_runs;
    for (uint32_t i = 0; i < walked.count; ++i) {
        runs += frames[i].is_entry + frames[i].bare_runs;
    }
    return static_cast<int>(runs);
}

// Fills what the native stack shows: runs of the interpreter by name, and marks that lie in a frame of such a run, or
// in any frame.
int inside_native(int* runs, int* marks_in_runs, int* marks) {
    NativeStack stack;
    _Unwind_Backtrace(next_native, &stack);
    *runs = stack.runs;
    *marks_in_runs = *marks = 0;
    int all = 0;
    for (uint32_t i = 0; i < walked.count; ++i) {
        if (frames[i].native_mark == 0) {
            continue;
        }
        ++all;
        for (int n = 0; n + 1 < stack.count; ++n) {
            if (frames[i].native_mark >= stack.starts[n] && frames[i].native_mark < stack.starts[n + 1]) {
                (*marks)++;
                *marks_in_runs += stack.is_run[n];
            }
        }
    }
    return all;
}

int inside_describe(int index, char* text, int room_bytes) {
    char file[512], name[256];
    Place place;
    if (!describe(memory, runtime, frames[index].code, frames[index].offset, file, sizeof(file), name, sizeof(name),
                  place)) {
        return -1;
    }
    return std::snprintf(text, static_cast<size_t>(room_bytes), "%s:%d:%s", file, place.line, name);
}

// The walk of another thread, made by its own signal handler; -1 when it does not answer within two seconds.
int inside_signal(unsigned long pthread) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, nullptr);
    walked = Walk{};
    pthread_kill(pthread, SIGUSR2);
    timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 2;
    return sem_timedwait(&done, &limit) == 0 ? static_cast<int>(walked.count) : -1;
}

int inside_cut() { return static_cast<int>(walked.cut); }
double inside_bench_direct(int depth, int times) { return bench(DirectMemory{}, static_cast<uint32_t>(depth), times); }
double inside_bench_paged(int depth, int times) {
    static PageCache cache(memory);
    double sum = 0;
    for (int i = 0; i < times; ++i) {
        cache.forget();
        sum += bench(cache.memory(), static_cast<uint32_t>(depth), 1);
    }
    return sum / times;
}
double inside_bench_safe(int depth, int times) { return bench(memory, static_cast<uint32_t>(depth), times); }
}
