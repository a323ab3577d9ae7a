// Words for the numbers among the readings of a machine (HealthEntry). Bits of the clock limits: nvml.h,
// nvmlClocksEventReason*; Xids: NVIDIA's "XID Errors" catalogue.
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

struct Xid {
    uint32_t number;
    std::string_view words;
    bool is_hardware;  // else the program may be to blame
};

inline constexpr auto kXids = std::to_array<Xid>({
    {13, "exception in a kernel", false},
    {31, "memory page fault in a kernel", false},
    {43, "the GPU stopped processing", false},
    {45, "work removed after an earlier fault", false},
    {48, "double-bit memory error", true},
    {61, "internal microcontroller error", true},
    {62, "internal microcontroller halt", true},
    {63, "memory row remapped", true},
    {64, "memory row could not be remapped", true},
    {69, "exception in the graphics engine", false},
    {74, "NVLink error", true},
    {79, "the GPU has fallen off the bus", true},
    {92, "many single-bit memory errors", true},
    {94, "contained memory error", true},
    {95, "uncontained memory error", true},
    {109, "context switch timed out", false},
    {119, "GPU firmware does not answer", true},
    {120, "GPU firmware error", true},
    {140, "unrecovered memory error", true},
    {145, "NVLink error", true},
    {149, "NVLink error", true},
});

constexpr const Xid* find_xid(uint32_t number) {
    for (const Xid& xid : kXids) {
        if (xid.number == number) {
            return &xid;
        }
    }
    return nullptr;
}

}  // namespace titan::format
