// Members that make one communicator for different numbers of ranks, as after an elastic restart: it never ends.
#include "finders.h"

#include <algorithm>
#include <map>

#include "explain.h"

namespace titan::analyzer {
namespace {

// The members that wait in it, by how many ranks they make it for.
std::map<int32_t, std::vector<int>> ranks_by_size(const Evidence& evidence, const WaitNode& node) {
    std::map<int32_t, std::vector<int>> ranks;
    for (const Waiter& waiter : node.waiting) {
        if (waiter.member.row != kNoIndex && evidence.run.member(waiter.member).size > 0) {
            ranks[evidence.run.member(waiter.member).size].push_back(evidence.rank_of(waiter.member));
        }
    }
    return ranks;
}

}  // namespace

void find_sizes_apart(const Evidence& evidence, ToldSoFar& told) {
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.node(index);
        if (node.kind != WaitKind::kCreation || evidence.hang_of[index] != Hang::kByTime || told.explained[index]) {
            continue;
        }
        std::map<int32_t, std::vector<int>> sides = ranks_by_size(evidence, node);
        if (sides.size() < 2) {
            continue;
        }
        const auto usual = std::max_element(sides.begin(), sides.end(), [](const auto& one, const auto& other) {
            return one.second.size() < other.second.size();
        });
        Finding finding = evidence.finding_at(FindingKind::kCommInitStuck, index);
        for (const auto& [size, ranks] : sides) {
            if (size != usual->first) {
                finding.ranks.insert(finding.ranks.end(), ranks.begin(), ranks.end());
                finding.summary = phrase("{} never ends: {} [makes|make] it for {} ranks, and {} for {}",
                                         node_fact(evidence.run, node), ranks_fact(ranks), size,
                                         ranks_fact(usual->second), usual->first);
            }
        }
        const bool is_tied = std::any_of(sides.begin(), sides.end(), [&](const auto& side) {
            return side.first != usual->first && side.second.size() == usual->second.size();
        });
        if (is_tied) {
            finding.ranks.insert(finding.ranks.end(), usual->second.begin(), usual->second.end());
        }
        evidence.show_waits({index}, finding);
        told.explain(std::move(finding), {index});
    }
}

}  // namespace titan::analyzer
