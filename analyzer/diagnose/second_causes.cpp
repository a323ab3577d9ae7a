// Ranks that stand still beside the cause: the calls that they owe are queued behind others, so that no wait shows it.
#include "steps.h"

#include <algorithm>
#include <optional>
#include <set>

#include "came_and_left.h"
#include "causes.h"
#include "explain.h"
#include "host_threads.h"
#include "long_waits.h"
#include "run_text.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

// True if the process runs the program's own code, as far as all threads that call NCCL show.
bool is_idle(const Process& process) {
    const auto threads = issuing_threads(process);
    return !threads.empty() && !process.is_gone() && !is_host_unseen(process) && process.ending.halt == Halt::kNone &&
           std::all_of(threads.begin(), threads.end(), [](const ThreadState* thread) { return thread->call == 0; });
}

// A process that drives several devices is several ranks, and its own number is none of theirs.
bool is_any_of(const Process& process, const std::set<int>& ranks) {
    bool has_ranks = false;
    for (const Member& member : process.members) {
        has_ranks = has_ranks || member.global_rank >= 0;
        if (ranks.contains(member.global_rank)) {
            return true;
        }
    }
    return !has_ranks && ranks.contains(process.rank);
}

struct Owed {
    WaitNode node;
    int rank;  // whose call it is
};

// The oldest call that a peer has made and this process has not.
std::optional<Owed> first_owed(const Evidence& evidence, const Process& process) {
    std::optional<Owed> owed;
    const auto note = [&](const Member& member, MemberRef peer, const Entry& call) {
        if (owed && owed->node.waiting.front().since_ns <= call.entered_ns) {
            return;
        }
        const bool collective = format::is_collective(call.kind);
        const int peer_rank = evidence.run.member(peer).rank;
        const bool sends = call.kind == OpKind::kSend;
        owed.emplace();
        owed->rank = member.global_rank;
        WaitNode* first = &owed->node;
        first->kind = collective ? WaitKind::kCollective : WaitKind::kPointToPoint;
        first->communicator = member.communicator;
        first->sequence = call.sequence;
        first->source = collective ? -1 : sends ? peer_rank : member.rank;
        first->target = collective ? -1 : sends ? member.rank : peer_rank;
        first->op = call.kind;
        first->waiting.push_back({peer, &call, call.entered_ns, evidence.run.process(peer).now_ns - call.entered_ns});
    };
    for (const Member& member : process.members) {
        if (member.communicator == kNoIndex || member.closed_ns != 0) {
            continue;
        }
        for (const MemberRef peer : evidence.run.communicators[member.communicator].members) {
            const Member& other = evidence.run.member(peer);
            if (const Entry* call =
                    other.issued > member.issued ? evidence.run.process(peer).call_at(other, member.issued) : nullptr) {
                note(member, peer, *call);
            }
            const bool owes_message = member.p2p_counted && other.p2p_counted &&
                                      (other.sent_to(member.rank) > member.received_from(other.rank) ||
                                       other.received_from(member.rank) > member.sent_to(other.rank));
            if (!owes_message) {
                continue;
            }
            for (const Entry& call : evidence.run.process(peer).entries) {
                const bool sends = call.kind == OpKind::kSend;
                if (call.row == peer.row && (sends || call.kind == OpKind::kRecv) && call.peer == member.rank &&
                    call.state != CallState::kFinished &&
                    call.sequence >= (sends ? member.received_from(other.rank) : member.sent_to(other.rank))) {
                    note(member, peer, call);
                }
            }
        }
    }
    return owed;
}

// One of the findings says of that collective who should have made it, or that nobody owes it: who made it is to blame.
bool is_told_of(const Evidence& evidence, const std::vector<Finding>& findings, const WaitNode& owed) {
    const int made_by = evidence.run.member(owed.waiting.front().member).global_rank;
    return owed.kind == WaitKind::kCollective &&
           std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
               return finding.hangs && finding.communicator == owed.communicator && finding.sequence == owed.sequence &&
                      (finding.kind == FindingKind::kOpMismatch || finding.kind == FindingKind::kGilHeld ||
                       std::find(finding.ranks.begin(), finding.ranks.end(), made_by) != finding.ranks.end());
           });
}

}  // namespace

void add_second_causes(const Evidence& evidence, std::vector<Finding>& findings) {
    std::set<int> told;
    bool any_hang = false;
    for (const Finding& finding : findings) {
        if (finding.hangs) {
            told.insert(finding.ranks.begin(), finding.ranks.end());
            any_hang = true;
        }
    }
    if (!any_hang) {
        return;
    }
    for (const Process& process : evidence.run.processes) {
        // A thread of which no call is left on record may be what the others wait for.
        if (is_any_of(process, told) || !is_idle(process) || hangs_for_ns(evidence.run, process) > 0) {
            continue;
        }
        const std::optional<Owed> first = first_owed(evidence, process);
        if (!first || is_told_of(evidence, findings, first->node)) {
            continue;
        }
        const WaitNode* owed = &first->node;
        const int64_t idle_ns = process.now_ns - process.last_activity_ns();
        if (std::min(idle_ns, longest_wait_ns(*owed)) <= hang_after_ns(evidence.run, *owed, evidence.options)) {
            continue;
        }
        const int peer = evidence.run.member(owed->waiting.front().member).global_rank;
        Finding finding;
        finding.kind = owed->kind == WaitKind::kCollective ? FindingKind::kRankNotArrived : FindingKind::kP2pUnmatched;
        finding.ranks = {first->rank};
        finding.victims = finding.waiting = {peer};
        finding.communicator = owed->communicator;
        finding.sequence = owed->sequence;
        finding.op = op_text(owed->op);
        finding.since_ns = owed->waiting.front().since_ns;
        finding.summary =
            phrase("{} is stuck, too, before {}: {} made that call {} ago, behind others", rank_fact(first->rank),
                   node_fact(evidence.run, *owed), rank_fact(peer), duration_fact(longest_wait_ns(*owed)));
        depends_on<Unknown::kWaitsUnrecorded>(finding, rank_fact(first->rank));
        findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
