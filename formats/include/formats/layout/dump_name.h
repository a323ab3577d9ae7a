// Names of dumps: "rank00003.12.titan", the 13th dump of rank 3, or "pid1234.0.titan" for a process without a rank.
// signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/text.h"

namespace titan::format {

inline constexpr std::string_view kDumpSuffix = ".titan";

inline bool is_dump_name(std::string_view name) { return name.ends_with(kDumpSuffix); }

// "rank00003": the dumps of one process in the directory of its attempt.
struct DumpStem {
    DumpStem() = default;
    DumpStem(int32_t rank, int32_t pid) {
        if (rank >= 0) {
            format_text(text, sizeof(text), "rank%05d", rank);
        } else {
            format_text(text, sizeof(text), "pid%d", pid);
        }
    }

    char text[32] = {};
};

struct DumpName {
    DumpName(const DumpStem& stem, uint64_t number) {
        format_text(text, sizeof(text), "%s.%lu%s", stem.text, number, kDumpSuffix.data());
    }

    char text[64];
};

// The number of a dump of that stem; false for any other name.
inline bool dump_number(const char* name, const DumpStem& stem, uint64_t& number) {
    const size_t stem_bytes = strlen(stem.text);
    if (!starts_with(name, stem.text) || name[stem_bytes] != '.') {
        return false;
    }
    const char* const digits = name + stem_bytes + 1;
    const size_t length = strcspn(digits, ".");
    return parse_u64(digits, length, number) && number < UINT32_MAX && same_text(digits + length, kDumpSuffix.data());
}

// -1 for a process without a rank, and for names of other files.
inline int32_t rank_of_dump_name(const char* name) {
    constexpr size_t kRankBytes = 4;  // "rank"
    uint64_t rank = 0;
    uint64_t number = 0;
    const bool known = starts_with(name, "rank") &&
                       parse_u64(name + kRankBytes, strcspn(name + kRankBytes, "."), rank) && rank <= INT32_MAX &&
                       dump_number(name, DumpStem(static_cast<int32_t>(rank), 0), number);
    return known ? static_cast<int32_t>(rank) : -1;
}

}  // namespace titan::format
