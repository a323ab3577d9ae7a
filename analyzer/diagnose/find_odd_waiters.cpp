// Finds ranks that wait in a call while all others went on without it: such a rank skipped a call before, or made one
// too many.
#include "finders.h"

#include <algorithm>
#include <map>

#include "break_tie.h"
#include "call_order.h"
#include "explain.h"
#include "host/words.h"
#include "run_text.h"
#include "uncertainty.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

// Do the others wait on that very communicator for the waiter's half of sends and receives? Then it called another
// thing.
bool is_met_by_messages(const Evidence& evidence, const WaitNode& node, MemberRef waiter) {
    return node.kind == WaitKind::kCollective && std::ranges::any_of(evidence.graph.nodes, [&](const WaitNode& other) {
               return other.kind == WaitKind::kPointToPoint && other.communicator == node.communicator &&
                      std::ranges::any_of(other.absent,
                                          [&](const Absence& absence) { return absence.member == waiter; });
           });
}

}  // namespace

void find_odd_waiters(const Evidence& evidence, ToldSoFar& told) {
    std::map<uint32_t, std::vector<std::pair<uint32_t, const Absence*>>>
        odd;  // waiter's process -> node, who is absent
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        if (evidence.hang_of[index] != Hang::kByTime || told.explained[index]) {
            continue;
        }
        for (const Absence& absence : evidence.node(index).absent) {
            if (absence.skip.verdict == SkipVerdict::kWaiterIsOdd && !absence.moved_on) {
                odd[absence.skip.waiter.process].emplace_back(index, &absence);
            }
        }
    }
    for (const auto& [process, places] : odd) {
        const auto first = std::ranges::min_element(
            places, [&](const auto& a, const auto& b) { return evidence.since(a.first) < evidence.since(b.first); });
        const uint32_t index = first->first;
        const WaitNode& node = evidence.node(index);
        const SkippedCall& skip = first->second->skip;
        const Member& waiter = evidence.run.member(skip.waiter);
        std::vector<int> others;
        for (const auto& [place, absence] : places) {
            if (place == index) {
                others.push_back(absence->global_rank);
            }
        }
        sort_unique(others);
        const Process& owner = evidence.run.process(skip.waiter);
        const Member* const there = member_in(owner, skip.communicator);
        const auto later = there == nullptr ? std::nullopt : owner.recall(*there, skip.sequence);
        const Sentence call = call_fact(evidence.run, skip.communicator, later ? later->kind : OpKind{}, skip.sequence);
        const bool other_call = is_met_by_messages(evidence, node, skip.waiter);
        const auto edit = edit_in(evidence, index, process);
        Finding finding =
            evidence.finding_at(other_call ? FindingKind::kOpMismatch : FindingKind::kOrderInversion, index);
        finding.ranks = {waiter.global_rank};
        finding.summary = phrase(
            "{} waits in {} and issued {} after it; {} issued {} without it: {} {}", rank_fact(waiter.global_rank),
            node_fact(evidence.run, node), call, ranks_fact(others), call, rank_fact(waiter.global_rank),
            other_call                               ? "called it where they wait for its sends and receives"
            : edit && edit->kind == EditKind::kExtra ? "made that call in addition to those that it always made before"
                                                     : "skipped a call before, or made one too many");
        if (node.kind == WaitKind::kCollective) {
            const OrderVote vote =
                vote_on_order(evidence.run, {node.communicator, node.sequence}, {skip.communicator, skip.sequence});
            finding.evidence.push_back(phrase("{} of {} ranks that make such calls have the order of {}",
                                              vote.a_first.size(), vote.voters(), rank_fact(waiter.global_rank)));
        }
        std::vector<uint32_t> nodes;
        for (uint32_t other = 0; other < evidence.graph.nodes.size(); ++other) {
            const WaitNode& there = evidence.node(other);
            const bool follows = there.kind == WaitKind::kCollective && there.communicator == skip.communicator &&
                                 there.sequence >= skip.sequence;
            const bool odd_too = std::ranges::any_of(places, [&](const auto& place) { return place.first == other; });
            if (follows || odd_too) {
                nodes.push_back(other);
            }
        }
        evidence.show_waits(nodes, finding);
        depends_on<Unknown::kSkippedOrRepeated>(finding, waiter.global_rank);
        told.explain(std::move(finding), nodes);
    }
}

}  // namespace titan::analyzer
