// One communicator, made from several ncclUniqueIds: its ranks wait for each other in creations that never meet.
#include "finders.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "explain.h"
#include "host/words.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

bool has_rank_0(const Run& run, const WaitNode& node) {
    return std::ranges::any_of(node.waiting, [&](const Waiter& waiter) { return run.member(waiter.member).rank == 0; });
}

void add_ids_apart(const Evidence& evidence, ToldSoFar& told, const std::vector<uint32_t>& nodes) {
    const Run& run = evidence.run;
    const auto maker = std::ranges::find_if(nodes, [&](uint32_t node) { return has_rank_0(run, evidence.node(node)); });
    Finding finding = evidence.finding_at(FindingKind::kCommInitStuck, maker != nodes.end() ? *maker : nodes.front());
    std::string sides;
    for (const uint32_t index : nodes) {
        const WaitNode& node = evidence.node(index);
        const std::vector<int> ranks = waiting_ranks(run, node);
        sides += fmt::format("{} {} with {}", sides.empty() ? "" : ",", ranks_text(ranks),
                             sides.empty() ? "one ncclUniqueId" : "another");
        if (maker == nodes.end() || index != *maker) {
            finding.ranks.insert(finding.ranks.end(), ranks.begin(), ranks.end());
        }
    }
    evidence.show_waits(nodes, finding);
    sort_unique(finding.ranks);
    finding.summary = phrase("{} never ends: it is made by{}", node_fact(run, evidence.node(nodes.front())), sides);
    depends_on(finding, Unknown::kOriginOfIds);
    told.explain(std::move(finding), nodes);
}

}  // namespace

void find_ids_apart(const Evidence& evidence, ToldSoFar& told) {
    std::map<uint32_t, std::vector<uint32_t>> components;
    for (uint32_t node = 0; node < evidence.graph.nodes.size(); ++node) {
        if (evidence.hang_of[node] == Hang::kByTime && !told.explained[node]) {
            components[evidence.components[node]].push_back(node);
        }
    }
    for (const auto& [component, nodes] : components) {
        const Communicator& communicator = evidence.run.communicators[evidence.node(nodes.front()).communicator];
        if (!communicator.name.empty() && evidence.may_be_one_communicator(nodes)) {
            add_ids_apart(evidence, told, nodes);
        }
    }
}

}  // namespace titan::analyzer
