// Predicts the next element of a sequence from its own past: the element that followed the longest earlier stretch
// equal to the newest one. Training repeats its steps, so this is nearly always right, and it knows when it does not
// know.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace titan::analyzer {

inline constexpr size_t kMinContext = 3;
// A stretch so short tells only where the same thing followed it each time, and often enough.
inline constexpr size_t kShortContext = 2;
inline constexpr size_t kShortSeen = 3;
inline constexpr size_t kMaxContext = 64;
inline constexpr size_t kMaxHistory = 4096;

// The newest `length` elements before `position` are preceded by one that none of them equals, such as the check that a
// loop makes every eighth time: how often they have repeated since is part of the context.
template <typename Same>
bool begins_anew(size_t position, size_t length, Same&& same) {
    if (length >= position) {
        return false;
    }
    const size_t before = position - 1 - length;
    for (size_t i = before + 1; i < position; ++i) {
        if (same(i, before)) {
            return false;
        }
    }
    return true;
}

// same(i, j): elements i and j are equal. Returns the index whose element is expected at `position`.
template <typename Same>
std::optional<size_t> predict(size_t position, Same&& same) {
    std::optional<size_t> best;
    size_t best_length = 0;
    std::optional<size_t> always;
    size_t seen = 0;
    bool unanimous = true;
    bool cut = false;  // the stretch of `best` goes back to where the record begins
    const size_t oldest = position > kMaxHistory ? position - kMaxHistory : 0;
    for (size_t candidate = position; candidate-- > oldest + 1;) {
        size_t length = 0;
        while (length < kMaxContext && length < candidate - oldest &&
               same(candidate - 1 - length, position - 1 - length)) {
            ++length;
        }
        if (length > best_length) {
            best_length = length;
            best = candidate;
            cut = length == candidate - oldest;
        }
        if (length >= kShortContext) {
            always = always.value_or(candidate);
            unanimous &= same(candidate, *always);
            ++seen;
        }
        if (best_length == kMaxContext) {
            break;
        }
    }
    // What came before that stretch is lost or never was, and here it matters.
    if (cut && !unanimous && best_length < kMaxContext && begins_anew(position, best_length, same)) {
        return std::nullopt;
    }
    if (best_length >= kMinContext) {
        return best;
    }
    return unanimous && seen >= kShortSeen ? always : std::nullopt;
}

// Did the element at `position` ever follow the elements before it? Looks back as far as that context occurred several
// times: two calls that alternate are no deviation, whichever was expected.
template <typename Same>
bool has_followed_before(size_t position, Same&& same) {
    const size_t oldest = position > kMaxHistory ? position - kMaxHistory : 0;
    std::array<size_t, kMaxContext + 1> seen{};   // index: length of the equal stretch
    std::array<bool, kMaxContext + 1> as_here{};  // followed by what is here
    for (size_t candidate = position; candidate-- > oldest + 1;) {
        size_t length = 0;
        while (length < kMaxContext && length < candidate - oldest &&
               same(candidate - 1 - length, position - 1 - length)) {
            ++length;
        }
        ++seen[length];
        as_here[length] = as_here[length] || (length >= kShortContext && same(candidate, position));
    }
    size_t times = 0;
    bool followed = false;
    for (size_t length = kMaxContext + 1; length-- > kShortContext && times < kShortSeen;) {
        times += seen[length];
        followed |= as_here[length];
    }
    return followed && times >= kShortSeen;
}

}  // namespace titan::analyzer
