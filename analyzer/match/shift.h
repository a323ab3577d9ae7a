// What a member did that calls otherwise than the others at one sequence number: skipped a call, made one too many,
// swapped two, or only passed other arguments.
#pragma once

#include "run.h"

namespace titan::analyzer {

enum class Shift : uint8_t { kNone, kSkipped, kExtra, kSwapped };

struct ShiftVerdict {
    Shift shift = Shift::kNone;
    bool by_prediction = false;
    bool by_step = false;
    bool or_extra = false;
    bool by_threads = false;  // extra, or only too early: another thread makes the call that the others have there
    bool is_told = true;      // false: one later call that fits by chance would tell the same story
};

// One skipped or extra call explains a whole shifted sequence; a substituted call leaves the rest in step.
ShiftVerdict find_shift(const Run& run, MemberRef suspect, MemberRef reference, uint64_t at);

}  // namespace titan::analyzer
