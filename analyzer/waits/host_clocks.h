// The clocks of two hosts, compared where moments of two ranks matter. Timing aligns all of them, exactly
// (align_clocks.h); here only two at a time, and roughly.
#pragma once

#include <cstdint>
#include <optional>

#include "run.h"

namespace titan::analyzer {

// How much the clock of `other` is ahead of that of `process`, by the newest collective that both made, or by the
// creation of a communicator of both. 0 on one host; nothing where no such thing is recorded. Whether a clock was set
// after that, it does not tell. Both are indexes into Run::processes.
std::optional<int64_t> clock_ahead_ns(const Run& run, uint32_t process, uint32_t other);

}  // namespace titan::analyzer
