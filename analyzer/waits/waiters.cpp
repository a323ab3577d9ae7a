// Members that a node of the wait-for graph has as waiting or absent, told by more than their own calls.
#include "waiters.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "call_order.h"
#include "wait_graph.h"

namespace titan::analyzer {
namespace {

// A few stand for all, which can be thousands in a large exchange.
constexpr size_t kStandForAll = 8;

using EntryKey = std::pair<uint32_t, const Entry*>;  // process
using HolderKey = std::pair<uint32_t, uint32_t>;     // process, node

std::map<EntryKey, uint32_t> nodes_of_entries(const WaitGraph& graph) {
    std::map<EntryKey, uint32_t> nodes;
    for (uint32_t index = 0; index < graph.nodes.size(); ++index) {
        for (const Waiter& waiter : graph.nodes[index].waiting) {
            if (waiter.entry != nullptr) {
                nodes[{waiter.member.process, waiter.entry}] = index;
            }
        }
    }
    return nodes;
}

}  // namespace

void hold_by_whole_groups(const Run& run, WaitGraph& graph) {
    std::map<HolderKey, std::vector<uint32_t>> lacking_with;
    std::map<EntryKey, uint32_t> node_of;
    for (uint32_t process = 0; process < run.processes.size(); ++process) {
        for (const StreamHead& head : graph.orders[process].heads) {
            if (head.entries.size() < 2) {
                continue;
            }
            if (node_of.empty()) {
                node_of = nodes_of_entries(graph);
            }
            std::vector<uint32_t> nodes;
            std::vector<uint32_t> lacking;
            for (const uint32_t index : head.entries) {
                const auto found = node_of.find({process, &run.processes[process].entries[index]});
                if (found == node_of.end()) {
                    continue;
                }
                const WaitNode& node = graph.nodes[found->second];
                nodes.push_back(found->second);
                if (lacking.size() < kStandForAll && (!node.absent.empty() || !node.blocked.empty())) {
                    lacking.push_back(found->second);
                }
            }
            for (const uint32_t node : nodes) {
                lacking_with[{process, node}] = lacking;
            }
        }
    }
    const auto expand = [&](uint32_t process, std::vector<uint32_t>& held_by) {
        std::set<uint32_t> nodes(held_by.begin(), held_by.end());
        for (const uint32_t node : held_by) {
            if (const auto found = lacking_with.find({process, node}); found != lacking_with.end()) {
                nodes.insert(found->second.begin(), found->second.end());
            }
        }
        held_by.assign(nodes.begin(), nodes.end());
    };
    for (uint32_t index = 0; index < graph.nodes.size() && !lacking_with.empty(); ++index) {
        for (Absence& absence : graph.nodes[index].absent) {
            expand(absence.member.process, absence.held_by);
        }
        for (Blocked& blocked : graph.nodes[index].blocked) {
            expand(blocked.member.process, blocked.held_by);
            std::erase(blocked.held_by, index);
        }
    }
}

// For instance own:extra_call 705308028251 of tests/scenarios.
void doubt_majority_in_exchanges(const Run& run, WaitGraph& graph) {
    using ExchangeKey = std::tuple<uint32_t, uint32_t, uint64_t>;  // process that waits, row, group
    std::map<ExchangeKey, std::vector<Absence*>> went_on;
    for (WaitNode& node : graph.nodes) {
        const bool alone = node.kind == WaitKind::kPointToPoint && node.waiting.size() == 1 &&
                           node.waiting.front().entry != nullptr && node.waiting.front().entry->group != 0;
        for (Absence& absence : node.absent) {
            if (alone && absence.skip.verdict == SkipVerdict::kSkipped) {
                const Waiter& waiter = node.waiting.front();
                went_on[{waiter.member.process, waiter.member.row, waiter.entry->group}].push_back(&absence);
            }
        }
    }
    for (const auto& [key, absences] : went_on) {
        std::set<int> members;
        for (const Absence* absence : absences) {
            members.insert(absence->comm_rank);
        }
        const auto& [process, row, group] = key;
        const int32_t size = run.processes[process].members[row].size;
        if (size < 3 || members.size() + 1 != static_cast<size_t>(size)) {
            continue;
        }
        for (Absence* absence : absences) {
            absence->skip.verdict = SkipVerdict::kWaiterIsOdd;
            absence->skip.waiter = {process, row};
            absence->moved_on = false;
        }
    }
}

const Waiter* first_call(const WaitNode& node) {
    const auto found = std::ranges::find_if(node.waiting, [](const Waiter& waiter) { return waiter.entry != nullptr; });
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
                       std::ranges::any_of(held_in.waiting, [&](const Waiter& waiter) {
                           return waiter.member.process != absence.member.process && waiter.entry != nullptr &&
                                  made_after(run, waiter.member.process, {node.communicator, node.sequence},
                                             waiter.entry->place);
                       });
            });
        }
    }
}

void doubt_majority_that_went_on(WaitNode& node) {
    const auto went_on = std::ranges::count_if(node.absent, [](const Absence& absence) { return absence.moved_on; });
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
    if (std::ranges::any_of(history.signatures, is_it)) {
        for (uint32_t i = 0; i < history.size(); ++i) {
            calls += is_it(history[i]) ? 1 : 0;
        }
    }
    return calls > node.sequence || process.overwritten != 0;
}

}  // namespace titan::analyzer
