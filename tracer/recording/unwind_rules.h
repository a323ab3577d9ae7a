// The way from a frame to its caller, by return address: what the unwind tables say, in eight bytes. A walk over the
// calling thread's own stack then takes one look-up and two loads per frame.
//
// hot, any-thread: find and walk_native take no lock and make no system call. Rules come from the cold side, once per
// address (stacks/call_frame_info.h).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/hash.h"
#include "keyed_rows.h"

namespace titan::tracer {

// The frame address (CFA) is where the stack pointer stood before the call.
struct UnwindRule {
    enum Kind : uint16_t {
        kNone = 0,
        kFromStackPointer,     // frame address = stack pointer + offset
        kFromFramePointer,     // frame address = frame pointer + offset
        kThroughFramePointer,  // frame address = what lies at frame pointer + offset: functions that realign the stack
        kEnd,                  // there is no caller
        kStop,                 // the tables say nothing that fits in here
        kUnknown,              // no module that is known; `frame_words` is the generation of the list of modules
    };
    Kind kind = kNone;
    uint16_t frame_words = 0;
    int16_t saved_frame_pointer_words =
        0;                     // relative to the frame address; kThroughFramePointer: to the frame pointer. 0 not saved
    int16_t return_words = 0;  // relative to the frame address
};
static_assert(sizeof(UnwindRule) == 8);

class UnwindRules {
  public:
    static constexpr size_t kRows = 16 << 10;
    struct Row {
        uint64_t address;
        uint64_t rule;
    };

    // `rows`: kRows zeroed ones.
    void start(Row* rows) { rows_ = {rows, kRows, used_}; }
    // kNone: it has to be learned.
    UnwindRule find(uint64_t address) const {
        const uint64_t row = rows_.find(address, hash(address));
        return row == Rows::kNone
                   ? UnwindRule{}
                   : std::bit_cast<UnwindRule>(std::atomic_ref(rows_[row].rule).load(std::memory_order_relaxed));
    }
    // A new rule, or another one for an address that has one. False: no room.
    bool set(uint64_t address, UnwindRule rule);

  private:
    using Rows = KeyedRows<Row, &Row::address>;
    static uint64_t hash(uint64_t address) { return (address * kHashMultiplier) >> 40; }

    Rows rows_;
    uint64_t used_ = 0;
};

struct NativeWalk {
    uint32_t count;
    bool cut;          // the outermost frame was not reached
    uint64_t unknown;  // the address whose rule has to be learned first, 0 none
};

struct AddressRange {
    uint64_t begin;
    uint64_t end;
    bool holds(uint64_t address) const { return address - begin < end - begin; }
};

// The callers of this function, innermost first, without those in `own`; none where the thread runs on another stack
// than its own. `generation` is that of the list of modules. Reads nothing outside of the stack.
NativeWalk walk_native(const UnwindRules& rules, uint16_t generation, AddressRange own, AddressRange stack,
                       uint64_t* out, uint32_t capacity);

}  // namespace titan::tracer
