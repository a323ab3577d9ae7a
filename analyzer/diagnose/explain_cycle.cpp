// Words for rings of waits: the steps around it, and one sentence.

#include "explain.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

// The rank that is missing in the edge's node, and held in the next one.
int rank_of(const Run& run, const Edge& edge) {
    return edge.via.row == kNoIndex ? run.processes[edge.via.process].rank : run.member(edge.via).global_rank;
}

// "rank 0 waits in tp:0 #5 for rank 1, which waits in dp:0 #7 for rank 0"; a long cycle shows only its beginning.
Sentence sentence(const std::vector<CycleStep>& cycle) {
    constexpr size_t kShownInFull = 4;
    constexpr size_t kShownOfLong = 2;
    const size_t told = cycle.size() <= kShownInFull ? cycle.size() : kShownOfLong;
    Sentence text = rank_fact(cycle.front().rank);
    for (size_t i = 0; i < told; ++i) {
        text +=
            phrase("{} waits in {} for {}", i == 0 ? "" : ", which", cycle[i].waits_in, rank_fact(cycle[i].waits_for));
    }
    return told == cycle.size() ? text
                                : phrase("{}, and so on: {} waits, the last of them for {}", text, cycle.size(),
                                         rank_fact(cycle.front().rank));
}

}  // namespace

void explain_cycle(const Run& run, const WaitGraph& graph, const std::vector<Edge>& cycle, Finding& finding) {
    constexpr size_t kShownWaits = 8;
    int rank = rank_of(run, cycle.back());
    for (const Edge& edge : cycle) {
        if (rank_of(run, edge) != rank) {  // else it waits behind work of its own
            finding.cycle.push_back({rank, own_call_fact(run, graph.nodes[edge.from], rank), rank_of(run, edge)});
        }
        rank = rank_of(run, edge);
    }
    finding.summary = sentence(finding.cycle);
    for (size_t i = 0; i < std::min(kShownWaits, cycle.size()); ++i) {
        if (const Sentence waiting = waiting_fact(run, graph.nodes[cycle[i].from]); !waiting.empty()) {
            finding.evidence.push_back(waiting);
        }
    }
}

void begin_with_a_named_rank(Finding& finding) {
    const auto first = std::find_if(finding.cycle.begin(), finding.cycle.end(), [&](const CycleStep& step) {
        return std::binary_search(finding.ranks.begin(), finding.ranks.end(), step.rank);
    });
    const bool is_told = !finding.cycle.empty() && finding.summary.text() == sentence(finding.cycle).text();
    if (is_told && first != finding.cycle.end()) {
        std::rotate(finding.cycle.begin(), first, finding.cycle.end());
        finding.summary = sentence(finding.cycle);
    }
}

}  // namespace titan::analyzer
