// The numbers by which members of a communicator match each other's calls. hot.
#pragma once

#include <atomic>

#include "communicators.h"
#include "ring.h"
#include "session.h"

namespace titan::tracer {

[[gnu::noinline]] inline uint64_t take_other_sequence(Session& session, Communicator& communicator, format::OpKind kind,
                                                      uint8_t traits, int peer) {
    if (kind == format::OpKind::kSend || kind == format::OpKind::kRecv) {
        if (peer < 0) {
            return format::kNoSequence;  // not known yet: counted when it is
        }
        const int32_t size = communicator.record->size;
        uint64_t* counters = communicator.p2p.load(std::memory_order_acquire);
        if (counters == nullptr) [[unlikely]] {
            counters = session.communicators.take_p2p_counters(communicator);
        }
        if (counters == nullptr || peer >= size) {
            count_loss(session, format::Loss::kP2pUncounted);
            return format::kNoSequence;
        }
        uint64_t& counter = counters[kind == format::OpKind::kSend ? peer : size + peer];
        return std::atomic_ref(counter).fetch_add(1, std::memory_order_relaxed);
    }
    return (traits & kLifecycle) != 0 ? load_field(communicator.record->next_sequence) : format::kNoSequence;
}

inline uint64_t take_sequence(Session& session, Communicator& communicator, format::OpKind kind, uint8_t traits,
                              int peer) {
    if ((traits & kCounted) != 0) [[likely]] {
        return std::atomic_ref(communicator.record->next_sequence).fetch_add(1, std::memory_order_relaxed);
    }
    return take_other_sequence(session, communicator, kind, traits, peer);
}

// NCCL checks a call before it counts it: one that it refused has no number, and the next call gets it.
[[gnu::cold, gnu::noinline]] inline void give_back_sequence(Session& session, format::CollectiveEntry& entry) {
    const bool sends = entry.kind == format::OpKind::kSend;
    const bool counted = format::is_collective(entry.kind) || sends || entry.kind == format::OpKind::kRecv;
    if (!counted || entry.sequence == format::kNoSequence || entry.communicator == format::kNoIndex) {
        return;
    }
    Communicator& communicator = session.communicators.at(entry.communicator);
    uint64_t* counter = &communicator.record->next_sequence;
    if (!format::is_collective(entry.kind)) {
        counter =
            communicator.p2p.load(std::memory_order_acquire) + (sends ? 0 : communicator.record->size) + entry.peer;
    }
    std::atomic_ref(*counter).fetch_sub(1, std::memory_order_relaxed);
    store_field(entry.sequence, format::kNoSequence);
}

}  // namespace titan::tracer
