// Templates of the NCCL calls in CUDA graphs: lists that graphs and executable graphs share.
//
// A shared list never changes: appending to it makes a copy. Everything here expects a ColdLock, except that an
// executable graph's list is read without one: its memory is never unmapped and its capacity never changes, so a
// program that destroys a graph while it launches it (which CUDA forbids) reads wrong calls and nothing worse.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/layout/ring_layout.h"

namespace titan::tracer {

// One captured call: the values of an entry that are not known from the launch.
struct CapturedCall {
    uint64_t communicator_id;
    uint64_t count;
    uint64_t send_buffer;
    uint64_t receive_buffer;
    uint64_t node;         // child graph node that it came with, 0 none, kUnknownNode
    uint32_t group;        // n-th NCCL group of the list from 1, 0 outside groups
    uint16_t group_index;  // its largest value where it is more
    uint16_t stack;        // as in the entry; call sites have no more rows than fit
    uint32_t capture;      // number of the capture
    int32_t peer;
    uint16_t communicator;  // row, kNoCommunicator unknown
    uint16_t flags;         // format::CollectiveFlags
    format::OpKind kind;
    format::Datatype datatype;
    format::Reduction reduction;
};
static_assert(sizeof(CapturedCall) == 64);

inline constexpr uint16_t kNoCommunicator = UINT16_MAX;
inline constexpr uint64_t kUnknownNode = UINT64_MAX;

struct alignas(64) CapturedCalls {
    uint32_t references;
    uint32_t size_class;
    uint32_t capacity;
    uint32_t groups;  // NCCL groups among the calls
    std::atomic<uint32_t> count;
    bool has_nodes;  // some calls came with child graphs
    CapturedCalls* next_free;

    // hot: never more than there is memory behind, whatever a program in error does meanwhile.
    uint32_t checked_count() const {
        const uint32_t now = count.load(std::memory_order_relaxed);
        return now <= capacity ? now : 0;
    }
    CapturedCall* calls() { return reinterpret_cast<CapturedCall*>(this + 1); }
    const CapturedCall* calls() const { return reinterpret_cast<const CapturedCall*>(this + 1); }
};
static_assert(sizeof(CapturedCalls) == sizeof(CapturedCall));

class CapturedLists {
  public:
    // 64 MiB of addresses; memory only where lists lie. A list has one block of a power of two of calls.
    static constexpr size_t kArenaBytes = size_t{64} << 20;

    // Adds `more` calls behind those of `list` (null: a new list). The caller's reference to `list` becomes one to the
    // result, which is null when there is no room.
    CapturedCalls* append(CapturedCalls* list, const CapturedCall* calls, uint32_t more);

    void keep(CapturedCalls& list) { ++list.references; }
    void drop(CapturedCalls* list);

  private:
    static constexpr uint32_t kMinClass = 3;  // 7 calls
    static constexpr uint32_t kClasses = 20;

    static constexpr size_t bytes_of(uint32_t size_class) { return sizeof(CapturedCall) << size_class; }
    CapturedCalls* take(uint64_t calls);

    char* arena_;
    size_t used_bytes_;
    CapturedCalls* free_[kClasses];
};

}  // namespace titan::tracer
