// The calls of one NCCL group, or of one graph launch, end together: who waits for one of them waits for those that lack
// somebody, too.
#include <algorithm>
#include <map>
#include <set>

#include "analyzer/wait_graph.h"

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

}  // namespace titan::analyzer
