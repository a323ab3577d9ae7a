#include "health_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "formats/layout/health_names.h"
#include "health_of.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

// One fault of one device, as a process saw it.
struct Fault {
    DeviceHealth device;
    std::string what;  // "is throttled (too hot (hardware))"
    const HealthReading* reading;
};

constexpr double kActivePort = 4;  // sysfs: "4: ACTIVE"

// Counters of a port that do not grow on a healthy one, and how far they may grow all the same while a process runs.
struct ErrorCounter {
    std::string_view name;
    double allowed;
};
constexpr auto kPortErrors = std::to_array<ErrorCounter>({{"symbol_error", 100},
                                                          {"link_error_recovery", 0},
                                                          {"link_downed", 0},
                                                          {"port_rcv_errors", 10},
                                                          {"local_link_integrity_errors", 0},
                                                          {"excessive_buffer_overrun_errors", 0},
                                                          {"local_ack_timeout_err", 10}});
constexpr auto kLinkErrors =
    std::to_array<ErrorCounter>({{"nvlink_crc_errors", 1000}, {"nvlink_replays", 100}, {"nvlink_recoveries", 0}});

std::string number_text(double value) { return grouped_digits(static_cast<uint64_t>(std::max(value, 0.0))); }

template <typename Counters>
void add_counter_faults(const DeviceHealth& device, const Counters& counters, std::vector<Fault>& faults) {
    for (const ErrorCounter& counter : counters) {
        const HealthReading* const reading = device.find(counter.name);
        if (reading != nullptr && reading->value - reading->first_value > counter.allowed) {
            faults.push_back({device,
                              fmt::format("has counted {} {} since the process began",
                                          number_text(reading->value - reading->first_value), counter.name),
                              reading});
        }
    }
}

void add_gpu_faults(const DeviceHealth& gpu, std::vector<Fault>& faults) {
    const auto add = [&](const char* reading, auto&& is_fault, auto&& words) {
        const HealthReading* const found = gpu.find(reading);
        if (found != nullptr && is_fault(*found)) {
            faults.push_back({gpu, words(*found), found});
        }
    };
    add(
        "xid", [](const HealthReading& r) { return r.value > 0; },
        [](const HealthReading& r) {
            const auto number = static_cast<uint32_t>(r.value);
            const format::Xid* const known = format::find_xid(number);
            return fmt::format("reported Xid {}{}", number, known == nullptr ? "" : fmt::format(" ({})", known->words));
        });
    add(
        "ecc_uncorrected", [](const HealthReading& r) { return r.value > r.first_value; },
        [](const HealthReading& r) {
            return fmt::format("has had {} since the process began",
                               counted(static_cast<uint64_t>(r.value - r.first_value), "uncorrected memory error"));
        });
    add(
        "clock_limits",
        [](const HealthReading& r) { return (static_cast<uint64_t>(r.value) & format::fault_limits()) != 0; },
        [](const HealthReading& r) {
            return fmt::format("is throttled ({})",
                               format::clock_limit_words(static_cast<uint64_t>(r.value) & format::fault_limits()));
        });
    const HealthReading* const widest = gpu.find("max_pcie_width");
    add(
        "pcie_width", [&](const HealthReading& r) { return widest != nullptr && r.value < widest->value; },
        [&](const HealthReading& r) { return fmt::format("has {:.0f} of {:.0f} PCIe lanes", r.value, widest->value); });
    add(
        "nvlinks_up", [](const HealthReading& r) { return r.value < r.first_value; },
        [](const HealthReading& r) {
            return fmt::format("has {:.0f} of {:.0f} NVLinks left", r.value, r.first_value);
        });
    add_counter_faults(gpu, kLinkErrors, faults);
}

void add_port_faults(const DeviceHealth& port, std::vector<Fault>& faults) {
    const HealthReading* const state = port.find("state");
    if (state != nullptr && state->first_value == kActivePort && state->value != kActivePort) {
        faults.push_back({port, "is not active any more", state});
    }
    add_counter_faults(port, kPortErrors, faults);
}

std::vector<Fault> faults_of(const Process& process) {
    std::vector<Fault> faults;
    for (const DeviceHealth& device : health_of(process)) {
        if (device.kind == "gpu") {
            add_gpu_faults(device, faults);
        } else if (device.kind == "port") {
            add_port_faults(device, faults);
        }
    }
    return faults;
}

std::string since_words(const HealthReading& reading) {
    return reading.since_step < 0 ? "since " + clock_text(reading.since_ns)
                                  : fmt::format("since step {}", reading.since_step);
}

// A port belongs to the host, a GPU to the rank.
bool is_of_host(const Fault& fault) { return fault.device.kind == "port"; }

struct Seen {
    const Process* process;
    Fault fault;
};

Sentence owner_words(const Process& process, const Fault& fault) {
    return is_of_host(fault) ? phrase("of host {}", printable(process.host))
                             : phrase("of {} on host {}", rank_fact(process.rank), printable(process.host));
}

Sentence fault_words(const Seen& seen) {
    return phrase("{} {} {} {}", seen.fault.device.name(), owner_words(*seen.process, seen.fault), seen.fault.what,
                  since_words(*seen.fault.reading));
}

constexpr size_t kMostTold = 4;

// One process of a host reads its ports, all of them use them.
void add_ranks(const Run& run, const Seen& seen, std::vector<int>& ranks) {
    if (!is_of_host(seen.fault)) {
        ranks.push_back(seen.process->rank);
        return;
    }
    for (const Process& process : run.processes) {
        if (process.host == seen.process->host) {
            ranks.push_back(process.rank);
        }
    }
}

void add_finding(const Run& run, std::vector<Seen>& seen, std::vector<Finding>& findings) {
    std::stable_sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
        return a.fault.reading->since_ns < b.fault.reading->since_ns;
    });
    const Seen& first = seen.front();
    Finding finding;
    finding.kind = FindingKind::kHardwareFault;
    finding.hangs = false;
    finding.since_ns = first.fault.reading->since_ns;
    for (const Seen& each : seen) {
        add_ranks(run, each, finding.ranks);
    }
    sort_unique(finding.ranks);
    finding.summary = fault_words(first);
    if (seen.size() > 1) {
        finding.summary += phrase("; {} likewise", many_counted(seen.size() - 1, "other"));
    }
    for (size_t i = 1; i < std::min(seen.size(), kMostTold); ++i) {
        finding.evidence.push_back(fault_words(seen[i]));
    }
    if (is_of_host(first.fault)) {
        finding.evidence.push_back(
            phrase("as {} reads it below /sys/class/infiniband", rank_fact(first.process->rank)));
    } else if (const std::string state = gpu_state_words(first.fault.device); !state.empty()) {
        finding.evidence.push_back(phrase("that GPU now: {}", state));
    }
    findings.push_back(std::move(finding));
}

// Those of each host, as the process saw them that reads its ports.
class PortFaults {
  public:
    explicit PortFaults(const Run& run) {
        for (const Process& process : run.processes) {
            for (Fault& fault : faults_of(process)) {
                if (is_of_host(fault)) {
                    of_host_[process.host].push_back({&process, std::move(fault)});
                }
            }
        }
    }

    void tell(const std::string& host, Finding& finding) const {
        const auto found = of_host_.find(host);
        for (size_t i = 0; found != of_host_.end() && i < std::min(found->second.size(), kMostTold); ++i) {
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
        if (!is_of_host(fault)) {
            finding.evidence.push_back(fault_words({&process, fault}));
        }
    }
}

// Faults that are told in the same words but for numbers.
std::string kind_of(const Fault& fault) {
    std::string kind = fault.device.kind + " ";
    for (const char c : fault.what) {
        if ((c < '0' || c > '9') && c != ',') {
            kind += c;
        }
    }
    return kind;
}

}  // namespace

void add_health_findings(const Run& run, std::vector<Finding>& findings) {
    std::map<std::string, std::vector<Seen>> by_kind;
    for (const Process& process : run.processes) {
        for (Fault& fault : faults_of(process)) {
            std::vector<Seen>& alike = by_kind[kind_of(fault)];
            alike.push_back({&process, std::move(fault)});
        }
    }
    for (auto& [kind, seen] : by_kind) {
        add_finding(run, seen, findings);
    }
}

void add_health(const Evidence& evidence, std::vector<Finding>& findings) {
    const PortFaults ports(evidence.run);
    for (Finding& finding : findings) {
        if (finding.hangs || finding.kind == FindingKind::kStraggler || finding.kind == FindingKind::kSlowCollective) {
            std::set<std::string> hosts;
            evidence.for_each_named(finding, [&](const Process& process, Finding&) {
                tell_gpus(process, finding);
                if (hosts.insert(process.host).second) {
                    ports.tell(process.host, finding);
                }
            });
        }
    }
}

}  // namespace titan::analyzer
