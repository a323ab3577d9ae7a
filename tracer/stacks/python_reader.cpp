#include "python_reader.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "base/map_private.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime.h"
#include "thread_states.h"

namespace titan::tracer {
namespace {

constexpr uint32_t kMaxStates = 4096;
constexpr uint32_t kMaxHolders = 16;  // interpreters may have a GIL each
constexpr size_t kFileBytes = 512;
constexpr size_t kFunctionBytes = 256;

struct PythonMemory {
    Memory access;
    python::Runtime runtime;
    bool found;
    bool is_known;  // what `runtime` and `said` tell: as of the newest find_python()
    char said[python::kReasonBytes + 64];
    char room[python::kFindRoomBytes];
    char file[kFileBytes];
    char function[kFunctionBytes];
    uint32_t state_count;
    uint32_t holder_count;
    python::ThreadState holders[kMaxHolders];  // threads that held a GIL when the list was made
    python::ThreadState states[kMaxStates];
};
// Written by the watch thread before it asks, read by the threads that answer.
constinit std::atomic<PythonMemory*> mapped_memory{nullptr};

PythonMemory* seen_memory() { return mapped_memory.load(std::memory_order_acquire); }

void note_gil_holders(PythonMemory& seen) {
    seen.holder_count = 0;
    uint64_t interpreter = 0;
    uint64_t holder = 0;
    for (uint32_t i = 0; i < seen.state_count && seen.holder_count < kMaxHolders; ++i) {
        const python::ThreadState& state = seen.states[i];
        if (state.interpreter != interpreter) {  // the threads of one follow each other
            interpreter = state.interpreter;
            holder = python::gil_holder(seen.access, seen.runtime, interpreter);
        }
        if (state.address == holder) {
            seen.holders[seen.holder_count++] = state;
        }
    }
}

}  // namespace

bool prepare_python() {
    if (seen_memory() == nullptr) {
        mapped_memory.store(map_private<PythonMemory>(), std::memory_order_release);
    }
    return seen_memory() != nullptr;
}

const char* find_python() {
    PythonMemory* const seen = seen_memory();
    if (seen == nullptr) {
        return "";
    }
    seen->found = seen->is_known = false;
    seen->state_count = 0;
    seen->said[0] = '\0';
    seen->runtime = python::Runtime{};
    if (open_memory(getpid(), seen->access) != 0) {
        return "Python stacks are missing: the system lets no process read memory by system call";
    }
    char reason[python::kReasonBytes] = "";
    switch (python::find_runtime(seen->access, seen->room, seen->runtime, reason)) {
        case python::Search::kFound: break;
        case python::Search::kRefused: {
            TextWriter(seen->said, sizeof(seen->said)).format("Python stacks are missing: %s", reason);
            return seen->said;
        }
        default: return "";
    }
    seen->found = seen->is_known = true;
    seen->state_count = python::list_threads(seen->access, seen->runtime, seen->states, kMaxStates).count;
    note_gil_holders(*seen);
    char version[python::kVersionBytes];
    python::version_text(seen->runtime, version);
    copy_text(seen->said, sizeof(seen->said), version);
    return seen->said;
}

const char* find_python_again() {
    PythonMemory* const seen = seen_memory();
    if (seen == nullptr || !seen->is_known) {
        return seen == nullptr ? "" : seen->said;
    }
    seen->found = open_memory(getpid(), seen->access) == 0;
    seen->state_count =
        seen->found ? python::list_threads(seen->access, seen->runtime, seen->states, kMaxStates).count : 0;
    seen->holder_count = 0;
    return seen->said;
}

void forget_python() {
    if (PythonMemory* const seen = seen_memory()) {
        seen->found = false;
        close_memory(seen->access);
    }
}

uint64_t python_state_of(pid_t tid) {
    const PythonMemory* const seen = seen_memory();
    for (uint32_t i = 0; seen != nullptr && seen->found && i < seen->state_count; ++i) {
        if (seen->states[i].native_id == static_cast<uint64_t>(tid)) {
            return seen->states[i].address;
        }
    }
    return 0;
}

bool held_gil_since(pid_t tid) {
    const PythonMemory* const seen = seen_memory();
    for (uint32_t i = 0; seen != nullptr && seen->found && i < seen->holder_count; ++i) {
        if (seen->holders[i].native_id == static_cast<uint64_t>(tid)) {
            const python::ThreadState& state = seen->holders[i];
            return python::gil_holder(seen->access, seen->runtime, state.interpreter) == state.address;
        }
    }
    return false;
}

void walk_python(uint64_t state, PythonWalk& into) {
    const PythonMemory* const seen = seen_memory();
    into.walk = python::Walk{};
    if (state != 0) {
        into.walk = python::walk(seen->access, seen->runtime, state, into.frames, kMaxPythonFrames);
    }
}

bool describe_python(const python::Frame& frame, PythonPlace& place) {
    PythonMemory* const seen = seen_memory();
    python::Place found;
    if (!python::describe(seen->access, seen->runtime, frame.code, frame.offset, seen->file, sizeof(seen->file),
                          seen->function, sizeof(seen->function), found)) {
        return false;
    }
    place = {seen->file, seen->function, found.line};
    return true;
}

void release_python_memory() {
    if (const PythonMemory* const seen = seen_memory()) {
        const uintptr_t begin = reinterpret_cast<uintptr_t>(seen->states);
        const uintptr_t first = (begin + 4095) / 4096 * 4096;
        const uintptr_t end = (begin + sizeof(seen->states)) / 4096 * 4096;
        release_pages(reinterpret_cast<void*>(first), end - first);
    }
}

}  // namespace titan::tracer
