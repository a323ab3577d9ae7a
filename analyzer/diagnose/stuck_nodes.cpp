#include "stuck_nodes.h"

#include <algorithm>
#include <set>

namespace titan::analyzer {
namespace {

// Calls of one group end together: where one of them lacks a member, that is why the others do not end.
bool lacks_a_member_together(const Evidence& evidence, uint32_t index) {
    std::set<uint32_t> seen{index};
    std::vector<uint32_t> queue{index};
    while (!queue.empty()) {
        const uint32_t node = queue.back();
        queue.pop_back();
        if (node != index && (!evidence.node(node).absent.empty() || !evidence.node(node).blocked.empty())) {
            return true;
        }
        for (const uint32_t next : evidence.graph.together[node]) {
            if (seen.insert(next).second) {
                queue.push_back(next);
            }
        }
    }
    return false;
}

// Is there a member whose stream does not wait for another call?
bool is_blocked_there(const Evidence& evidence, const ToldSoFar& told, uint32_t index) {
    const WaitNode& node = evidence.node(index);
    return evidence.hang_of[index] == Hang::kByTime && !told.is_told(index) &&
           std::ranges::any_of(node.blocked, [&](const Blocked& blocked) {
               return blocked.held_by.empty() && !evidence.run.process(blocked.member).is_gone();
           });
}

}  // namespace

bool all_arrived(const Evidence& evidence, const ToldSoFar& told, uint32_t index) {
    const WaitNode& node = evidence.node(index);
    const bool dead_waiter = std::ranges::any_of(
        node.waiting, [&](const Waiter& waiter) { return evidence.run.process(waiter.member).is_gone(); });
    return evidence.hangs(index) && !told.is_told(index) && node.absent.empty() && node.blocked.empty() && !dead_waiter;
}

std::vector<uint32_t> first_stuck_nodes(const Evidence& evidence, const ToldSoFar& told) {
    std::vector<bool> is_candidate(evidence.graph.nodes.size(), false);
    std::vector<uint32_t> candidates;
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        is_candidate[index] = (all_arrived(evidence, told, index) && !lacks_a_member_together(evidence, index)) ||
                              is_blocked_there(evidence, told, index);
        if (is_candidate[index]) {
            candidates.push_back(index);
        }
    }
    std::ranges::stable_sort(candidates, [&](uint32_t a, uint32_t b) { return evidence.since(a) < evidence.since(b); });
    std::vector<uint32_t> stuck;
    std::vector<bool> behind_stuck(evidence.graph.nodes.size(), false);
    for (const uint32_t index : candidates) {
        const std::vector<bool> reached = may_be_behind(evidence.graph, index);
        bool follows = false;
        for (uint32_t node = 0; node < evidence.graph.nodes.size() && !follows; ++node) {
            if (!reached[node] || node == index) {
                continue;
            }
            follows = told.is_told(node) ||
                      (is_candidate[node] && (behind_stuck[node] || !may_be_behind(evidence.graph, node)[index]));
        }
        if (!follows) {
            stuck.push_back(index);
            behind_stuck[index] = true;
        }
    }
    return stuck;
}

}  // namespace titan::analyzer
