#include "overcommitted_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "host/words.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr double kMuch = 0.25;              // share of the time that threads wanted to run
constexpr double kSome = 0.1;               // the same, where the load is high, too
constexpr double kHighLoad = 1.5;           // runnable threads per processor
constexpr double kOfTheCost = 0.5;          // waits for a processor that are so much of a cost explain it,
constexpr double kWaitsLonger = 1.2;        // if they are so many times those of the other ranks
constexpr uint64_t kLeastNs = 500'000'000;  // least delay: shorter ones tell nothing

bool load_is_high(const Processors& seen) { return seen.load_cent[0] > kHighLoad * 100 * seen.online; }

// Threads that wait for a disk count in the load: alone it tells only where the kernel counts no delays.
bool is_short(const Processors& seen) {
    const double share = delayed_share(seen);
    return seen.known() && (share >= kMuch || (load_is_high(seen) && (share >= kSome || seen.threads == 0)));
}

double share_of_wanted(const Processors& seen) {
    const double wanted_ns = static_cast<double>(seen.run_ns) + static_cast<double>(seen.run_delay_ns);
    return wanted_ns > 0 ? static_cast<double>(seen.run_delay_ns) / wanted_ns : 0;
}

int64_t delay_ns(const Processors& seen) {
    return static_cast<int64_t>(std::min<uint64_t>(seen.run_delay_ns, INT64_MAX));
}

std::string figures(const Process& process) {
    const Processors& seen = process.processors;
    std::string text;
    if (seen.threads != 0) {
        text = fmt::format(
            "threads of rank {} waited for a processor for {:.0f}% of the time that they were ready to run, "
            "{} in all; ",
            process.rank, 100 * share_of_wanted(seen), duration_text(delay_ns(seen)));
    }
    text += fmt::format("load average {:.1f} on {} processors", seen.load_cent[0] / 100.0, seen.online);
    if (seen.allowed != 0 && seen.allowed < seen.online) {
        text += fmt::format(", {} of them for it", seen.allowed);
    }
    if (seen.quota_cent != 0) {
        text += fmt::format(", a cgroup quota of {:.2f}", seen.quota_cent / 100.0);
    }
    return text;
}

bool holds(const std::vector<int>& ranks, int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

const char* why_unknown(const Process& process) {
    return process.source.is_flight_recorder ? "Flight Recorder files do not say"
           : process.source.is_ring          ? "its rings were read; only dumps say it"
                                             : "its records do not say";
}

}  // namespace

double delayed_share(const Processors& seen) { return seen.run_delay_ns < kLeastNs ? 0 : share_of_wanted(seen); }

std::vector<OvercommittedHost> overcommitted_hosts(const Run& run) {
    std::map<std::string, std::pair<const Process*, std::vector<int>>> by_host;  // the worst off
    for (const Process& process : run.processes) {
        auto& [worst, ranks] = by_host.try_emplace(process.host, nullptr, std::vector<int>()).first->second;
        ranks.push_back(process.rank);
        if (is_short(process.processors) &&
            (worst == nullptr || delayed_share(process.processors) > delayed_share(worst->processors))) {
            worst = &process;
        }
    }
    std::vector<OvercommittedHost> hosts;
    for (auto& [host, seen] : by_host) {
        if (seen.first != nullptr) {
            hosts.push_back(
                {host, std::move(seen.second),
                 fmt::format("the processors of host {} are overcommitted: {}", host, figures(*seen.first))});
        }
    }
    return hosts;
}

int64_t lacked_processors_ns(const Process& process) {
    return is_short(process.processors) ? delay_ns(process.processors) : 0;
}

std::optional<std::string> explained_by_processors(const Run& run, const std::vector<int>& ranks, double share) {
    const auto delayed_of_life = [](const Process& process) {
        const auto lived_ns = static_cast<double>(process.now_ns - process.started_ns);
        return lived_ns > 0 ? static_cast<double>(process.processors.run_delay_ns) / lived_ns : 0;
    };
    std::vector<double> of_others;
    for (const Process& process : run.processes) {
        if (!holds(ranks, process.rank) && process.processors.known()) {
            of_others.push_back(delayed_of_life(process));
        }
    }
    const double usual = median_of(std::move(of_others));
    for (const Process& process : run.processes) {
        const double own = delayed_of_life(process);
        if (holds(ranks, process.rank) && own > kOfTheCost * share && own > kWaitsLonger * usual) {
            return figures(process);
        }
    }
    return std::nullopt;
}

void weigh_processors(const Run& run, Finding& finding) {
    bool short_of = false;
    for (const OvercommittedHost& host : overcommitted_hosts(run)) {
        if (std::any_of(host.ranks.begin(), host.ranks.end(), [&](int rank) { return holds(finding.ranks, rank); })) {
            finding.evidence.push_back(host.text);
            short_of = true;
        }
    }
    if (short_of) {
        finding.confidence = Confidence::kPossible;
        finding.would_confirm.emplace_back("a run with a processor for every thread that wants one");
        return;
    }
    const auto unknown = std::find_if(run.processes.begin(), run.processes.end(), [&](const Process& process) {
        return holds(finding.ranks, process.rank) && !process.processors.known();
    });
    if (unknown != run.processes.end()) {
        finding.evidence.push_back(fmt::format("whether the processors of host {} were overcommitted is not known: {}",
                                               unknown->host, why_unknown(*unknown)));
    }
}

}  // namespace titan::analyzer
