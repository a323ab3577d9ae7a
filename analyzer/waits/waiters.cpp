// Members that a node of the wait-for graph has as waiting or absent, told by more than their own calls.
#include "waiters.h"

#include <algorithm>

#include "call_order.h"
#include "wait_graph.h"

namespace titan::analyzer {

const Waiter* first_call(const WaitNode& node) {
    const auto found = std::find_if(node.waiting.begin(), node.waiting.end(),
                                    [](const Waiter& waiter) { return waiter.entry != nullptr; });
    return found == node.waiting.end() ? nullptr : &*found;
}

int64_t longest_wait_ns(const WaitNode& node) {
    int64_t longest = 0;
    for (const Waiter& waiter : node.waiting) {
        longest = std::max(longest, waiter.age_ns);
    }
    return longest;
}

int64_t latest_end_ns(const WaitNode& node) {
    int64_t latest_ns = 0;
    for (const Waiter& waiter : node.waiting) {
        latest_ns = std::max(latest_ns, waiter.since_ns + waiter.age_ns);
    }
    return latest_ns;
}

bool ends_early(const Process& process, const WaitNode& node) {
    constexpr int64_t kEarlyNs = 10'000'000'000;
    int64_t longest_ns = 0;
    int64_t first_ns = INT64_MAX;
    for (const Waiter& waiter : node.waiting) {
        longest_ns = std::max(longest_ns, waiter.age_ns);
        first_ns = std::min(first_ns, waiter.since_ns);
    }
    const int64_t unseen_ns = latest_end_ns(node) - process.now_ns;
    return process.sees.by_watchdog && unseen_ns > kEarlyNs && longest_ns > unseen_ns / 2 &&
           process.now_ns - first_ns < unseen_ns / 2;
}

void set_early_records_aside(const Run& run, WaitGraph& graph) {
    for (WaitNode& node : graph.nodes) {
        std::vector<Waiter> stay;
        for (const Waiter& waiter : node.waiting) {
            if (ends_early(run.process(waiter.member), node)) {
                const Member& member = run.member(waiter.member);
                node.absent.push_back(
                    {waiter.member, member.rank, member.global_rank, AbsenceReason::kLeft, {}, false});
            } else {
                stay.push_back(waiter);
            }
        }
        node.waiting = std::move(stay);
    }
}

void drop_guessed_holds(const Run& run, WaitGraph& graph) {
    for (WaitNode& node : graph.nodes) {
        for (Absence& absence : node.absent) {
            const bool guessed = node.kind == WaitKind::kCollective && absence.reason == AbsenceReason::kNotIssued &&
                                 absence.member.known() && !run.process(absence.member).sees.host_calls;
            std::erase_if(absence.held_by, [&](uint32_t holder) {
                const WaitNode& held_in = graph.nodes[holder];
                return guessed && held_in.kind == WaitKind::kCollective &&
                       std::any_of(held_in.waiting.begin(), held_in.waiting.end(), [&](const Waiter& waiter) {
                           return waiter.member.process != absence.member.process && waiter.entry != nullptr &&
                                  made_after(run, waiter.member.process, {node.communicator, node.sequence},
                                             waiter.entry->place);
                       });
            });
        }
    }
}

void doubt_majority_that_went_on(WaitNode& node) {
    const auto went_on =
        std::count_if(node.absent.begin(), node.absent.end(), [](const Absence& absence) { return absence.moved_on; });
    if (static_cast<size_t>(went_on) <= node.waiting.size()) {
        return;
    }
    for (Absence& absence : node.absent) {
        if (absence.moved_on && absence.skip.verdict == SkipVerdict::kNo) {
            absence.skip = {SkipVerdict::kUndecided, node.waiting.front().member};
        }
    }
}

bool entered_split(const Run& run, const WaitNode& node, MemberRef parent) {
    const Process& process = run.process(parent);
    const uint64_t parent_id = run.communicators[node.communicator].id;
    for (const Member& member : process.members) {
        if (member.parent_id == parent_id && member.origin == node.op && member.ordinal == node.sequence) {
            return true;
        }
    }
    // A member for whose new communicator the record had no room leaves only its call.
    const History& history = process.history;
    const auto is_it = [&](const CallSignature& signature) {
        return signature.kind == node.op && signature.row == parent.row;
    };
    uint64_t calls = 0;
    if (std::any_of(history.signatures.begin(), history.signatures.end(), is_it)) {
        for (uint32_t i = 0; i < history.size(); ++i) {
            calls += is_it(history[i]) ? 1 : 0;
        }
    }
    return calls > node.sequence || process.overwritten != 0;
}

}  // namespace titan::analyzer
