// Introduces the report: the run, its ranks and hosts, and why each record was made.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "formats/layout/label_names.h"
#include "host/mapped.h"
#include "host/words.h"
#include "layout.h"
#include "report_parts.h"

namespace titan::analyzer {
namespace {

using format::DumpReason;

struct Origin {
    DumpReason reason;
    std::string_view words;
};
// Counts of a healthy rank's dumps must not read as accusations.
constexpr auto kOrigins = std::to_array<Origin>({
    {DumpReason::kTimeout, "by the watchdog"},
    {DumpReason::kStandstill, "in a wait outside NCCL"},
    {DumpReason::kPeer, "on request of another rank"},
    {DumpReason::kCrash, "after a crash or a kill"},
    {DumpReason::kAbort, "at ncclCommAbort"},
    {DumpReason::kExit, "at the end of the process"},
    {DumpReason::kEnd, "when they were told to end"},
    {DumpReason::kSignal, "on a signal"},
    {DumpReason::kRequest, "on request of titan-dump"},
    {DumpReason::kApi, "by the program itself"},
    {DumpReason::kCollected, "saved from the ring of an ended process"},
});

std::string_view origin_of(const Process& process) {
    if (process.source.is_ring) {
        return "read from the ring";
    }
    if (process.source.is_journal) {
        return "from the journal";
    }
    if (process.source.is_flight_recorder) {
        return "by PyTorch's Flight Recorder";
    }
    if (process.source.reason == DumpReason::kCollected && process.liveness == Liveness::kAlive) {
        return "read from outside while the process lived";
    }
    const auto known =
        std::ranges::find_if(kOrigins, [&](const Origin& origin) { return origin.reason == process.source.reason; });
    return known == kOrigins.end() ? std::string_view("for an unknown reason") : known->words;
}

// Records of one origin, and the program's own words for dumps that it asked for.
struct Records {
    std::string_view origin;
    size_t count = 0;
    std::set<std::string> reasons{};
};

// "2 by the program itself ("the loss is too high")".
std::string records_text(const Records& records) {
    constexpr size_t kMostCharacters = 80;
    std::string text = fmt::format("{} {}", records.count, records.origin);
    if (records.reasons.empty()) {
        return text;
    }
    const std::string reason = shortened(*records.reasons.begin(), kMostCharacters);
    const size_t others = records.reasons.size() - 1;
    return text + fmt::format(" (\"{}\"{})", reason,
                              others == 0 ? "" : fmt::format(" and {}", counted(others, "other reason")));
}

std::string hosts_text(const Run& run) {
    return run.hosts.empty()       ? std::string()
           : run.hosts.size() == 1 ? fmt::format(" on host {}", run.hosts.front())
                                   : fmt::format(" on {} hosts", run.hosts.size());
}

// ", newest of 2026-11-22 08:27:56 +01:00; dumps of 2026-11-22 08:27:49 +01:00 are older: --no-rings reads those".
std::string moment_text(const Run& run) {
    int64_t newest_ns = 0;
    int64_t replaced_ns = 0;
    for (const Process& process : run.processes) {
        newest_ns = std::max(newest_ns, process.now_ns < kLatestNs ? process.now_ns : 0);
        replaced_ns = std::max(replaced_ns, process.source.replaced_ns);
    }
    const std::string older =
        replaced_ns == 0 ? "" : fmt::format("; dumps of {} are older: --no-rings reads those", date_text(replaced_ns));
    return newest_ns == 0 ? older : fmt::format(", newest of {}{}", date_text(newest_ns), older);
}

std::string passed_over_text(const Run& run) {
    return run.passed_over == 0
               ? ""
               : fmt::format("; {} there {} older: --list-runs shows {}", counted(run.passed_over, "other attempt"),
                             verb_form(run.passed_over, "is", "are"), verb_form(run.passed_over, "it", "them"));
}

// "; application llama3, git_sha 1f2e3d4c5b6a". What is longer, or empty, titan-analyze show --labels tells.
std::string labels_text(const Run& run) {
    constexpr size_t kMostLabels = 6;
    constexpr size_t kCommitCharacters = 12;
    constexpr size_t kMostCharacters = 60;
    std::string text;
    size_t shown = 0;
    size_t left = 0;
    for (const auto& [key, value] : shared_labels(run)) {
        if (shown == kMostLabels || value.empty() || key.size() + value.size() > kMostCharacters) {
            ++left;
            continue;
        }
        text += fmt::format("{}{} {}", shown++ == 0 ? "; " : ", ", key,
                            key == format::kCommitLabel ? value.substr(0, kCommitCharacters) : value);
    }
    return text + (left != 0 ? fmt::format("{}{}", shown == 0 ? "; " : " and ", counted(left, "more label")) : "");
}

}  // namespace

std::string run_title(const Run& run, size_t most_characters) {
    return fmt::format("run {} attempt {}{}", run.id.empty() ? "(unnamed)" : shortened(run.id, most_characters),
                       run.attempt,
                       run.starts == 0 ? std::string() : fmt::format(" start {} of {}", run.start, run.starts));
}

int64_t newest_step(const Run& run) {
    int64_t newest = -1;
    for (const Process& process : run.processes) {
        newest = std::max(newest, process.step);
    }
    return newest;
}

std::vector<int> missing_ranks(const Run& run, const std::set<int>& wanted) {
    std::vector<int> missing;
    std::ranges::copy_if(run.missing_ranks, std::back_inserter(missing),
                         [&](int rank) { return wanted.empty() || wanted.contains(rank); });
    return missing;
}

std::map<std::string, std::string> shared_labels(const Run& run) {
    std::map<std::string, std::string> shared;
    std::set<std::string> differ;
    for (const Process& process : run.processes) {
        for (const auto& [key, value] : process.labels) {
            const std::string& name = process.text(key);
            const auto [known, is_new] = shared.try_emplace(name, process.text(value));
            if (!is_new && known->second != process.text(value)) {
                differ.insert(name);
            }
        }
    }
    // Facts about a process or a rank, which may be the same by chance.
    std::erase_if(shared, [&](const auto& label) {
        return differ.contains(label.first) || row_of(role_of_name(label.first)).has_place ||
               label.first == format::kNcclErrorLabel || label.first.starts_with("gpu.");
    });
    return shared;
}

std::string outline_text(const Run& run) {
    if (run.processes.empty()) {
        std::set<std::string> witnesses;
        for (const Testimony& said : run.testimony) {
            witnesses.insert(said.witness);
        }
        return fmt::format("no dump and no ring, only {} of {}", counted(run.testimony.size(), "statement"),
                           fmt::join(witnesses, ", "));
    }
    std::vector<Records> told;
    for (const Process& process : run.processes) {
        const std::string_view origin = origin_of(process);
        const auto known = std::ranges::find_if(told, [&](const Records& records) { return records.origin == origin; });
        Records& records = known == told.end() ? told.emplace_back(Records{origin}) : *known;
        ++records.count;
        if (process.source.reason == DumpReason::kApi && !process.source.detail.empty()) {
            records.reasons.insert(process.source.detail);
        }
    }
    std::ranges::stable_sort(told, [](const Records& a, const Records& b) { return a.count > b.count; });
    const std::string ranks = run.world_size > 0 ? fmt::format("{} of {} ranks", run.ranks.size(), run.world_size)
                                                 : fmt::format("{} ranks", run.processes.size());
    const std::string in_processes = run.ranks.size() > run.processes.size() && run.processes.size() > 0
                                         ? fmt::format(" in {}", counted(run.processes.size(), "process"))
                                         : std::string();
    return fmt::format("{}: {}{}{}; records: {}{}{}{}", run_title(run), ranks, in_processes, hosts_text(run),
                       listed(mapped(told, records_text)), moment_text(run), passed_over_text(run), labels_text(run));
}

}  // namespace titan::analyzer
