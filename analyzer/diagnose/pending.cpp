// Waits that are longer than usual and no hangs yet: what a dump that was asked for early shows.
#include <fmt/format.h>

#include <algorithm>

#include "diagnoser.h"
#include "layout.h"
#include "text.h"

namespace titan::analyzer {
namespace {

// A snapshot of a healthy job is full of shorter waits.
constexpr int64_t kWorthTellingNs = 1'000'000'000;
constexpr int64_t kUsualFactor = 2;

}  // namespace

bool Diagnoser::is_pending(const WaitNode& node) const {
    const int64_t usual_ns = usual_wait_ns(run_, node);
    const int64_t least_ns =
        std::max(kWorthTellingNs, usual_ns > INT64_MAX / kUsualFactor ? INT64_MAX : usual_ns * kUsualFactor);
    return !node.absent.empty() && !waiting_ranks(run_, node).empty() && longest_wait_ns(node) > least_ns;
}

Pending Diagnoser::pending_in(uint32_t index) const {
    const WaitNode& node = graph_.nodes[index];
    const Finding place = finding_at({}, index);
    Pending pending;
    pending.ranks = waiting_ranks(run_, node);
    for (const Absence& absence : node.absent) {
        if (absence.global_rank >= 0) {
            pending.missing.push_back(absence.global_rank);
        }
    }
    sort_unique(pending.missing);
    pending.communicator = place.communicator;
    pending.sequence = place.sequence;
    pending.op = place.op;
    pending.since_ns = place.since_ns;
    pending.waited_ns = longest_wait_ns(node);
    pending.hang_after_ns = hang_after_ns(run_, node, options_);
    constexpr size_t kHoursMinutesSeconds = 8;
    pending.summary =
        fmt::format("{} {} in {} for {}: since {}, {}{}; it would be called a hang after {}",
                    ranks_text(run_, pending.ranks), is_plural(pending.ranks) ? "wait" : "waits", node_text(run_, node),
                    absent_text(node.absent), clock_text(pending.since_ns).substr(0, kHoursMinutesSeconds),
                    pending.ranks.size() == 1 ? "for " : "the longest for ", duration_text(pending.waited_ns),
                    duration_text(pending.hang_after_ns));
    return pending;
}

void Diagnoser::add_pending() {
    if (std::any_of(diagnosis_.findings.begin(), diagnosis_.findings.end(),
                    [](const Finding& finding) { return finding.hangs; })) {
        return;
    }
    for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
        if (is_pending(graph_.nodes[index])) {
            diagnosis_.waiting.push_back(pending_in(index));
        }
    }
    // The longest waits, and of equal ones those of the most ranks, are nearest to the cause.
    std::stable_sort(diagnosis_.waiting.begin(), diagnosis_.waiting.end(), [](const Pending& a, const Pending& b) {
        return std::pair(-a.waited_ns, -static_cast<int64_t>(a.ranks.size())) <
               std::pair(-b.waited_ns, -static_cast<int64_t>(b.ranks.size()));
    });
}

}  // namespace titan::analyzer
