#include "top/conclusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "host/mapped.h"
#include "host/words.h"
#include "top/view.h"

namespace titan::tools {
namespace {

constexpr int64_t kLongNs = 1'000'000'000;   // shorter waits are the job's daily life
constexpr int64_t kAlarmNs = 5'000'000'000;  // longer than most steps

bool waits(const RankRow& row) { return !row.waits_for.empty() && row.waits_ns >= kLongNs; }
// It will not come. One in another container runs, as far as its heart tells.
bool is_away(const RankRow& row) { return row.state != "running" && row.state != "elsewhere" && row.state != "exited"; }

std::string what_it_does(const RankRow& row) {
    if (is_away(row)) {
        return row.state;
    }
    return (row.doing.empty() ? "running" : row.doing) +
           (row.doing_ns >= kLongNs ? " for " + duration_text(row.doing_ns) : std::string()) +
           (row.span.empty() ? "" : ", span " + row.span);
}

// "rank 5: stopped; rank 7: in program code for 6.3 s".
std::string who_does_what(const std::vector<const RankRow*>& rows) {
    std::vector<std::pair<std::string, std::vector<int>>> groups;
    for (const RankRow* const row : rows) {
        const std::string what = what_it_does(*row);
        const auto known =
            std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == what; });
        known == groups.end() ? groups.push_back({what, {row->rank}}) : known->second.push_back(row->rank);
    }
    const auto text_of = [](const auto& group) { return ranks_text(group.second) + ": " + group.first; };
    return listed(mapped(groups, text_of), SIZE_MAX, "; ");
}

std::vector<int> ranks_of(const std::vector<const RankRow*>& rows) { return mapped(rows, &RankRow::rank); }

using Rows = std::map<int, const RankRow*>;

// The ranks that others wait for, at the ends of all chains of waits: if some will not come, only those. In a circle of
// waits, the ranks whose host is not held in one: a GPU that waits says nothing of its rank's host.
std::vector<const RankRow*> ends_of_chains(const Rows& rows) {
    std::set<int> awaited;
    for (const auto& [rank, row] : rows) {
        if (waits(*row)) {
            awaited.insert(row->waits_for.begin(), row->waits_for.end());
        }
    }
    std::vector<const RankRow*> away;
    std::vector<const RankRow*> ends;
    std::vector<const RankRow*> free;
    for (const auto& [rank, row] : rows) {
        if (!awaited.empty() && is_away(*row)) {
            away.push_back(row);
        } else if (awaited.contains(rank)) {
            if (!waits(*row)) {
                ends.push_back(row);
            } else if (row->doing == "in program code") {
                free.push_back(row);
            }
        }
    }
    return !away.empty() ? away : !ends.empty() ? ends : free;
}

std::string progress_text(const JobView& job) {
    int64_t first = INT64_MAX;
    int64_t last = -1;
    double slowest = -1;
    for (const RankRow& row : job.ranks) {
        if (row.step >= 0) {
            first = std::min(first, row.step);
            last = std::max(last, row.step);
        }
        if (row.steps_per_s >= 0) {
            slowest = slowest < 0 ? row.steps_per_s : std::min(slowest, row.steps_per_s);
        }
    }
    if (last < 0) {
        return "no rank waits for long";
    }
    return (first == last ? fmt::format("step {}", last) : fmt::format("steps {} to {}", first, last)) +
           (slowest < 0 ? std::string() : fmt::format(", {:.2f} a second", slowest));
}

}  // namespace

const char* name_of(Alert alert) { return alert == Alert::kAlarm ? "alarm" : alert == Alert::kLook ? "look" : "none"; }

Conclusion conclusion_of(const JobView& job) {
    Rows rows;
    std::vector<const RankRow*> away;
    std::vector<const RankRow*> throttled;
    std::vector<const RankRow*> odd;  // with the same metric
    std::vector<int> waiting;
    int64_t longest_ns = 0;
    for (const RankRow& row : job.ranks) {
        rows.try_emplace(row.rank, &row);
        if (is_away(row)) {
            away.push_back(&row);
        } else if (waits(row)) {
            waiting.push_back(row.rank);
            longest_ns = std::max(longest_ns, row.waits_ns);
        }
        if (row.is_throttled) {
            throttled.push_back(&row);
        }
        if (!row.odd_metric.empty() && (odd.empty() || odd.front()->odd_metric == row.odd_metric)) {
            odd.push_back(&row);
        }
    }
    for (const CallRow& call : job.calls) {
        longest_ns = call.elsewhere != 0 ? std::max(longest_ns, call.pending_ns) : longest_ns;
    }
    const Alert alert = longest_ns >= kAlarmNs ? Alert::kAlarm : Alert::kLook;
    const std::vector<const RankRow*> ends = ends_of_chains(rows);
    if (!ends.empty()) {
        std::erase_if(waiting, [&](int rank) {
            return std::any_of(ends.begin(), ends.end(), [&](const RankRow* row) { return row->rank == rank; });
        });
        return {std::any_of(ends.begin(), ends.end(), [](const RankRow* row) { return is_away(*row); }) ? Alert::kAlarm
                                                                                                        : alert,
                fmt::format("{}; {} {} for {}, {}", who_does_what(ends), counted(waiting.size(), "rank"),
                            verb_form(waiting.size(), "waits", "wait"), verb_form(ends.size(), "it", "them"),
                            duration_text(longest_ns)),
                ranks_of(ends)};
    }
    if (!away.empty()) {
        return {Alert::kAlarm, who_does_what(away), ranks_of(away)};
    }
    if (!waiting.empty()) {
        return {alert, fmt::format("{} wait for each other, {}", ranks_text(waiting), duration_text(longest_ns)),
                waiting};
    }
    const auto other_nodes = std::find_if(job.calls.begin(), job.calls.end(), [](const CallRow& call) {
        return call.elsewhere != 0 && call.pending_ns >= kLongNs && call.missing.empty() && call.queued.empty();
    });
    if (other_nodes != job.calls.end()) {
        return {alert,
                fmt::format("ranks of other nodes: all here have come to {}, {} ago", other_nodes->what,
                            duration_text(other_nodes->pending_ns)),
                {}};
    }
    if (!throttled.empty()) {
        return {Alert::kLook,
                fmt::format("the GPU of {} is throttled; {}", ranks_text(ranks_of(throttled)), progress_text(job)),
                ranks_of(throttled)};
    }
    if (!odd.empty()) {
        return {Alert::kLook,
                fmt::format("metric {} is not finite on {}; {}", odd.front()->odd_metric, ranks_text(ranks_of(odd)),
                            progress_text(job)),
                ranks_of(odd)};
    }
    return {Alert::kNone, progress_text(job), {}};
}

}  // namespace titan::tools
