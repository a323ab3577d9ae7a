// The communicators of this process: maps NCCL's handle to an identity that all members agree on.
//
// find() is hot and lock-free; everything else is cold and expects the caller to hold a ColdLock, except where noted. A
// function that takes the lock itself and does not get it loses its record.
#pragma once

#include <atomic>
#include <cstdint>

#include "formats/layout/ring_layout.h"
#include "handle_table.h"
#include "recording.h"
#include "tracer/record.h"

namespace titan::tracer {

// The kinds of answer that NCCL gives, by the numbers of ncclResult_t: this layer includes no vendor header.
inline constexpr int kSuccess = 0;
inline constexpr int kInProgress = 7;  // returned for a non-blocking communicator: not finished yet

constexpr bool is_error(int result) { return result != kSuccess && result != kInProgress; }

// ncclInvalidArgument, ncclInvalidUsage: NCCL has not taken the call.
constexpr bool is_refused(int result) { return result == 4 || result == 5; }

// The tracer's private half of a communicator; `record` is the half that readers see.
struct Communicator {
    format::CommunicatorRecord* record;
    uint32_t index;
    // p2p counters by peer: sent[size], received[size]. Null before the first send or receive, and where the heap is
    // full.
    std::atomic<uint64_t*> p2p;
    uint32_t p2p_refused_at;  // communicators ever closed when the heap was full, plus one
    const CommQueries* queries;
    std::atomic<bool> incomplete;  // size or rank must still be asked of NCCL
    uint16_t call_flags;           // format::CollectiveFlags of every call on it
    // Start of the oldest unfinished calls, as the device's marks showed at that look (GpuProgress::unfinished).
    std::atomic<uint32_t> unfinished_look;
    std::atomic<uint64_t> unfinished_since_ticks;
    std::atomic<void**> pending_result;  // where NCCL will store the handle, null once it is known
    uint32_t splits;
    uint32_t grows;
    uint64_t grow_alias;      // identity that the next grow's new ranks will compute, 0 none
    uint64_t shrink_sets[8];  // hashes of the rank sets of earlier shrinks, for their ordinals
    uint32_t shrink_counts[8];
};

// The creation that the program asked about last, of those that NCCL said were in progress. Of two threads that ask at
// once either may have written a field.
struct AwaitedCreation {
    std::atomic<uint64_t> asked_ticks;  // 0: it is over
    std::atomic<uint64_t> created_ticks;
    std::atomic<uint64_t> communicator_id;
};

class Communicators {
  public:
    static constexpr uint32_t kMaxRows = 1024;

    // `rows` is at most kMaxRows.
    void start(format::CommunicatorRecord* records, uint32_t rows, format::RegionCursor& cursor, uint64_t* p2p_heap,
               uint64_t p2p_counters, format::RegionCursor& p2p_cursor);

    // The communicator behind NCCL's handle, null when it is not known. hot, any-thread.
    Communicator* find(const void* handle) const { return by_handle_.find(handle); }

    // A new row in state kCreating; null when every row is in use by a living communicator.
    Communicator* add(Recording& recording, const CreateArgs& args, uint64_t private_salt, uint64_t now);

    // NCCL has handed out the handle: from now on find() knows it.
    void bind(Communicator& communicator, const void* handle);

    // The communicator whose creation is under way and whose handle NCCL has just stored, or null. Reads the program's
    // memory, so no lock is held.
    Communicator* find_created(const void* handle);

    // The handle may be reused from now on. Waits for nobody and needs no lock: an abort calls it.
    void forget(Communicator& communicator);

    // Gives a living communicator its p2p counters: most never send, and those of closed ones are given again. Null
    // where there is no room for them; its p2p calls are then not counted.
    uint64_t* take_p2p_counters(Communicator& communicator);

    Communicator& at(uint32_t index) { return rows_[index]; }

    // Visits the records that readers of the ring see. any-thread.
    template <typename Visit>
    void each_record(Visit visit) const {
        const uint64_t used = std::atomic_ref(cursor_->head).load(std::memory_order_acquire);
        for (uint64_t i = 0; i < used && i < row_count_; ++i) {
            visit(records_[i]);
        }
    }

    // any-thread.
    AwaitedCreation awaited;

  private:
    Communicator* free_row();
    uint64_t find_p2p_room(uint64_t counters) const;
    void take_from_closed(uint64_t begin, uint64_t end);

    format::CommunicatorRecord* records_;
    uint32_t row_count_;
    std::atomic<uint32_t> used_rows_;
    format::RegionCursor* cursor_;
    uint64_t* p2p_heap_;
    uint64_t p2p_counters_;
    format::RegionCursor* p2p_cursor_;
    uint64_t p2p_next_;             // counter behind those that were given last
    std::atomic<uint32_t> closed_;  // communicators, ever
    HandleTable<Communicator> by_handle_;
    Communicator rows_[kMaxRows];
};

// The identity that ranks joining `parent` by its next ncclCommGrow will compute from the id they are given.
void note_grow_alias(Communicator& parent, const void* unique_id);

// Asks NCCL for what the creating call did not say (size and rank of a split's child). Calls NCCL: no lock is held.
void complete_communicator(Communicator& communicator);

}  // namespace titan::tracer
