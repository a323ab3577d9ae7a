// A send or receive with the wrong peer: the peer never heard of it, and the usual one waits for the half that it
// stands for.
#include "finders.h"

#include <algorithm>

#include "explain.h"
#include "host/words.h"
#include "match.h"
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
    return std::none_of(nodes.begin(), nodes.end(), [&](uint32_t node) {
        const auto& waiting = evidence.graph.nodes[node].waiting;
        return std::any_of(waiting.begin(), waiting.end(), [&](const Waiter& waiter) {
            return waiter.member.process == member.process && waiter.entry != nullptr &&
                   precedent_of(evidence.run.process(member), *waiter.entry) == Precedent::kDeviates;
        });
    });
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

}  // namespace

void find_misdirected(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
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
        for (const uint32_t place : {index, meant}) {
            explained.nodes[place] = explained.is_cause[place] = true;
            if (const Sentence waiting = waiting_fact(evidence.run, evidence.graph.nodes[place]); !waiting.empty()) {
                finding.evidence.push_back(waiting);
            }
        }
        finding.evidence.push_back(
            phrase("{} has not made its half, and does what it always did there", rank_fact(peer.global_rank)));
        finding.would_confirm.push_back(
            phrase("the program: that {} means another peer is inferred from the order of its earlier calls alone",
                   rank_fact(rank)));
        evidence.add_victims({index, meant}, finding);
        findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
