// Words for the bits of the reading "clock_limits" of a GPU (HealthEntry): nvml.h, nvmlClocksEventReason*.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace titan::format {

struct ClockLimit {
    uint64_t bit;
    std::string_view words;
    bool is_fault;  // the GPU is hotter, or gets less power, than it was built for
};

inline constexpr auto kClockLimits = std::to_array<ClockLimit>({
    {0x1, "idle", false},
    {0x2, "clocks set by hand", false},
    {0x4, "power limit", false},
    {0x8, "hardware slowdown", true},
    {0x10, "sync boost", false},
    {0x20, "too hot (driver)", true},
    {0x40, "too hot (hardware)", true},
    {0x80, "power brake", true},
    {0x100, "display clocks", false},
});

constexpr uint64_t fault_limits() {
    uint64_t bits = 0;
    for (const ClockLimit& limit : kClockLimits) {
        bits |= limit.is_fault ? limit.bit : 0;
    }
    return bits;
}

// "too hot (hardware), power brake": of those bits.
inline std::string clock_limit_words(uint64_t bits) {
    std::string words;
    for (const ClockLimit& limit : kClockLimits) {
        if ((bits & limit.bit) != 0) {
            words += (words.empty() ? "" : ", ") + std::string(limit.words);
        }
    }
    return words;
}

}  // namespace titan::format
