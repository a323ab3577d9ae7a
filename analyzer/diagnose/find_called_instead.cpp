// A rank waits in a call that nobody else comes to, while others wait for a call that it owes: it made the one instead
// of the other. The peer is the wrong one, or the communicator, or the call is the creation of one.
#include "finders.h"

#include <algorithm>

#include "break_tie.h"
#include "explain.h"
#include "host/words.h"
#include "host_threads.h"
#include "skipped_call.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

constexpr uint64_t kUsualCalls = 3;

bool is_held_by(const Absence& absence, uint32_t node) {
    return std::ranges::find(absence.held_by, node) != absence.held_by.end();
}

// The peer is held in calls that it always made there, or that others have come to as well: it is not on its way to
// this send or receive.
bool is_unexpected_by_the_peer(const Evidence& evidence, const WaitNode& node) {
    if (node.absent.size() != 1 || node.lost || node.absent.front().reason != AbsenceReason::kNotIssued) {
        return false;
    }
    const Absence& peer = node.absent.front();
    return !evidence.run.process(peer.member).is_gone() && !peer.held_by.empty() &&
           std::ranges::none_of(peer.held_by, [&](uint32_t holder) {
               return evidence.node(holder).waiting.size() < 2 &&
                      edit_in(evidence, holder, peer.member.process).has_value();
           });
}

// The only collective that was ever called there, among sends and receives. A new communicator has a first call, too.
bool is_alone_on_its_communicator(const Evidence& evidence, const WaitNode& node) {
    const std::vector<MemberRef>& members = evidence.run.communicators[node.communicator].members;
    return members.size() > 1 && !node.lost &&
           node.sequence == evidence.run.process(node.waiting.front().member).sees.first_number &&
           std::ranges::any_of(members,
                               [&](MemberRef member) {
                                   return !evidence.run.member(member).sent.empty() ||
                                          !evidence.run.member(member).received.empty();
                               }) &&
           std::ranges::all_of(members, [&](MemberRef member) {
               return member == node.waiting.front().member || evidence.run.member(member).issued == 0;
           });
}

// Nobody is on the way to the call that one rank waits in.
bool is_met_by_nobody(const Evidence& evidence, uint32_t index) {
    const WaitNode& node = evidence.node(index);
    switch (node.kind) {
        case WaitKind::kCollective: return is_alone_on_its_communicator(evidence, node);
        case WaitKind::kPointToPoint:
            return node.waiting.front().entry != nullptr && is_unexpected_by_the_peer(evidence, node);
        case WaitKind::kCreation: break;
    }
    return node.sequence == kNoSequence && node.finished.empty() && evidence.all_are_held();
}

// A send and a receive with the same arguments.
bool are_halves(const Entry& one, const Entry& other) {
    return one.kind != other.kind && one.count == other.count && one.datatype == other.datatype;
}

// The message that is waited for there, on the same communicator, is alike but for the peer.
bool differs_in_peer(const WaitNode& made, const WaitNode& owed) {
    return made.communicator == owed.communicator && std::ranges::any_of(owed.waiting, [&](const Waiter& waiter) {
               return waiter.entry != nullptr && are_halves(*waiter.entry, *made.waiting.front().entry);
           });
}

// Is the call that the rank owes the one that it means with what it made?
bool is_meant(const Evidence& evidence, uint32_t made, uint32_t owed, const Absence& absence) {
    const WaitNode& node = evidence.node(owed);
    const Waiter& caller = evidence.node(made).waiting.front();
    const Process& process = evidence.run.process(caller.member);
    switch (evidence.node(made).kind) {
        case WaitKind::kCollective: {
            const Entry* const call = node.kind == WaitKind::kCollective ? node.waiting.front().entry : nullptr;
            return call != nullptr && is_held_by(absence, made) && call->kind == caller.entry->kind &&
                   call->count == caller.entry->count && call->datatype == caller.entry->datatype &&
                   call->reduction == caller.entry->reduction && node.sequence > process.sees.first_number;
        }
        case WaitKind::kPointToPoint: {
            const Entry& call = *caller.entry;
            const auto edit = edit_in(evidence, made, caller.member.process);
            const bool first_ever = call.sequence == 0 && !call.number_guessed && process.overwritten == 0;
            return node.kind == WaitKind::kPointToPoint && absence.member == caller.member &&
                   (absence.comm_rank == node.source) == (call.kind == OpKind::kSend) &&
                   ((edit && in_place_of(evidence.run, absence.member, node, *edit)) ||
                    (first_ever && (node.sequence >= kUsualCalls || differs_in_peer(evidence.node(made), node))));
        }
        case WaitKind::kCreation: break;
    }
    const auto creation = std::find_if(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
        return entry.row == caller.member.row && is_creation(entry.kind);
    });
    const auto edit = creation == process.entries.rend() ? std::nullopt : own_edit(process, creation->place);
    return is_held_by(absence, made) && edit && in_place_of(evidence.run, absence.member, node, *edit);
}

// The node in which others wait for what the rank made otherwise. A creation has no like: the only call that is owed is
// meant, too.
uint32_t owed_instead(const Evidence& evidence, uint32_t made) {
    const MemberRef caller = evidence.node(made).waiting.front().member;
    std::vector<uint32_t> owed;
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        for (const Absence& absence : evidence.node(index).absent) {
            if (index == made || !evidence.hangs(index) || absence.reason != AbsenceReason::kNotIssued ||
                absence.member.process != caller.process || absence.member.row == kNoIndex) {
                continue;
            }
            if (is_meant(evidence, made, index, absence)) {
                return index;
            }
            if (is_held_by(absence, made)) {
                owed.push_back(index);
            }
        }
    }
    return evidence.node(made).kind == WaitKind::kCreation && owed.size() == 1 ? owed.front() : kNoIndex;
}

Finding finding_of(const Evidence& evidence, uint32_t made, uint32_t owed) {
    const WaitNode& node = evidence.node(made);
    const bool pair = evidence.node(owed).kind == WaitKind::kPointToPoint;
    Finding finding = evidence.finding_at(pair ? FindingKind::kP2pUnmatched : FindingKind::kRankNotArrived,
                                          node.kind == WaitKind::kPointToPoint ? made : owed);
    const Sentence rank = rank_fact(evidence.rank_of(node.waiting.front().member));
    const Sentence waiting = ranks_fact(waiting_ranks(evidence.run, evidence.node(owed)));
    const Sentence call = node_fact(evidence.run, node);
    const Sentence missing = node_fact(evidence.run, evidence.node(owed));
    finding.ranks = {evidence.rank_of(node.waiting.front().member)};
    if (node.kind == WaitKind::kCollective) {
        evidence.show_waits({made, owed}, finding);
        finding.summary = phrase(
            "{} called {}, where there were only sends and receives before, while {} [waits|wait] for the same call of "
            "it, {}",
            rank, call, waiting, missing);
        depends_on<Unknown::kOtherCommunicator>(finding, rank);
    } else if (node.kind == WaitKind::kPointToPoint) {
        evidence.show_waits({made, owed}, finding);
        const Sentence peer = rank_fact(node.absent.front().global_rank);
        const std::string_view before = node.waiting.front().entry->kind == OpKind::kSend ? "sent to" : "received from";
        finding.summary =
            evidence.node(owed).sequence < kUsualCalls
                ? phrase(
                      "{} made {}, which {} does not expect, while {} [waits|wait] for {}, which is alike but for the "
                      "peer",
                      rank, call, peer, waiting, missing)
                : phrase(
                      "{} made {}, which {} does not expect; in earlier steps it {} {} here, which [waits|wait] for {}",
                      rank, call, peer, before, waiting, missing);
        finding.evidence.push_back(phrase("{} has not made its half, and does what it always did there", peer));
        depends_on<Unknown::kByOwnPast>(finding, rank, "means another peer");
    } else {
        evidence.show_waits({owed, made}, finding);
        finding.summary = phrase("{} is in {}, which no other rank joins, while {} [waits|wait] for it in {}", rank,
                                 call, waiting, missing);
        finding.evidence.emplace_back("all other ranks are held in calls of their own, none in that creation");
        depends_on<Unknown::kExpectedToCreate>(finding, rank);
    }
    return finding;
}

// The node in which the peer waits for this very message, on another communicator. That the pair never had a message on
// the one and always had it on the other tells whose half is misplaced; else it is the first one of the pair on both.
uint32_t half_elsewhere(const Evidence& evidence, uint32_t made, bool is_met_by_nobody) {
    const WaitNode& node = evidence.node(made);
    const Waiter& caller = node.waiting.front();
    if (node.kind != WaitKind::kPointToPoint || node.sequence != 0 || node.absent.size() != 1 || node.lost ||
        caller.entry == nullptr || caller.entry->number_guessed) {
        return kNoIndex;
    }
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& other = evidence.node(index);
        const Entry* const half = other.waiting.size() == 1 ? other.waiting.front().entry : nullptr;
        if (other.kind == WaitKind::kPointToPoint && other.communicator != node.communicator && evidence.hangs(index) &&
            half != nullptr && (is_met_by_nobody || other.sequence >= kUsualCalls) && other.absent.size() == 1 &&
            are_halves(*half, *caller.entry) &&
            other.waiting.front().member.process == node.absent.front().member.process &&
            other.absent.front().member.process == caller.member.process) {
            return index;
        }
    }
    return kNoIndex;
}

Finding finding_of_halves(const Evidence& evidence, uint32_t made, uint32_t other) {
    Finding finding = evidence.finding_at(FindingKind::kP2pUnmatched, made);
    const bool is_usual = evidence.node(other).sequence >= kUsualCalls;
    const auto rank_at = [&](uint32_t index) { return evidence.rank_of(evidence.node(index).waiting.front().member); };
    finding.ranks = is_usual ? std::vector<int>{rank_at(made)} : std::vector<int>{rank_at(made), rank_at(other)};
    finding.summary =
        phrase("{} made {}, and {} its other half on another communicator, {}{}", rank_fact(rank_at(made)),
               node_fact(evidence.run, evidence.node(made)), rank_fact(rank_at(other)),
               is_usual ? "where it always was: " : "", node_fact(evidence.run, evidence.node(other)));
    evidence.show_waits({made, other}, finding);
    depends_on(finding, Unknown::kPlaceOfMessage);
    return finding;
}

}  // namespace

void find_called_instead(const Evidence& evidence, ToldSoFar& told) {
    for (uint32_t made = 0; made < evidence.graph.nodes.size(); ++made) {
        if (told.explained[made] || evidence.hang_of[made] != Hang::kByTime ||
            evidence.node(made).waiting.size() != 1) {
            continue;
        }
        const bool is_unmet = is_met_by_nobody(evidence, made);
        const uint32_t owed = is_unmet ? owed_instead(evidence, made) : kNoIndex;
        const uint32_t half = owed == kNoIndex ? half_elsewhere(evidence, made, is_unmet) : kNoIndex;
        if (owed != kNoIndex) {
            told.explain(finding_of(evidence, made, owed), {made, owed});
        } else if (half != kNoIndex) {
            told.explain(finding_of_halves(evidence, made, half), {made, half});
        }
    }
}

}  // namespace titan::analyzer
