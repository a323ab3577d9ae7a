// A send or receive with the wrong peer: the peer never heard of it, and the usual one waits for the half that it
// stands for. A collective on the wrong communicator, where there are only such.
#include "finders.h"

#include <algorithm>

#include "break_tie.h"
#include "explain.h"
#include "host/words.h"
#include "skipped_call.h"

namespace titan::analyzer {
namespace {

constexpr uint64_t kUsualCalls = 3;

// The half that `caller` owes in a pair's node where another member waits; null if its half is not the missing one.
const Absence* owed_by(const WaitNode& node, MemberRef caller) {
    const auto owed = std::find_if(node.absent.begin(), node.absent.end(), [&](const Absence& absence) {
        return absence.member == caller && absence.reason == AbsenceReason::kNotIssued;
    });
    return node.kind != WaitKind::kPointToPoint || owed == node.absent.end() ? nullptr : &*owed;
}

bool owes_a_send(const WaitNode& node, const Absence& absence) { return absence.comm_rank == node.source; }

// Does everything that keeps the peer lead back to the call itself? Then nothing else explains why the peer did not
// come.
bool is_held_by_nothing_else(const Evidence& evidence, uint32_t index, const Absence& peer) {
    std::vector<bool> seen(evidence.graph.nodes.size(), false);
    std::vector<uint32_t> queue = peer.held_by;
    bool leads_back = false;
    while (!queue.empty()) {
        const uint32_t node = queue.back();
        queue.pop_back();
        if (node == index || seen[node]) {
            leads_back |= node == index;
            continue;
        }
        seen[node] = true;
        const std::vector<Absence>& absent = evidence.graph.nodes[node].absent;
        if (std::any_of(absent.begin(), absent.end(), [&](const Absence& absence) {
                return absence.reason == AbsenceReason::kUnknown ||
                       (absence.held_by.empty() && evidence.is_free(node, absence));
            })) {
            return false;
        }
        for (const uint32_t edge : evidence.graph.edges_of[node]) {
            queue.push_back(evidence.graph.edges[edge].to);
        }
    }
    return leads_back;
}

bool does_as_before(const Evidence& evidence, MemberRef member, const std::vector<uint32_t>& nodes) {
    return std::none_of(nodes.begin(), nodes.end(),
                        [&](uint32_t node) { return deviates_in(evidence, node, member.process); });
}

// The node in which the usual peer waits for the half that the caller made with another; UINT32_MAX where there is
// none.
uint32_t meant_instead_of(const Evidence& evidence, uint32_t index) {
    const WaitNode& made = evidence.graph.nodes[index];
    const Waiter& caller = made.waiting.front();
    const Entry& entry = *caller.entry;
    const bool first_ever =
        entry.sequence == 0 && !entry.number_guessed && evidence.run.process(caller.member).overwritten == 0;
    for (uint32_t other = 0; other < evidence.graph.nodes.size(); ++other) {
        const WaitNode& node = evidence.graph.nodes[other];
        const Absence* owed = other == index || !evidence.hangs(other) ? nullptr : owed_by(node, caller.member);
        if (owed != nullptr && owes_a_send(node, *owed) == (entry.kind == OpKind::kSend) &&
            (in_place_of(evidence.run, caller.member, node, entry) || (first_ever && node.sequence >= kUsualCalls))) {
            return other;
        }
    }
    return UINT32_MAX;
}

// The only collective that was ever called there, among sends and receives. A new communicator has a first call, too.
bool is_alone_on_its_communicator(const Evidence& evidence, const WaitNode& node) {
    const std::vector<MemberRef>& members = evidence.run.communicators[node.communicator].members;
    return node.kind == WaitKind::kCollective && node.waiting.size() == 1 && members.size() > 1 && !node.lost &&
           node.sequence == evidence.run.process(node.waiting.front().member).sees.first_number &&
           std::any_of(members.begin(), members.end(),
                       [&](MemberRef member) {
                           return !evidence.run.member(member).sent.empty() ||
                                  !evidence.run.member(member).received.empty();
                       }) &&
           std::all_of(members.begin(), members.end(), [&](MemberRef member) {
               return member == node.waiting.front().member || evidence.run.member(member).issued == 0;
           });
}

// The node in which others wait for just this call of the waiter, on a communicator where it has called before;
// UINT32_MAX where there is none.
uint32_t same_call_elsewhere(const Evidence& evidence, uint32_t index) {
    const Waiter& caller = evidence.graph.nodes[index].waiting.front();
    for (uint32_t other = 0; other < evidence.graph.nodes.size(); ++other) {
        const WaitNode& node = evidence.graph.nodes[other];
        const Entry* call = node.kind != WaitKind::kCollective || other == index || !evidence.hangs(other)
                                ? nullptr
                                : node.waiting.front().entry;
        const bool same = call != nullptr && call->kind == caller.entry->kind && call->count == caller.entry->count &&
                          call->datatype == caller.entry->datatype && call->reduction == caller.entry->reduction &&
                          node.sequence > evidence.run.process(caller.member).sees.first_number;
        if (same && std::any_of(node.absent.begin(), node.absent.end(), [&](const Absence& absence) {
                return absence.member.process == caller.member.process && absence.reason == AbsenceReason::kNotIssued &&
                       std::find(absence.held_by.begin(), absence.held_by.end(), index) != absence.held_by.end();
            })) {
            return other;
        }
    }
    return UINT32_MAX;
}

void find_on_another_communicator(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.graph.nodes[index];
        const bool alone = evidence.hang_of[index] == Hang::kByTime && !explained.nodes[index] &&
                           is_alone_on_its_communicator(evidence, node);
        const uint32_t meant = alone ? same_call_elsewhere(evidence, index) : UINT32_MAX;
        if (meant == UINT32_MAX) {
            continue;
        }
        const int rank = evidence.run.member(node.waiting.front().member).global_rank;
        const std::vector<int> waiting = waiting_ranks(evidence.run, evidence.graph.nodes[meant]);
        Finding finding = evidence.finding_at(FindingKind::kRankNotArrived, meant);
        finding.ranks = {rank};
        finding.confidence = Confidence::kLikely;
        finding.summary = phrase(
            "{} called {}, where there were only sends and receives before, while {} {} for the same call of it, {}",
            rank_fact(rank), node_fact(evidence.run, node), ranks_fact(waiting),
            verb_form(waiting.size(), "waits", "wait"), node_fact(evidence.run, evidence.graph.nodes[meant]));
        evidence.show_waits({index, meant}, finding);
        finding.would_confirm.push_back(phrase(
            "the program: that {} means the other communicator is inferred from equal arguments", rank_fact(rank)));
        evidence.tell_cause({index, meant}, std::move(finding), explained, findings);
    }
}

}  // namespace

void find_misdirected(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
    find_on_another_communicator(evidence, explained, findings);
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.graph.nodes[index];
        if (node.kind != WaitKind::kPointToPoint || evidence.hang_of[index] != Hang::kByTime ||
            explained.nodes[index] || node.waiting.size() != 1 || node.absent.size() != 1 || node.lost) {
            continue;
        }
        const Absence& peer = node.absent.front();
        if (peer.reason != AbsenceReason::kNotIssued || evidence.run.processes[peer.member.process].is_gone() ||
            !is_held_by_nothing_else(evidence, index, peer) || !does_as_before(evidence, peer.member, peer.held_by)) {
            continue;
        }
        const uint32_t meant = meant_instead_of(evidence, index);
        if (meant == UINT32_MAX) {
            continue;
        }
        const MemberRef caller = node.waiting.front().member;
        const bool sends = node.waiting.front().entry->kind == OpKind::kSend;
        const int rank = evidence.run.member(caller).global_rank;
        const std::vector<int> usual = waiting_ranks(evidence.run, evidence.graph.nodes[meant]);
        Finding finding = evidence.finding_at(FindingKind::kP2pUnmatched, index);
        finding.ranks = {rank};
        finding.confidence = Confidence::kLikely;
        finding.summary =
            phrase("{} made {}, which {} does not expect; in earlier steps it {} {} here, which {} for {}",
                   rank_fact(rank), node_fact(evidence.run, node), rank_fact(peer.global_rank),
                   sends ? "sent to" : "received from", ranks_fact(usual), verb_form(usual.size(), "waits", "wait"),
                   node_fact(evidence.run, evidence.graph.nodes[meant]));
        evidence.show_waits({index, meant}, finding);
        finding.evidence.push_back(
            phrase("{} has not made its half, and does what it always did there", rank_fact(peer.global_rank)));
        finding.would_confirm.push_back(
            phrase("the program: that {} means another peer is inferred from the order of its earlier calls alone",
                   rank_fact(rank)));
        evidence.tell_cause({index, meant}, std::move(finding), explained, findings);
    }
}

}  // namespace titan::analyzer
