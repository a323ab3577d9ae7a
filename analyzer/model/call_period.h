// After how many calls a training repeats itself, where the program does not mark its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace titan::analyzer {

struct CallPeriod {
    size_t calls = 0;    // of one period; 0: there is none
    size_t covered = 0;  // so many calls at the end of the sequence repeat
};

// Of calls as numbers that are equal where the calls are. The end of the sequence counts, as its start may be a
// warm-up. Of several periods the one that covers most, and the shortest of these; three of them at least, and a
// quarter of all.
CallPeriod call_period(const std::vector<uint64_t>& calls);

}  // namespace titan::analyzer
