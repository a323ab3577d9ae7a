// One recording of one process: everything the tracer knows lives here, in one mapping that a forked child leaves
// behind.
//
// A process is asleep until NCCL is first used (or a rank calls a marker): no thread, no file, no memory. After fork
// the child is asleep again: the page that points to the session is wiped by the kernel, also for a raw clone.
#pragma once

#include <atomic>

#include "communicators.h"
#include "fork_page.h"
#include "gpu_progress.h"
#include "graphs_state.h"
#include "health.h"
#include "recording.h"

namespace titan::tracer {

struct Session : Recording {
    Communicators communicators;
    GpuProgress gpu_progress;
    Graphs graphs;
    Health health;

    // Has a call on a stream anything to do with the device beside being recorded?
    bool watches_streams() const { return graphs.any_capture() || gpu_progress.active(); }
};

// Null while asleep, off, or in a forked child that has not used NCCL itself. hot, any-thread, signal-safe.
inline Session* session() {
    ForkPage* const page = fork_page.load(std::memory_order_acquire);
    return page != nullptr ? page->session.load(std::memory_order_acquire) : nullptr;
}

}  // namespace titan::tracer
