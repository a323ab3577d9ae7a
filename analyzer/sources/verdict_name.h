// Names of the verdict beside the dumps of an attempt: verdict.json and verdict.txt; those on an earlier start of the
// same attempt, "verdict.1764170000000000000.json"; and "verdict.1764170000000000000.told", when the one of that time
// was handed on.
#pragma once

#include <string_view>

namespace titan::analyzer {

inline constexpr const char* kVerdictJson = "verdict.json";
inline constexpr const char* kVerdictText = "verdict.txt";

constexpr bool is_verdict_name(std::string_view name) {
    return name.starts_with("verdict.") &&
           (name.ends_with(".json") || name.ends_with(".txt") || name.ends_with(".told"));
}

}  // namespace titan::analyzer
