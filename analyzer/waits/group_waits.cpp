// The calls of one NCCL group, or of one graph launch, end together: a rank that waits for one of them also waits for
// members missing in the others.
#include "group_waits.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

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

}  // namespace

void merge_groups(const Run& run, WaitGraph& graph) {
    hold_by_whole_groups(run, graph);
    doubt_majority_in_exchanges(run, graph);
}

}  // namespace titan::analyzer
