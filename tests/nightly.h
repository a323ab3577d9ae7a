// The nightly tier (scripts/test --all) repeats some cases more often than the day does, as tests/nightly.py has it.
#pragma once

#include <cstdlib>

namespace titan::test {

inline int rounds(int by_day, int at_night) { return std::getenv("TITAN_NIGHTLY") != nullptr ? at_night : by_day; }

}  // namespace titan::test
