#include "link_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "host/words.h"
#include "layout.h"
#include "overcommitted_hosts.h"

namespace titan::analyzer {
namespace {

// Dumps of one hang are asked for within seconds; one that is older by more than this shows another moment.
constexpr int64_t kStaleNs = 30'000'000'000;

constexpr auto kLossSentences = std::to_array<std::string_view>({
#define TITAN_LOSS_SENTENCE(number, id, name, sentence) sentence,
    TITAN_LOSSES(TITAN_LOSS_SENTENCE)
#undef TITAN_LOSS_SENTENCE
});

std::string hosts_of_missing(const Run& run) {
    constexpr size_t kShown = 4;
    std::string text;
    for (size_t i = 0; i < run.missing_ranks.size() && i < kShown; ++i) {
        const std::string host = likely_host_text(run, run.missing_ranks[i]);
        text += host.empty() ? "" : "; " + host;
    }
    return text;
}

void warn_of_missing(Run& run) {
    if (run.missing_ranks.empty()) {
        return;
    }
    const bool foreign = !run.processes.empty() && run.processes.front().source.is_flight_recorder;
    if (foreign) {
        run.warnings.push_back(
            {WarningKind::kMissingDump, run.missing_ranks,
             fmt::format("no Flight Recorder file of {}: died before writing it, or the file was not gathered",
                         ranks_text(run.missing_ranks)) +
                 hosts_of_missing(run)});
        return;
    }
    const std::string why = run.partial_recording ? "TITANTRACE_RANKS was set, so they may not record at all"
                                                  : "died before dumping, unreachable, or started without the preload";
    run.warnings.push_back(
        {WarningKind::kMissingDump, run.missing_ranks,
         fmt::format("no dump and no ring of {}: {}{}", ranks_text(run.missing_ranks), why, hosts_of_missing(run))});
}

void warn_of_stale(Run& run) {
    int64_t newest = 0;
    for (const Process& process : run.processes) {
        newest = std::max(newest, process.liveness == Liveness::kAlive ? process.now_ns : 0);
    }
    std::vector<int> stale;
    int64_t oldest = newest;
    for (const Process& process : run.processes) {
        if (process.liveness == Liveness::kAlive && process.now_ns < newest - kStaleNs) {
            stale.push_back(process.rank);
            oldest = std::min(oldest, process.now_ns);
        }
    }
    if (!stale.empty()) {
        run.warnings.push_back(
            {WarningKind::kStaleDump, stale,
             fmt::format("the newest dump of {} is up to {} older than the others': it shows another moment",
                         ranks_text(stale), duration_text(newest - oldest))});
    }
}

void warn_of_losses(Run& run) {
    std::map<size_t, std::pair<uint64_t, std::vector<int>>> by_loss;
    std::pair<uint64_t, std::vector<int>> overwritten;
    std::pair<uint64_t, std::vector<int>> foreign;
    std::pair<uint64_t, std::vector<int>> torn;
    const auto add = [](auto& sum, uint64_t count, int rank) {
        if (count != 0) {
            sum.first += count;
            sum.second.push_back(rank);
        }
    };
    for (const Process& process : run.processes) {
        for (size_t loss = 0; loss < format::kLossCount; ++loss) {
            if (process.losses[loss] != 0) {
                add(by_loss[loss], process.losses[loss], process.rank);
            }
        }
        add(process.source.is_flight_recorder ? foreign : overwritten, process.overwritten, process.rank);
        add(torn, process.torn, process.rank);
    }
    const auto warn = [&](const auto& sum, std::string_view what) {
        if (sum.first != 0) {
            run.warnings.push_back({WarningKind::kLostEntries, sum.second,
                                    fmt::format("{}: {} {}", ranks_text(sum.second), grouped_digits(sum.first), what)});
        }
    };
    warn(overwritten,
         "older calls were overwritten, as usual in a ring; raise TITANTRACE_COLLECTIVES to see further back");
    warn(foreign, "older calls were overwritten or left out; raise TORCH_FR_BUFFER_SIZE to see further back");
    warn(torn, "calls were being written at the moment of the dump, or are damaged");
    for (const auto& [loss, sum] : by_loss) {
        warn(sum, kLossSentences[loss]);
    }
}

void warn_of_overcommitted(Run& run) {
    for (const OvercommittedHost& host : overcommitted_hosts(run)) {
        run.warnings.push_back({WarningKind::kOvercommittedHost, host.ranks,
                                host.text + ": a rank that is late there may only have waited for a processor"});
    }
}

void warn_of_unrecorded(Run& run) {
    std::map<std::string, std::vector<int>> by_library;
    for (const Process& process : run.processes) {
        for (const std::string& library : process.unrecorded) {
            by_library[library].push_back(process.rank);
        }
    }
    for (const auto& [library, ranks] : by_library) {
        run.warnings.push_back(
            {WarningKind::kNotRecorded, ranks,
             fmt::format("{}: {}: what moves data that way is not recorded, and a hang in it shows only as "
                         "a kernel that does not end",
                         ranks_text(ranks), library)});
    }
}

}  // namespace

void warn_of_gaps(Run& run) {
    warn_of_missing(run);
    warn_of_stale(run);
    warn_of_losses(run);
    warn_of_overcommitted(run);
    warn_of_unrecorded(run);
}

}  // namespace titan::analyzer
