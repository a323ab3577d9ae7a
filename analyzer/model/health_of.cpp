#include "health_of.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/layout/clock_limits.h"
#include "host/mapped.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr double kBusyPercent = 90;
constexpr double kIdlePercent = 5;
// A share of the power limit. A kernel that waits for other ranks spins at some 15 to 30 %; one that computes takes
// most of it.
constexpr double kSpinningShare = 0.4;

std::string activity_words(double busy_percent, const HealthReading* power, const HealthReading* limit) {
    std::string words = fmt::format("{:.0f} % busy", busy_percent);
    if (power == nullptr) {
        return words;
    }
    words += fmt::format(" at {:.0f} W", power->value);
    if (limit == nullptr || limit->value <= 0) {
        return words;
    }
    words += fmt::format(" of {:.0f} W", limit->value);
    if (busy_percent < kIdlePercent) {
        return words + ": nothing runs there";
    }
    const bool spins = busy_percent >= kBusyPercent && power->value < kSpinningShare * limit->value;
    return words + (spins ? ": a kernel that waits rather than computes" : "");
}

}  // namespace

std::vector<DeviceHealth> health_of(const Process& process) {
    std::map<std::pair<std::string, std::string>, DeviceHealth> devices;
    for (const HealthReading& reading : process.health) {
        const std::string& name = process.text(reading.name);
        const size_t first = name.find('.');
        const size_t last = name.rfind('.');
        if (first == std::string::npos) {
            continue;
        }
        const std::string kind = name.substr(0, first);
        const std::string device = last == first ? "" : printable(name.substr(first + 1, last - first - 1));
        DeviceHealth& health = devices[{kind, device}];
        health.kind = kind;
        health.device = device;
        health.readings[name.substr(last + 1)] = &reading;
    }
    return mapped(devices, [](auto& one) { return std::move(one.second); });
}

CpuClockReading cpu_clock_of(const Process& process) {
    CpuClockReading clock;
    for (const DeviceHealth& device : health_of(process)) {
        const HealthReading* const now = device.kind == "cpu" ? device.find("clock_mhz") : nullptr;
        const HealthReading* const most = device.find("max_clock_mhz");
        if (now != nullptr) {
            clock = {now->value, most == nullptr ? 0 : most->value};
        }
    }
    return clock;
}

OomKills oom_kills_of(const Process& process) {
    for (const DeviceHealth& device : health_of(process)) {
        const HealthReading* const kills = device.kind == "cgroup" ? device.find("oom_kills") : nullptr;
        if (kills != nullptr && kills->value > kills->first_value) {
            return {static_cast<uint64_t>(kills->value - kills->first_value), kills->since_ns};
        }
    }
    return {};
}

std::string host_brief(const std::vector<Process>& processes) {
    double lowest_mhz = 0;
    double highest_mhz = 0;
    double most_mhz = 0;
    uint64_t kills = 0;  // ranks of one control group see the same
    for (const Process& process : processes) {
        if (const CpuClockReading clock = cpu_clock_of(process); clock.mhz > 0) {
            lowest_mhz = lowest_mhz > 0 ? std::min(lowest_mhz, clock.mhz) : clock.mhz;
            highest_mhz = std::max(highest_mhz, clock.mhz);
            most_mhz = std::max(most_mhz, clock.most_mhz);
        }
        kills = std::max(kills, oom_kills_of(process).count);
    }
    std::string words;
    if (highest_mhz > 0) {
        words = lowest_mhz < highest_mhz ? fmt::format("CPUs at {:.0f} to {:.0f}", lowest_mhz, highest_mhz)
                                         : fmt::format("CPUs at {:.0f}", highest_mhz);
        words += most_mhz > 0 ? fmt::format(" of {:.0f} MHz", most_mhz) : " MHz";
    }
    if (kills != 0) {
        words += fmt::format("{}{} killed by the OOM killer", words.empty() ? "" : "; ", counted(kills, "process"));
    }
    return words;
}

GpuBrief worst_gpu(const Process& process) {
    GpuBrief worst;
    for (const DeviceHealth& device : health_of(process)) {
        if (device.kind != "gpu") {
            continue;
        }
        GpuBrief gpu;
        for (const auto& [what, unit] :
             {std::pair{"power_w", "W"}, {"temperature_c", "C"}, {"utilization_percent", "%"}}) {
            if (const HealthReading* const reading = device.find(what); reading != nullptr) {
                gpu.words += fmt::format("{}{:.0f} {}", gpu.words.empty() ? "" : " ", reading->value, unit);
            }
        }
        const HealthReading* const limits = device.find("clock_limits");
        gpu.is_throttled = limits != nullptr && (static_cast<uint64_t>(limits->value) & format::fault_limits()) != 0;
        if (worst.words.empty() || (gpu.is_throttled && !worst.is_throttled)) {
            worst = std::move(gpu);
        }
    }
    return worst;
}

std::string gpu_state_words(const DeviceHealth& device) {
    const HealthReading* const busy = device.find("utilization_percent");
    if (device.kind != "gpu" || busy == nullptr) {
        return {};
    }
    std::string words = activity_words(busy->value, device.find("power_w"), device.find("power_limit_w"));
    const HealthReading* const temperature = device.find("temperature_c");
    const HealthReading* const clock = device.find("sm_clock_mhz");
    const HealthReading* const most = device.find("max_sm_clock_mhz");
    words += temperature == nullptr ? "" : fmt::format("; {:.0f} C", temperature->value);
    if (clock != nullptr) {
        words +=
            fmt::format(", {:.0f}{} MHz", clock->value, most == nullptr ? "" : fmt::format(" of {:.0f}", most->value));
    }
    return words;
}

}  // namespace titan::analyzer
