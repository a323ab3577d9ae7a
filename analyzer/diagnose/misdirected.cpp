// A send or receive with the wrong peer: the peer never heard of it, and the usual one waits for the half that it stands for.
#include <fmt/format.h>

#include <algorithm>

#include "diagnoser.h"
#include "host_threads.h"
#include "text.h"
#include "went_past.h"

namespace titan::analyzer {
namespace {

constexpr uint64_t kUsualCalls = 3;

// The half that `caller` owes in a pair's node where somebody else waits; nothing where it is not the one that is missing.
const Absence* owed_by(const WaitNode& node, MemberRef caller) {
    const auto owed = std::find_if(node.absent.begin(), node.absent.end(), [&](const Absence& absence) {
        return absence.member == caller && absence.reason == AbsenceReason::kNotIssued;
    });
    return node.kind != WaitKind::kPointToPoint || owed == node.absent.end() ? nullptr : &*owed;
}

bool owes_a_send(const WaitNode& node, const Absence& absence) { return absence.comm_rank == node.source; }

}  // namespace

// Does everything that keeps the peer lead back to the call itself? Then nothing else explains why the peer did not come.
bool Diagnoser::is_held_by_nothing_else(uint32_t index, const Absence& peer) const {
    std::vector<bool> seen(graph_.nodes.size(), false);
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
        const std::vector<Absence>& absent = graph_.nodes[node].absent;
        if (std::any_of(absent.begin(), absent.end(), [&](const Absence& absence) {
                return absence.reason == AbsenceReason::kUnknown || (absence.held_by.empty() && is_free(node, absence));
            })) {
            return false;
        }
        for (const uint32_t edge : graph_.edges_of[node]) {
            queue.push_back(graph_.edges[edge].to);
        }
    }
    return leads_back;
}

bool Diagnoser::does_as_before(MemberRef member, const std::vector<uint32_t>& nodes) const {
    return std::none_of(nodes.begin(), nodes.end(), [&](uint32_t node) {
        const auto& waiting = graph_.nodes[node].waiting;
        return std::any_of(waiting.begin(), waiting.end(), [&](const Waiter& waiter) {
            return waiter.member.process == member.process && waiter.entry != nullptr &&
                   habit_of(run_.process(member), *waiter.entry) == Habit::kDeviates;
        });
    });
}

// The node in which the usual peer waits for the half that the caller made with another; UINT32_MAX where there is none.
uint32_t Diagnoser::meant_instead_of(uint32_t index) const {
    const WaitNode& made = graph_.nodes[index];
    const Waiter& caller = made.waiting.front();
    const Entry& entry = *caller.entry;
    const bool first_ever =
        entry.sequence == 0 && !entry.number_guessed && run_.process(caller.member).overwritten == 0;
    for (uint32_t other = 0; other < graph_.nodes.size(); ++other) {
        const WaitNode& node = graph_.nodes[other];
        const Absence* owed = other == index || !hangs(other) ? nullptr : owed_by(node, caller.member);
        if (owed != nullptr && owes_a_send(node, *owed) == (entry.kind == OpKind::kSend) &&
            (in_place_of(run_, caller.member, node, entry) || (first_ever && node.sequence >= kUsualCalls))) {
            return other;
        }
    }
    return UINT32_MAX;
}

void Diagnoser::add_misdirected() {
    for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
        const WaitNode& node = graph_.nodes[index];
        if (node.kind != WaitKind::kPointToPoint || hangs_[index] != Hang::kByTime || explained_[index] ||
            node.waiting.size() != 1 || node.absent.size() != 1 || node.lost) {
            continue;
        }
        const Absence& peer = node.absent.front();
        if (peer.reason != AbsenceReason::kNotIssued || run_.processes[peer.member.process].is_gone() ||
            !is_held_by_nothing_else(index, peer) || !does_as_before(peer.member, peer.held_by)) {
            continue;
        }
        const uint32_t meant = meant_instead_of(index);
        if (meant == UINT32_MAX) {
            continue;
        }
        const MemberRef caller = node.waiting.front().member;
        const bool sends = node.waiting.front().entry->kind == OpKind::kSend;
        const int rank = run_.member(caller).global_rank;
        const std::vector<int> usual = waiting_ranks(run_, graph_.nodes[meant]);
        Finding finding = finding_at(FindingKind::kP2pUnmatched, index);
        finding.ranks = {rank};
        finding.confidence = Confidence::kLikely;
        finding.summary =
            fmt::format("rank {} made {} where it always {} {}, which {} for {}; rank {} does not expect it", rank,
                        node_text(run_, node), sends ? "sent to" : "received from", ranks_text(usual),
                        usual.size() == 1 ? "waits" : "wait", node_text(run_, graph_.nodes[meant]), peer.global_rank);
        for (const uint32_t place : {index, meant}) {
            explained_[place] = is_cause_[place] = true;
            if (const std::string waiting = waiting_text(run_, graph_.nodes[place]); !waiting.empty()) {
                finding.evidence.push_back(waiting);
            }
        }
        finding.evidence.push_back(
            fmt::format("rank {} has not made its half, and does what it always did there", peer.global_rank));
        finding.to_be_sure.push_back(fmt::format(
            "the program: that rank {} means another peer is told by the order of its earlier calls alone", rank));
        add_victims({index, meant}, finding);
        diagnosis_.findings.push_back(std::move(finding));
    }
}

// The call that somebody waits for while the member that owes it is in this creation: the one that it always made there,
// else the only one. UINT32_MAX where there is none.
uint32_t Diagnoser::owed_from_creation(uint32_t index) const {
    const MemberRef caller = graph_.nodes[index].waiting.front().member;
    const Process& process = run_.process(caller);
    const auto made = std::find_if(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
        return entry.row == caller.row && is_creation(entry.kind);
    });
    uint32_t only = UINT32_MAX;
    size_t owed_calls = 0;
    for (uint32_t other = 0; other < graph_.nodes.size(); ++other) {
        for (const Absence& absence : graph_.nodes[other].absent) {
            const bool owed = absence.member.process == caller.process && absence.member.row != kNoIndex &&
                              absence.reason == AbsenceReason::kNotIssued &&
                              std::find(absence.held_by.begin(), absence.held_by.end(), index) != absence.held_by.end();
            if (!owed || !hangs(other)) {
                continue;
            }
            if (made != process.entries.rend() && in_place_of(run_, absence.member, graph_.nodes[other], *made)) {
                return other;
            }
            only = other;
            ++owed_calls;
        }
    }
    return owed_calls == 1 ? only : UINT32_MAX;
}

// A rank is alone in the creation of a communicator, all others are held in calls, and some of them wait for it: the call
// that the communicator is made for is the odd one, whoever it is meant for.
void Diagnoser::add_alone_in_creation() {
    for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
        const WaitNode& node = graph_.nodes[index];
        if (node.kind != WaitKind::kCreation || node.sequence != kNoSequence || hangs_[index] != Hang::kByTime ||
            explained_[index] || node.waiting.size() != 1 || !node.finished.empty() || !run_.missing_ranks.empty()) {
            continue;
        }
        const bool all_held = std::all_of(run_.processes.begin(), run_.processes.end(), [&](const Process& process) {
            return !process.is_gone() && !process.only_calls && is_blocked(process);
        });
        const uint32_t owed = all_held ? owed_from_creation(index) : UINT32_MAX;
        if (owed != UINT32_MAX) {
            report_alone_in_creation(index, owed);
        }
    }
}

void Diagnoser::report_alone_in_creation(uint32_t index, uint32_t owed) {
    const WaitNode& missed = graph_.nodes[owed];
    const int rank = run_.member(graph_.nodes[index].waiting.front().member).global_rank;
    const bool pair = missed.kind == WaitKind::kPointToPoint;
    Finding finding = finding_at(pair ? FindingKind::kP2pUnmatched : FindingKind::kRankNotArrived, owed);
    finding.ranks = {rank};
    finding.confidence = Confidence::kPossible;
    finding.summary = fmt::format("rank {} is in {}, which nobody else comes to, while {} wait{} for it in {}", rank,
                                  node_text(run_, graph_.nodes[index]), ranks_text(waiting_ranks(run_, missed)),
                                  waiting_ranks(run_, missed).size() == 1 ? "s" : "", node_text(run_, missed));
    for (const uint32_t place : {owed, index}) {
        explained_[place] = is_cause_[place] = true;
        if (const std::string waiting = waiting_text(run_, graph_.nodes[place]); !waiting.empty()) {
            finding.evidence.push_back(waiting);
        }
    }
    finding.evidence.emplace_back("all other ranks are held in calls of their own, none in that creation");
    finding.to_be_sure.push_back(
        fmt::format("the program: whom rank {} means; another rank may have left its side out", rank));
    add_victims({owed, index}, finding);
    diagnosis_.findings.push_back(std::move(finding));
}

}  // namespace titan::analyzer
