#include "what_is_slow.h"

#include <fmt/format.h>

#include "formats/layout/clock_limits.h"
#include "health_of.h"
#include "overcommitted_hosts.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr double kSlowClock = 0.93;      // of the clock of the others' GPUs
constexpr double kDelayed = 0.1;         // share of the time that threads waited for a processor
constexpr double kMoreMemoryMib = 1024;  // on the GPU than most others have
constexpr double kMostOthers = 0.75;     // share of the others
constexpr double kPressure = 20;         // percent of the time that some task of the host waits for a processor

double reading(const Process& process, std::string_view kind, std::string_view what) {
    for (const DeviceHealth& device : health_of(process)) {
        if (device.kind == kind && device.find(what) != nullptr) {
            return device.find(what)->value;
        }
    }
    return -1;
}

double cpu_pressure(const Process& process) { return reading(process, "host", "cpu_pressure_percent"); }

double waiting_share(const Process& process) { return delayed_share(process.processors); }

template <typename Value>
std::vector<double> of_others(const CauseSearch& search, const Process& process, const Value& value,
                              bool on_other_hosts = false) {
    std::vector<double> others;
    for (size_t r = 0; r < search.ranks(); ++r) {
        const bool is_other = on_other_hosts ? search.process(r).host != process.host : &search.process(r) != &process;
        if (is_other && value(search.process(r)) >= 0) {
            others.push_back(value(search.process(r)));
        }
    }
    return others;
}

template <typename Value>
double usual_of_others(const CauseSearch& search, const Process& process, const Value& value,
                       bool on_other_hosts = false) {
    std::vector<double> others = of_others(search, process, value, on_other_hosts);
    return others.empty() ? -1 : median_of(std::move(others));
}

}  // namespace

CauseClass class_of_gpu(const CauseSearch& search, const Process& process, SlowCause& cause) {
    const double limits = reading(process, "gpu", "clock_limits");
    const uint64_t bits = limits < 0 ? 0 : static_cast<uint64_t>(limits) & format::fault_limits();
    const auto clock = [](const Process& of) { return reading(of, "gpu", "sm_clock_mhz"); };
    const double own_mhz = clock(process);
    const double others_mhz = usual_of_others(search, process, clock);
    if (own_mhz > 0 && others_mhz > 0) {
        cause.evidence.push_back(
            fmt::format("its GPU runs at {:.0f} MHz, those of the others at {:.0f}", own_mhz, others_mhz));
    }
    if (bits != 0) {
        cause.evidence.push_back(fmt::format("its GPU is throttled ({})", format::clock_limit_words(bits)));
    }
    if (bits != 0 || (own_mhz > 0 && others_mhz > 0 && own_mhz < kSlowClock * others_mhz)) {
        return CauseClass::kThrottledGpu;
    }
    const auto memory = [](const Process& of) { return reading(of, "gpu", "memory_used_mib"); };
    const double own_mib = memory(process);
    const std::vector<double> others_mib = of_others(search, process, memory);
    if (!others_mib.empty() && own_mib > quantile_of(others_mib, kMostOthers) + kMoreMemoryMib) {
        cause.evidence.push_back(
            fmt::format("{:.0f} MiB of its GPU are in use, {:.0f} MiB of the others': another process may run there",
                        own_mib, median_of(others_mib)));
        return CauseClass::kOtherProcess;
    }
    return CauseClass::kSlowRankGpu;
}

CauseClass class_of_host(const CauseSearch& search, const Process& process, bool whole_host, SlowCause& cause) {
    const double share = waiting_share(process);
    if (share >= kDelayed && share > 2 * usual_of_others(search, process, waiting_share, whole_host)) {
        cause.evidence.push_back(fmt::format(
            "its threads waited for a processor for {:.0f}% of the time that they were ready to run", 100 * share));
        return CauseClass::kOtherProcess;
    }
    // All ranks of a host have its pressure: only other hosts can have less.
    const double pressure = cpu_pressure(process);
    const double elsewhere = usual_of_others(search, process, cpu_pressure, true);
    if (pressure >= kPressure && elsewhere >= 0 && pressure > 2 * elsewhere) {
        cause.evidence.push_back(fmt::format("tasks of its host wait for a processor {:.0f}% of the time", pressure));
        return CauseClass::kOtherProcess;
    }
    return whole_host ? CauseClass::kSlowHost : CauseClass::kSlowRankHost;
}

}  // namespace titan::analyzer
