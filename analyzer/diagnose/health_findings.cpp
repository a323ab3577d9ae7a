// What the readings of GPUs and network ports say: faults of their own, and the state of the GPU of ranks that are
// named.
#include "steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "health_faults.h"
#include "health_of.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

using format::XidSource;

// What may be said of a fault, by its source.
struct Judgement {
    XidSource source;
    FindingKind kind;
    Confidence confidence;
    std::string_view words;
    std::string_view would_settle_it;
};
constexpr std::string_view kProgramOrGpu =
    "what compute-sanitizer says of the program, and whether the program fails on other GPUs, too";
constexpr auto kJudgements = std::to_array<Judgement>({
    {XidSource::kHardware, FindingKind::kHardwareFault, Confidence::kCertain, "", ""},
    {XidSource::kDriver, FindingKind::kHardwareFault, Confidence::kLikely,
     "a fault of the driver, of the GPU's firmware or of the GPU",
     "whether it comes back on that GPU after a reset, and with another driver"},
    {XidSource::kProgram, FindingKind::kGpuError, Confidence::kLikely, "usually a fault of the program, not of the GPU",
     kProgramOrGpu},
    {XidSource::kUnclear, FindingKind::kGpuError, Confidence::kPossible,
     "the program, the driver or the GPU may be at fault", kProgramOrGpu},
    {XidSource::kAftermath, FindingKind::kGpuError, Confidence::kPossible,
     "it follows another fault, or the end of a process", ""},
    {XidSource::kUnknown, FindingKind::kGpuError, Confidence::kPossible, "",
     "what NVIDIA's catalogue of Xids says of that number"},
});

const Judgement& judgement_of(const Fault& fault) {
    return *std::ranges::find_if(kJudgements, [&](const Judgement& each) { return each.source == fault.source; });
}

// " since step 8", " in step 8", ", the last in step 8", " at 14:20:34.506146".
std::string when_words(const Fault& fault) {
    const HealthReading& reading = *fault.reading;
    const bool has_step = reading.since_step >= 0;
    const std::string moment = has_step ? fmt::format("step {}", reading.since_step) : fine_date_text(reading.since_ns);
    return fmt::format("{}{} {}", fault.when == When::kLast ? ", the last" : "",
                       fault.when == When::kSince ? " since"
                       : has_step                 ? " in"
                                                  : " at",
                       moment);
}

struct Seen {
    const Process* process;
    Fault fault;
};

Sentence owner_words(const Process& process, const Fault& fault) {
    return fault.is_of_host() ? phrase("of host {}", printable(process.host))
                              : phrase("of {} on host {}", rank_fact(process.rank), printable(process.host));
}

Sentence seen_words(const Seen& seen) {
    return phrase("{} {} {}{}", seen.fault.device.name(), owner_words(*seen.process, seen.fault), seen.fault.what,
                  when_words(seen.fault));
}

Sentence claim_words(const Fault& fault) {
    const std::string_view words = judgement_of(fault).words;
    return words.empty() ? Sentence() : phrase(": {}", words);
}

Sentence fault_words(const Seen& seen) {
    Sentence words = seen_words(seen);
    return words += claim_words(seen.fault);
}

// As evidence for a wait: an event may have come before it or after.
Sentence fault_words_in(const Finding& finding, const Seen& seen) {
    Sentence words = seen_words(seen);
    if (seen.fault.when == When::kOnce && finding.hangs && !finding.victims.empty()) {
        const int64_t before_ns = finding.since_ns - seen.fault.reading->since_ns;
        words += phrase(", {} {} others began to wait", duration_fact(std::abs(before_ns)),
                        before_ns >= 0 ? "before" : "after");
    }
    return words += claim_words(seen.fault);
}

constexpr size_t kMostHosts = 4;

// One process of a host reads its ports, all of them use them.
void add_ranks(const Run& run, const Seen& seen, std::vector<int>& ranks) {
    if (!seen.fault.is_of_host()) {
        ranks.push_back(seen.process->rank);
        return;
    }
    for (const Process& process : run.processes) {
        if (process.host == seen.process->host) {
            ranks.push_back(process.rank);
        }
    }
}

Finding finding_of(const Run& run, const std::vector<Seen>& seen) {
    const Seen& first = seen.front();
    const Judgement& judgement = judgement_of(first.fault);
    Finding finding;
    finding.kind = judgement.kind;
    finding.confidence = judgement.confidence;
    finding.hangs = false;
    finding.since_ns = first.fault.reading->since_ns;
    for (const Seen& each : seen) {
        add_ranks(run, each, finding.ranks);
    }
    sort_unique(finding.ranks);
    finding.summary = seen_words(first);
    if (seen.size() > 1) {
        finding.summary += phrase("; {} likewise", many_counted(seen.size() - 1, "other"));
    }
    finding.summary += claim_words(first.fault);
    for (size_t i = 1; i < std::min(seen.size(), kMostHosts); ++i) {
        finding.evidence.push_back(seen_words(seen[i]));
    }
    if (first.fault.is_of_host()) {
        finding.evidence.push_back(
            phrase("as {} reads it below /sys/class/infiniband", rank_fact(first.process->rank)));
    } else if (const std::string state = gpu_state_words(first.fault.device); !state.empty()) {
        finding.evidence.push_back(phrase("that GPU now: {}", state));
    }
    if (!judgement.would_settle_it.empty()) {
        finding.would_confirm.emplace_back(std::string(judgement.would_settle_it));
    }
    return finding;
}

// The faults of each host, as seen by the process that reads its ports.
class PortFaults {
  public:
    explicit PortFaults(const Run& run) {
        for (const Process& process : run.processes) {
            for (Fault& fault : faults_of(process)) {
                if (fault.is_of_host()) {
                    of_host_[process.host].push_back({&process, std::move(fault)});
                }
            }
        }
    }

    void tell(const std::string& host, Finding& finding) const {
        const auto found = of_host_.find(host);
        for (size_t i = 0; found != of_host_.end() && i < std::min(found->second.size(), kMostHosts); ++i) {
            finding.evidence.push_back(fault_words(found->second[i]));
        }
    }

  private:
    std::map<std::string, std::vector<Seen>> of_host_;
};

// The state of its GPUs, and their faults.
void tell_gpus(const Process& process, Finding& finding) {
    for (const DeviceHealth& device : health_of(process)) {
        if (const std::string state = gpu_state_words(device); !state.empty()) {
            finding.evidence.push_back(phrase("{} of {}: {}", device.name(), rank_fact(process.rank), state));
        }
    }
    for (const Fault& fault : faults_of(process)) {
        if (!fault.is_of_host()) {
            finding.evidence.push_back(fault_words_in(finding, {&process, fault}));
        }
    }
}

// Clocks of sound hosts of one kind differ less: turbo goes down where many cores work.
constexpr double kFarBelow = 0.7;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// How fast the CPUs run on which the ranks' main threads compute, host by host.
class CpuClocks {
  public:
    explicit CpuClocks(const Run& run);

    // Adds as evidence that this host's CPUs run far slower than those of the other hosts.
    void tell(const std::string& host, Finding& finding) const;

  private:
    struct Host {
        std::vector<double> mhz;
        double most_mhz = 0;  // what they can
    };
    std::map<std::string, Host> hosts_;
};

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
        printable(host), typical, here.most_mhz, *std::ranges::min_element(here.mhz),
        counted(elsewhere.size(), "other host"), typical_elsewhere));
}

}  // namespace

void add_health_findings(const Run& run, std::vector<Finding>& findings) {
    // Alike: of the same kind of device, the same sort, and with the same to say of them.
    std::map<std::tuple<std::string, std::string, XidSource>, std::vector<Seen>> alike;
    for (const Process& process : run.processes) {
        for (Fault& fault : faults_of(process)) {
            if (fault.source != XidSource::kAftermath) {
                std::vector<Seen>& seen = alike[{fault.device.kind, fault.sort, fault.source}];
                seen.push_back({&process, std::move(fault)});
            }
        }
    }
    std::vector<Finding> found;
    for (auto& [key, seen] : alike) {
        std::ranges::stable_sort(
            seen, [](const Seen& a, const Seen& b) { return a.fault.reading->since_ns < b.fault.reading->since_ns; });
        found.push_back(finding_of(run, seen));
    }
    std::ranges::stable_sort(found, [](const Finding& a, const Finding& b) { return a.since_ns < b.since_ns; });
    std::move(found.begin(), found.end(), std::back_inserter(findings));
}

void add_health(const Evidence& evidence, std::vector<Finding>& findings) {
    const PortFaults ports(evidence.run);
    const CpuClocks clocks(evidence.run);
    for (Finding& finding : findings) {
        const bool is_slow = finding.kind == FindingKind::kStraggler || finding.kind == FindingKind::kSlowCollective;
        if (finding.hangs || is_slow) {
            std::set<std::string> hosts;
            evidence.for_each_named(finding, [&](const Process& process, Finding&) {
                tell_gpus(process, finding);
                const bool is_new_host = hosts.insert(process.host).second;
                if (is_new_host) {
                    ports.tell(process.host, finding);
                }
                if (is_new_host && is_slow) {
                    clocks.tell(process.host, finding);
                }
            });
        }
    }
}

}  // namespace titan::analyzer
