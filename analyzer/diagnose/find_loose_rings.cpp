// Rings that the order of calls alone closes: a rank waits for a half that its peer has not made, and the peer waits in
// a call that the rank has made behind its own. On one stream neither ever ends; no stream is on record.
//
//    rank 4:  send to 0    all_reduce      rank 4's all_reduce may wait behind its send,
//    rank 0:               all_reduce      and rank 0 makes no receive before its all_reduce has ended
#include <algorithm>
#include <vector>

#include "break_tie.h"
#include "causes.h"
#include "explain.h"
#include "finders.h"
#include "host/words.h"
#include "uncertainty.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

// Waits that may hold each other, that one among them; empty where nothing closes a ring.
std::vector<uint32_t> ring_of(const WaitGraph& graph, uint32_t index) {
    const std::vector<bool> behind = may_be_behind(graph, index);
    std::vector<uint32_t> ring = nodes_behind(graph, {index});
    std::erase_if(ring, [&](uint32_t node) { return !behind[node]; });
    std::ranges::sort(ring);
    return ring.size() > 1 ? ring : std::vector<uint32_t>();
}

// Members that have not made their call, and wait elsewhere.
std::vector<int> missing_in(const WaitNode& node) {
    std::vector<int> ranks;
    for (const Absence& absence : node.absent) {
        if (absence.member.known() && absence.reason == AbsenceReason::kNotIssued && absence.global_rank >= 0 &&
            !absence.held_by.empty()) {
            ranks.push_back(absence.global_rank);
        }
    }
    return ranks;
}

void tell_ring(const Evidence& evidence, ToldSoFar& told, uint32_t index, const std::vector<uint32_t>& ring) {
    const WaitNode& node = evidence.node(index);
    const bool is_pair = node.kind == WaitKind::kPointToPoint;
    Finding finding = evidence.finding_at(is_pair ? FindingKind::kP2pUnmatched : FindingKind::kRankNotArrived, index);
    const std::vector<int> missing = missing_in(node);
    finding.ranks = missing;
    const std::vector<int> waiting = waiting_ranks(evidence.run, node);
    finding.ranks.insert(finding.ranks.end(), waiting.begin(), waiting.end());
    sort_unique(finding.ranks);
    finding.waiting = waiting;
    finding.summary = phrase("{} [waits|wait] in {} for {}, which [waits|wait] for {} in a call that {} made later",
                             ranks_fact(waiting), node_fact(evidence.run, node), ranks_fact(missing),
                             ranks_fact(waiting), ranks_fact(waiting));
    depends_on(finding, Unknown::kStreamsOfCalls);
    if (!break_tie(evidence, ring, finding)) {
        finding.confidence = Confidence::kPossible;
        const std::vector<int>& few = missing.size() < waiting.size() ? missing : waiting;
        finding.ranks = few.size() * 3 < missing.size() + waiting.size() ? few : finding.ranks;
        finding.evidence.push_back(phrase("whether {} left its side out, or {} made a call too many, is undecidable",
                                          ranks_fact(missing), ranks_fact(waiting)));
    }
    evidence.show_waits(ring, finding);
    doubt_guesses(evidence.run, node, finding);
    told.explain(std::move(finding), ring);
}

}  // namespace

void find_loose_rings(const Evidence& evidence, ToldSoFar& told) {
    const auto is_told = [&](uint32_t node) { return told.is_told(node); };
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        if (!evidence.hangs(index) || is_told(index) || missing_in(evidence.node(index)).empty()) {
            continue;
        }
        const std::vector<uint32_t> ring = ring_of(evidence.graph, index);
        if (!ring.empty() && std::ranges::none_of(ring, is_told)) {
            tell_ring(evidence, told, index, ring);
        }
    }
}

}  // namespace titan::analyzer
