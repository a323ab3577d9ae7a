// Names of the verdict beside the dumps of an attempt: verdict.json and verdict.txt; one that a later one replaced,
// "verdict.1764170000000000000.json"; and what was told to whom, so that nobody is told twice:
// "verdict.COMMAND.told" for a command by its hash, "verdict.1764170000000000000.line.told" for the job's log.
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
