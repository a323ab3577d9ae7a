#include "clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "host/words.h"

namespace titan::analyzer {

int64_t Clocks::common_ns(uint32_t process, int64_t realtime_ns) const {
    const HostClock& clock = hosts[host_of[process]];
    if (realtime_ns == 0 || clock.stretches.empty()) {
        return realtime_ns;
    }
    const ClockStretch* stretch = &clock.stretches.front();
    for (const ClockStretch& candidate : clock.stretches) {
        stretch = candidate.from_ns <= realtime_ns ? &candidate : stretch;
    }
    const double since = static_cast<double>(realtime_ns) - static_cast<double>(stretch->at_ns);
    const double moved = std::clamp(stretch->offset_ns + stretch->drift * since, -4e18, 4e18);
    int64_t common = 0;
    return __builtin_sub_overflow(realtime_ns, static_cast<int64_t>(moved), &common) ? realtime_ns : common;
}

double HostClock::bound_ns() const {
    double worst = 0;
    for (const ClockStretch& stretch : stretches) {
        worst = std::max(worst, stretch.bound_ns);
    }
    return worst;
}

double Clocks::bound_ns(uint32_t process) const { return hosts[host_of[process]].bound_ns(); }

double Clocks::largest_bound_ns() const {
    double worst = 0;
    for (const HostClock& clock : hosts) {
        worst = std::max(worst, clock.bound_ns());
    }
    return worst;
}

double Clocks::largest_drift() const {
    double worst = 0;
    for (const HostClock& clock : hosts) {
        for (const ClockStretch& stretch : clock.stretches) {
            worst = std::max(worst, stretch.drift_known ? std::abs(stretch.drift) : 0);
        }
    }
    return worst;
}

size_t Clocks::aligned_hosts() const {
    return static_cast<size_t>(
        std::count_if(hosts.begin(), hosts.end(), [](const HostClock& clock) { return clock.aligned; }));
}

size_t Clocks::jumping_hosts() const {
    return static_cast<size_t>(
        std::count_if(hosts.begin(), hosts.end(), [](const HostClock& clock) { return clock.jumps(); }));
}

std::string Clocks::summary() const {
    if (hosts.size() < 2) {
        return {};
    }
    if (aligned_hosts() < 2) {
        return fmt::format(
            "the clocks of {} hosts could not be aligned: no collective that they share has recorded ends",
            hosts.size());
    }
    std::string text =
        fmt::format("clocks of {} hosts aligned to {}", aligned_hosts(), fine_duration_text(largest_bound_ns()));
    if (largest_drift() >= 0.05e-6) {
        text += fmt::format(", drift up to {:.{}f} ppm", largest_drift() * 1e6, largest_drift() < 1e-6 ? 1 : 0);
    }
    if (jumping_hosts() != 0) {
        text += fmt::format("; {} {} set while the job ran", counted(jumping_hosts(), "clock"),
                            verb_form(jumping_hosts(), "was", "were"));
    }
    if (aligned_hosts() < hosts.size()) {
        text += fmt::format("; those of {} more could not be", hosts.size() - aligned_hosts());
    }
    return text;
}

}  // namespace titan::analyzer
