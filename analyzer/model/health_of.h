// The readings of a process by device.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "run.h"

namespace titan::analyzer {

struct DeviceHealth {
    std::string kind;                                                   // "gpu", "port" or "host"
    std::string device;                                                 // "0", "mlx5_0/1"; empty for the host
    std::map<std::string, const HealthReading*, std::less<>> readings;  // by what was read: "power_w"

    // "GPU 0", "port mlx5_0/1".
    std::string name() const { return (kind == "gpu" ? "GPU" : kind) + " " + device; }
    const HealthReading* find(std::string_view what) const {
        const auto found = readings.find(what);
        return found == readings.end() ? nullptr : found->second;
    }
};

std::vector<DeviceHealth> health_of(const Process& process);

// Of the GPU that is worst off: one that is throttled, else the first. Empty words: none is read.
struct GpuBrief {
    std::string words;  // "640 W 61 C 100 %"
    bool is_throttled = false;
};
GpuBrief worst_gpu(const Process& process);

// "100 % busy at 118 W of 700 W: a kernel that waits rather than computes; 41 C, 1980 of 1980 MHz"; empty where it is
// not known.
std::string gpu_state_words(const DeviceHealth& device);

}  // namespace titan::analyzer
