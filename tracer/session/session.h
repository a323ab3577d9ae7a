// One recording of one process: everything the tracer knows lives here, in one mapping that a forked child leaves
// behind.
//
// A process is asleep until NCCL is first used (or a rank calls a marker): no thread, no file, no memory. After fork
// the child is asleep again: the page that points to the session is wiped by the kernel, also for a raw clone.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/atomic_field.h"
#include "communicators/communicators.h"
#include "config.h"
#include "device/gpu_progress.h"
#include "device/graphs_state.h"
#include "fork_page.h"
#include "formats/ring_layout.h"
#include "hot/call_sites.h"
#include "hot/kernel_names.h"
#include "hot/ring.h"
#include "hot/strings.h"
#include "identity.h"
#include "ring_file.h"
#include "tracer/record.h"

namespace titan::tracer {

struct Session {
    Config config;
    Identity identity;
    RingFile ring_file;

    format::RingHeader* header;
    Ring<format::CollectiveEntry> collectives;
    Ring<format::CudaCallEntry> cuda_calls;
    Ring<format::StreamWorkEntry> stream_work;
    Ring<format::ChannelEntry> channels;
    Ring<format::MarkerEntry> markers;
    StringTable strings;
    StringState string_states[kStringRows];
    CallSites call_sites;
    format::ThreadRecord* threads;
    uint64_t thread_rows;
    Communicators communicators;
    DriverApi driver;                // see learn_driver
    std::atomic<bool> driver_known;  // `driver` is filled in
    std::atomic<bool> driver_asked;  // a thread is filling it in, or has
    GpuProgress gpu_progress;
    Graphs graphs;
    uint32_t api_names[kMaxApis];  // string id of each function's name
    KernelNames kernel_names;

    // Has a call on a stream anything to do with the device beside being recorded?
    bool watches_streams() const { return graphs.any_capture() || gpu_progress.active(); }
};

// Null while asleep, off, or in a forked child that has not used NCCL itself. hot, any-thread, signal-safe.
inline Session* session() {
    ForkPage* const page = fork_page.load(std::memory_order_acquire);
    return page != nullptr ? page->session.load(std::memory_order_acquire) : nullptr;
}

// hot, any-thread, signal-safe.
inline void count_loss(Session& session, format::Loss loss) {
    std::atomic_ref(session.header->losses[static_cast<size_t>(loss)]).fetch_add(1, std::memory_order_relaxed);
}

// Number of the capture that a call on `stream` is captured by, kNotCaptured, or kUnknownCapture. The driver is asked
// only where a capture may be under way: one was seen to begin, or we are about to put marks on the stream.
inline uint32_t capture_of(Session& session, const void* stream) {
    return session.watches_streams() ? ask_capture(session, stream) : kNotCaptured;
}

}  // namespace titan::tracer
