// The cold parts of calls that hot/ records: communicators that come and go, captures, graphs. any-thread.
#pragma once

#include "thread_state.h"

namespace titan::tracer {

// 1. A communicator's own story.

constexpr bool ends_communicator(format::OpKind kind) {
    return kind == format::OpKind::kCommDestroy || kind == format::OpKind::kCommAbort;
}

// The first call on a handle that enter_create did not learn (a group, a non-blocking split, or out of our sight). Null
// when there are too many communicators, and for a call that ends one, which waits for nobody.
[[gnu::cold]] Communicator* learn_communicator(Session& session, const void* handle, format::OpKind kind, uint64_t now);

// note_lifecycle_entered comes before the real call: after a destroy, NCCL may reuse the address at once.
[[gnu::cold]] void note_lifecycle_entered(Session& session, Communicator& communicator, format::OpKind kind,
                                          uint64_t now);
[[gnu::cold]] void note_lifecycle_left(Communicator& communicator, format::OpKind kind, int result);

// The group that made them has ended with `result`: NCCL has handed the communicators out.
void settle_pending_creates(Thread& thread, int result);

// A communicator is usable: starts whatever starts with the first one.
void on_member_ready(Session& session, Communicator& communicator);

// 2. Captures and graphs.

// Adds the captured entries of `group` among [first_ticket, last_ticket] to their captures, under one lock, so that
// groups of two threads do not mix in one list. cold.
[[gnu::cold]] void remember_captured(Session& session, uint64_t first_ticket, uint64_t last_ticket, uint64_t group);

// The launch of `exec` on `stream` was captured: its calls are part of the capture. cold.
void note_launch_captured(Session& session, const void* exec, const void* stream);

// What ask_capture says where the driver cannot be asked, and where it says that the stream is captured. cold.
uint32_t capture_without_driver(Session& session, const void* stream);
[[gnu::cold]] uint32_t join_capture(Session& session, const void* stream, int status, const Graphs::Capture& capture);

// What the driver says of a stream; false when it cannot be asked. hot but for the driver's own work.
inline bool ask_driver(const Recording& recording, const void* stream, int& status, Graphs::Capture& capture) {
    if (!recording.driver_known.load(std::memory_order_acquire)) {
        return false;
    }
    const DriverApi& driver = recording.driver;
    void* const handle = const_cast<void*>(stream);
    if (driver.stream_get_capture_info == nullptr) {
        return driver.stream_is_capturing(handle, &status) == kCudaSuccess;
    }
    void* graph = nullptr;
    const int told = driver.stream_get_capture_info(handle, &status, &capture.id, &graph, nullptr, nullptr);
    capture.graph = graph;
    return told == kCudaSuccess;
}

// capture_of() where a capture may be under way.
[[gnu::always_inline]] inline uint32_t ask_capture(Session& session, const void* stream) {
    int status = kCaptureStatusNone;
    Graphs::Capture capture{};
    // The legacy stream is never captured itself, and asking about it while another stream is captured is an error.
    if (reinterpret_cast<uintptr_t>(stream) <= kLegacyStream || !ask_driver(session, stream, status, capture)) {
        return capture_without_driver(session, stream);
    }
    return status == kCaptureStatusNone ? kNotCaptured : join_capture(session, stream, status, capture);
}

// Number of the capture that a call on `stream` is captured by, kNotCaptured, or kUnknownCapture. The driver is asked
// only where a capture may be under way: one was seen to begin, or we are about to put marks on the stream.
inline uint32_t capture_of(Session& session, const void* stream) {
    return session.watches_streams() ? ask_capture(session, stream) : kNotCaptured;
}

}  // namespace titan::tracer
