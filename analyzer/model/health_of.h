// The readings of a process by device.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "run.h"

namespace titan::analyzer {

struct DeviceHealth {
    std::string kind;                                                   // "gpu", "port", "host", "cpu", "cgroup"
    std::string device;                                                 // "0", "mlx5_0/1"; empty: there is but one
    std::map<std::string, const HealthReading*, std::less<>> readings;  // by what was read: "power_w"

    // "GPU 0", "port mlx5_0/1".
    std::string name() const { return (kind == "gpu" ? "GPU" : kind) + " " + device; }
    const HealthReading* find(std::string_view what) const {
        const auto found = readings.find(what);
        return found == readings.end() ? nullptr : found->second;
    }
};

std::vector<DeviceHealth> health_of(const Process& process);

// The newest clock of a CPU under the main thread, 0 not read, and what that CPU can.
struct CpuClockReading {
    double mhz = 0;
    double most_mhz = 0;
};
CpuClockReading cpu_clock_of(const Process& process);

// Processes that the OOM killer has killed in the control group of this one since its record began.
struct OomKills {
    uint64_t count = 0;
    int64_t last_ns = 0;
};
OomKills oom_kills_of(const Process& process);

// The worst GPU: a throttled one, else the first. Empty words: no GPU is read.
struct GpuBrief {
    std::string words;  // "640 W 61 C 100 %"
    bool is_throttled = false;
};
GpuBrief worst_gpu(const Process& process);

// For the processes of one host: "CPUs at 1200 to 3500 of 3800 MHz; 2 processes killed by the OOM killer". Empty:
// nothing is read.
std::string host_brief(const std::vector<Process>& processes);

// "100 % busy at 118 W of 700 W: a kernel that waits rather than computes; 41 C, 1980 of 1980 MHz"; empty where it is
// not known.
std::string gpu_state_words(const DeviceHealth& device);

}  // namespace titan::analyzer
