// Ends of ranks, as witnesses tell them.
#include "witnessed_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <tuple>

#include "host/words.h"
#include "witness.h"

namespace titan::analyzer {
namespace {

// Signals that end a job that has hung, or is not wanted any more: no cause.
bool is_end_by_others(int32_t signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

// Times are cut to seconds, and clocks of hosts differ.
constexpr int64_t kOtherClockS = 3;

bool reports_own_end(const Testimony& said) {
    return said.claim == Claim::kEnded && said.order != EndOrder::kAfterOthers && !is_end_by_others(said.signal);
}

const Process* record_of(const Run& run, int rank) {
    const auto found =
        std::ranges::find_if(run.processes, [&](const Process& process) { return process.rank == rank; });
    return found == run.processes.end() ? nullptr : &*found;
}

}  // namespace

std::string quoted(const Testimony& said) {
    return fmt::format("{} says ({}): {}", said.witness, said.file, said.text);
}

const Testimony* witnessed_end(const Run& run, int rank) {
    const Testimony* best = nullptr;
    const auto worth = [](const Testimony& said) {
        return std::tuple(said.order != EndOrder::kUnknown, said.out_of_memory,
                          said.signal != 0 || said.exit_status > 0);
    };
    for (const Testimony& said : run.testimony) {
        if (rank >= 0 && said.rank == rank && said.claim == Claim::kEnded &&
            (best == nullptr || worth(said) > worth(*best))) {
            best = &said;
        }
    }
    return best;
}

int witnessed_first(const Run& run) {
    std::map<int64_t, std::set<int>> first;  // key: time
    for (const Testimony& said : run.testimony) {
        const Process* process = record_of(run, said.rank);
        const bool asked = process != nullptr && process->ending.asked();
        if (said.order == EndOrder::kFirst && reports_own_end(said) && said.rank >= 0 && !asked) {
            first[said.wall_s].insert(said.rank);
        }
    }
    if (first.empty() || first.begin()->second.size() != 1) {
        return -1;
    }
    // Each node's launcher has a first one.
    const auto next = std::next(first.begin());
    const bool clear =
        next == first.end() || (first.begin()->first != 0 && first.begin()->first + kOtherClockS < next->first);
    return clear ? *first.begin()->second.begin() : -1;
}

bool died_unrecorded(const Run& run, int rank) {
    const Testimony* said = witnessed_end(run, rank);
    const bool missing = std::ranges::binary_search(run.missing_ranks, rank);
    // An abort is how a watchdog ends a rank that waits: of what others did.
    return missing && said != nullptr && reports_own_end(*said) &&
           (said->signal != SIGABRT || said->order == EndOrder::kFirst) &&
           (said->signal != 0 || said->exit_status > 0 || said->out_of_memory);
}

std::string witnessed_end_text(const Run& run, int rank) {
    constexpr size_t kMaxMessageBytes = 120;
    const Testimony* end = witnessed_end(run, rank);
    if (end == nullptr) {
        return {};
    }
    std::string text = ending_text(*end);
    for (const Testimony& said : run.testimony) {
        if (said.rank == rank && !said.message.empty()) {
            const bool cut = said.message.size() > kMaxMessageBytes;
            text +=
                (text.empty() ? "" : ": ") + printable(said.message.substr(0, kMaxMessageBytes)) + (cut ? "..." : "");
            break;
        }
    }
    return text;
}

void add_testimony(const Run& run, std::vector<Finding>& findings) {
    constexpr size_t kShown = 4;
    for (Finding& finding : findings) {
        size_t shown = 0;
        for (const Testimony& said : run.testimony) {
            const bool of_these = said.rank >= 0 && said.order != EndOrder::kAfterOthers &&
                                  std::ranges::binary_search(finding.ranks, said.rank);
            // The kernel ended somebody, and nobody says whom.
            const bool out_of_memory = said.rank < 0 && said.out_of_memory && finding.kind == FindingKind::kRankDead;
            if ((of_these || out_of_memory) && shown++ < kShown) {
                finding.evidence.push_back(quoted(said));
            }
        }
        for (const Testimony& said : run.testimony) {
            const bool waited = finding.hangs && said.watchdog && said.watchdog->timed_out &&
                                std::ranges::binary_search(finding.victims, said.rank);
            if (waited && shown++ < kShown) {
                finding.evidence.push_back(quoted(said));
            }
        }
    }
}

}  // namespace titan::analyzer
