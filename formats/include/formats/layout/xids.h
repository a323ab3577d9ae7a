// Xids: what NVIDIA's driver reports of a GPU, by number, and whose fault each is. From NVIDIA's catalogue,
// docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, by what it says to do (check the application, restart
// it, reset the GPU), and from the columns "HW", "Driver" and "User App Error" of its edition for r555.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace titan::format {

// A reading "gpu.0.xid_79" counts how often that Xid came.
inline constexpr char kXidReading[] = "xid_";

// Whose fault it is.
enum class XidSource : uint8_t {
    kHardware,   // the GPU's, its memory's or its links'
    kDriver,     // not the program's: the driver's, the firmware's or the GPU's
    kProgram,    // usually the program's
    kUnclear,    // the program's, the driver's or the GPU's
    kAftermath,  // nobody's: it follows another fault, or the end of a process
    kUnknown,    // it is not in this table
};

struct Xid {
    uint32_t number;
    std::string_view words;
    XidSource source;
};

inline constexpr auto kXids = std::to_array<Xid>({
    {8, "the GPU stopped processing", XidSource::kUnclear},
    {11, "invalid commands", XidSource::kProgram},
    {13, "exception in a kernel", XidSource::kProgram},
    {25, "invalid commands", XidSource::kProgram},
    {31, "memory page fault", XidSource::kProgram},
    {32, "invalid commands", XidSource::kUnclear},
    {38, "firmware watchdog", XidSource::kDriver},
    {43, "work stopped after a fault of its own", XidSource::kProgram},
    {44, "fault during a context switch", XidSource::kDriver},
    {45, "work removed", XidSource::kAftermath},
    {46, "the GPU stopped processing", XidSource::kDriver},
    {48, "double-bit memory error", XidSource::kHardware},
    {54, "auxiliary power is not connected", XidSource::kHardware},
    {61, "internal microcontroller breakpoint", XidSource::kDriver},
    {62, "internal microcontroller halt", XidSource::kHardware},
    {63, "memory row remapped", XidSource::kHardware},
    {64, "memory row could not be remapped", XidSource::kHardware},
    {69, "invalid command in a kernel's launch", XidSource::kProgram},
    {74, "NVLink error", XidSource::kHardware},
    {79, "the GPU has fallen off the bus", XidSource::kHardware},
    {80, "corrupted commands", XidSource::kUnclear},
    {92, "many single-bit memory errors", XidSource::kHardware},
    {94, "contained memory error", XidSource::kHardware},
    {95, "uncontained memory error", XidSource::kHardware},
    {109, "context switch timed out", XidSource::kUnclear},
    {110, "security fault", XidSource::kDriver},
    {119, "GPU firmware does not answer", XidSource::kDriver},
    {120, "GPU firmware error", XidSource::kDriver},
    {121, "error on the link to the CPU", XidSource::kHardware},
    {136, "NVLink training failed", XidSource::kHardware},
    {137, "illegal access over NVLink", XidSource::kProgram},
    {140, "unrecovered memory error", XidSource::kHardware},
    {143, "the GPU could not be initialized", XidSource::kDriver},
    {144, "NVLink error", XidSource::kHardware},
    {145, "NVLink error", XidSource::kHardware},
    {146, "NVLink error", XidSource::kHardware},
    {147, "NVLink error", XidSource::kHardware},
    {148, "NVLink error", XidSource::kHardware},
    {149, "NVLink error", XidSource::kHardware},
    {150, "NVLink error", XidSource::kHardware},
    {154, "the GPU needs another recovery than before", XidSource::kAftermath},
    {156, "faulty resource retired", XidSource::kHardware},
    {157, "faulty resource could not be retired", XidSource::kHardware},
    {158, "fatal timeout of the GPU", XidSource::kHardware},
    {167, "fatal PCIe timeout", XidSource::kHardware},
    {171, "uncorrectable memory error", XidSource::kHardware},
    {172, "uncorrectable memory error", XidSource::kHardware},
});

// One that is not in the table has no words.
constexpr Xid find_xid(uint32_t number) {
    for (const Xid& xid : kXids) {
        if (xid.number == number) {
            return xid;
        }
    }
    return {number, "", XidSource::kUnknown};
}

}  // namespace titan::format
