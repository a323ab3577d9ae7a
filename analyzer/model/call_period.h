// After how many calls a training repeats itself, where the program does not mark its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace titan::analyzer {

struct CallPeriod {
    size_t calls = 0;    // of one period; 0: there is none
    size_t covered = 0;  // so many calls repeat
    size_t behind = 0;   // calls behind those: an evaluation, or what else a program does after its last step
};

// The period of calls, given as numbers that are equal if the calls are. The end of the sequence counts, because its
// start may be a warm-up; where its last eighth keeps it from repeating, what comes before that. If there are several
// periods, the shortest of those that cover most; it must occur three times at least, and cover a quarter of all calls.
CallPeriod call_period(const std::vector<uint64_t>& calls);

}  // namespace titan::analyzer
