// Lays the calls that a rank made beside those that it should have made: which kind of edit makes them equal.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "expected.h"

namespace titan::analyzer {

inline constexpr size_t kLeftOut = 8;  // the sends and receives of a group, for instance

// Calls that a rank made and calls that it should have made, from the first on that differs: its i-th and their j-th
// are equal; none where one of the two has ended.
using Same = std::function<std::optional<bool>(size_t i, size_t j)>;

// How far the two agree from one's i-th and the other's j-th on.
struct Agreement {
    size_t compared = 0;
    size_t equal = 0;
    bool all() const { return compared > 0 && equal == compared; }
};

Agreement agreement(const Same& same, size_t i, size_t j);
// How many calls agree behind one that was changed, left out or made in addition.
size_t agreed_after(const Same& same);
bool are_swapped(const Same& same);
// `left_out`: as many calls may be missing.
void tell_kind(const Same& same, size_t left_out, Edit& edit);

}  // namespace titan::analyzer
