// The frame of a function that is found by its frame pointer, where the kernel tells only where a thread waits and
// where its stack ends: looked for on the stack, by the call that made it. For the watch thread; no allocation.
#pragma once

#include <cstdint>

#include "captured.h"
#include "modules.h"
#include "unwind_rules.h"

namespace titan::tracer {

struct CallerFrame {
    uint64_t return_address;
    uint64_t stack_pointer;
    uint64_t frame_pointer;
};

// The rule for code without tables that keeps a frame pointer.
inline constexpr UnwindRule kUsualRule{UnwindRule::kFromFramePointer, 2, -2, -1};
bool needs_frame_pointer(UnwindRule rule);
// Steps from a frame to its caller by a rule. False if the copy of the stack does not reach that far.
bool step_by_rule(const CapturedThread& thread, UnwindRule rule, const CallerFrame& from, CallerFrame& caller);

// kProven: by a call whose code leads to the beginning of this very function. kLikely: by a call through a register,
// close by, or of code that has no tables; to be believed where the rest of the stack leads to its end.
enum class Found { kNone, kProven, kLikely };

// The caller of the function around `address`, whose frame begins at `stack_pointer`.
Found find_lost_frame(const CapturedThread& thread, const ModuleList& modules, uint64_t address, uint64_t stack_pointer,
                      CallerFrame& caller);

}  // namespace titan::tracer
