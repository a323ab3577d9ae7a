#include "cpu_clocks.h"

#include <algorithm>

#include "health_of.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

// Clocks of sound hosts of one kind differ less: turbo goes down where many cores work.
constexpr double kFarBelow = 0.7;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

CpuClocks::CpuClocks(const Run& run) {
    for (const Process& process : run.processes) {
        if (const CpuClockReading clock = cpu_clock_of(process); clock.mhz > 0) {
            Host& host = hosts_[process.host];
            host.mhz.push_back(clock.mhz);
            host.most_mhz = std::max(host.most_mhz, clock.most_mhz);
        }
    }
}

void CpuClocks::tell(const std::string& host, Finding& finding) const {
    const auto found = hosts_.find(host);
    std::vector<double> elsewhere;
    for (const auto& [name, other] : hosts_) {
        if (name != host) {
            elsewhere.push_back(median(other.mhz));
        }
    }
    if (found == hosts_.end() || elsewhere.empty()) {
        return;
    }
    const Host& here = found->second;
    const double typical = median(here.mhz);
    const double typical_elsewhere = median(elsewhere);
    if (typical >= kFarBelow * typical_elsewhere || typical >= kFarBelow * here.most_mhz) {
        return;
    }
    finding.evidence.push_back(phrase(
        "the CPUs that the ranks of host {} run on have a clock of {:.0f} of {:.0f} MHz (median; lowest {:.0f}), "
        "those of {} have {:.0f} MHz",
        printable(host), typical, here.most_mhz, *std::min_element(here.mhz.begin(), here.mhz.end()),
        counted(elsewhere.size(), "other host"), typical_elsewhere));
}

}  // namespace titan::analyzer
