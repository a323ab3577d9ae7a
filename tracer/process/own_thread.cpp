#include "own_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/futex.h"
#include "base/process.h"
#include "fork_page.h"

namespace titan::tracer {

namespace {

// Calls into the driver happen on these stacks.
constexpr size_t kStackBytes = 1 << 20;

// Limit for the start of a thread: its creator waits until it has detached itself from state that the program may
// change (below).
constexpr uint64_t kLongestStartNs = 100'000'000;

// Start arguments live here, not on the heap; a slot is free again once its thread has copied it, which takes long on a
// machine without a processor to spare: there is one for each thread that a session may start at once, and more.
struct Start {
    std::atomic<uint32_t> taken;
    const char* name;
    void (*body)(void*);
    void* argument;
};
constinit Start starts[16]{};

// A processor mask in the kernel's layout, for 8,192 processors.
struct Processors {
    uint64_t mask[128];
    long bytes;  // bytes in use, 0 unknown
};
constinit Processors of_launch{};

constinit __attribute__((tls_model("initial-exec"))) thread_local bool thread_is_ours = false;

void read_processors_of_this(Processors& processors) {
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(processors.mask), processors.mask);
    processors.bytes = bytes > 0 ? bytes : 0;
}

int count(const Processors& processors) {
    int sum = 0;
    for (const uint64_t word : processors.mask) {
        sum += __builtin_popcountll(word);
    }
    return sum;
}

// Resets attributes inherited from this thread that our threads must not have. Those that the system refuses to change
// stay.
void free_from_caller(pthread_t thread) {
    const int policy = sched_getscheduler(0);
    if (policy == SCHED_FIFO || policy == SCHED_RR) {
        const sched_param usual{};
        pthread_setschedparam(thread, SCHED_OTHER, &usual);
    }
    Processors here{};
    read_processors_of_this(here);
    if (count(here) == 1 && count(of_launch) > 1) {
        pthread_setaffinity_np(thread, static_cast<size_t>(of_launch.bytes),
                               reinterpret_cast<const cpu_set_t*>(of_launch.mask));
    }
}

// There is a page wherever a session has started.
std::atomic<uint32_t>& own_threads() { return fork_page.load(std::memory_order_acquire)->own_threads; }

void* run(void* opaque) {
    auto* const slot = static_cast<Start*>(opaque);
    const char* const name = slot->name;
    void (*const body)(void*) = slot->body;
    void* const argument = slot->argument;
    prctl(PR_SET_NAME, name);
    // Later changes of the program must not affect our threads: a chroot would lead our dumps elsewhere, and a thread
    // that shares its root directory with us cannot enter another mount namespace. If the program forbids the time
    // stamp counter, it handles the faults of its own threads only; ours block the signal.
    unshare(CLONE_FS);
#if defined(__x86_64__)
    prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
#endif
    thread_is_ours = true;
    slot->taken.store(0, std::memory_order_release);
    futex_wake_all(slot->taken);
    body(argument);
    own_threads().fetch_sub(1);
    return nullptr;
}

}  // namespace

bool start_own_thread(const char* name, void (*body)(void*), void* argument) {
    Start* slot = nullptr;
    for (Start& candidate : starts) {
        uint32_t free = 0;
        if (candidate.taken.compare_exchange_strong(free, 1)) {
            slot = &candidate;
            break;
        }
    }
    if (slot == nullptr) {
        return false;
    }
    slot->name = name;
    slot->body = body;
    slot->argument = argument;

    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    own_threads().fetch_add(1);  // before it lives, so that it never counts as one of the program
    const bool started = pthread_create(&thread, &attributes, run, slot) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (started) {
        free_from_caller(thread);
        pthread_detach(thread);
        futex_wait(slot->taken, 1, kLongestStartNs);
    } else {
        own_threads().fetch_sub(1);
        slot->taken.store(0, std::memory_order_release);
    }
    return started;
}

bool is_own_thread() { return thread_is_ours; }

bool has_program_left() {
    ProcessStat stat{};
    return read_process_stat(getpid(), stat) && stat.state == 'Z' && stat.threads == own_threads().load() + 1;
}

void note_processors_of_launch() { read_processors_of_this(of_launch); }

}  // namespace titan::tracer
