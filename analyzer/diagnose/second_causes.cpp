// Ranks that stand still beside the cause: the calls that they owe are queued behind others, so that no wait shows it.
#include "steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "causes.h"
#include "explain.h"
#include "host_threads.h"
#include "long_waits.h"
#include "play.h"
#include "run_text.h"
#include "unknowns.h"
#include "waiters.h"

namespace titan::analyzer {
namespace {

// True if the process runs the program's own code, as far as all threads that call NCCL show.
bool is_idle(const Process& process) {
    const auto threads = issuing_threads(process);
    return !threads.empty() && !process.is_gone() && !is_host_unseen(process) && process.ending.halt == Halt::kNone &&
           std::ranges::all_of(threads, [](const ThreadState* thread) { return thread->call == 0; });
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
    int rank = -1;  // whose call it is
};

// For each of these processes, the oldest call that it has not made, that others have made, and that is not known to
// have ended.
std::map<uint32_t, Owed> first_owed(const Evidence& evidence, const std::set<uint32_t>& idle) {
    const Run& run = evidence.run;
    Score score(run, false);
    for (uint32_t process = 0; process < run.processes.size(); ++process) {
        score.add_calls(process, evidence.graph.orders[process].progress);
    }
    std::map<uint32_t, Owed> owed;
    for (const Meeting& meeting : score.meetings) {
        const auto [communicator, sequence, source, target] = meeting.key;
        for (const MemberRef ref : run.communicators[communicator].members) {
            const Member& member = run.member(ref);
            const bool has_side = source < 0 || member.rank == source || member.rank == target;
            if (!idle.contains(ref.process) || !has_side || member.closed_ns != 0 ||
                calls_made(run, line_in(run, ref, meeting.key)).value_or(kNoSequence) > sequence) {
                continue;
            }
            for (size_t i = 0; i < meeting.entries.size(); ++i) {
                const Entry& call = *meeting.entries[i];
                const uint32_t peer = score.units[meeting.units[i]].process;
                Owed& first = owed[ref.process];
                if (first.node.waiting.empty() || call.entered_ns < first.node.waiting.front().since_ns) {
                    first = {{}, member.global_rank};
                    std::tie(first.node.communicator, first.node.sequence, first.node.source, first.node.target) =
                        meeting.key;
                    first.node.kind = source < 0 ? WaitKind::kCollective : WaitKind::kPointToPoint;
                    first.node.op = call.kind;
                    first.node.waiting.push_back(
                        {{peer, call.row}, &call, call.entered_ns, run.processes[peer].now_ns - call.entered_ns});
                }
            }
        }
    }
    return owed;
}

// One of the findings says of that collective who should have made it, or that nobody owes it: who made it is to blame.
bool is_told_of(const Evidence& evidence, const std::vector<Finding>& findings, const WaitNode& owed) {
    const int made_by = evidence.rank_of(owed.waiting.front().member);
    return owed.kind == WaitKind::kCollective && std::ranges::any_of(findings, [&](const Finding& finding) {
               return finding.hangs && finding.communicator == owed.communicator && finding.sequence == owed.sequence &&
                      (finding.kind == FindingKind::kOpMismatch || finding.kind == FindingKind::kGilHeld ||
                       std::ranges::find(finding.ranks, made_by) != finding.ranks.end());
           });
}

// Who made the call was at this very place, behind unfinished calls of its own, and went on: what this process waits in
// on its GPU holds its host neither.
bool was_passed_here(const Evidence& evidence, const Process& process, const WaitNode& owed) {
    const Waiter& passer = owed.waiting.front();
    const Process& peer = evidence.run.process(passer.member);
    const auto is_last_before = [&](const Process& of, const Entry& call) {
        return call.row != kNoIndex && of.members[call.row].communicator == owed.communicator &&
               call.sequence + 1 == owed.sequence;
    };
    const auto place = static_cast<size_t>(passer.entry - peer.entries.data());
    const auto& progress = evidence.graph.orders[passer.member.process].progress;
    return owed.kind == WaitKind::kCollective && place > 0 && is_last_before(peer, peer.entries[place - 1]) &&
           is_last_before(process, process.entries.back()) &&
           std::any_of(progress.begin(), progress.begin() + static_cast<ptrdiff_t>(place),
                       [](Progress one) { return one == Progress::kUnfinished; });
}

}  // namespace

void add_second_causes(const Evidence& evidence, std::vector<Finding>& findings) {
    std::set<int> told;
    for (const Finding& finding : findings) {
        if (finding.hangs) {
            told.insert(finding.ranks.begin(), finding.ranks.end());
        }
    }
    std::set<uint32_t> idle;
    for (uint32_t index = 0; any_hangs(findings) && index < evidence.run.processes.size(); ++index) {
        const Process& process = evidence.run.processes[index];
        const bool may_be_idle = is_host_unseen(process) && !process.has_ended() && !process.entries.empty();
        // A thread of which no call is left on record may be what the others wait for.
        if (!is_any_of(process, told) &&
            (may_be_idle || (is_idle(process) && hangs_for_ns(evidence.run, process) <= 0))) {
            idle.insert(index);
        }
    }
    const std::map<uint32_t, Owed> all_owed = idle.empty() ? std::map<uint32_t, Owed>() : first_owed(evidence, idle);
    for (const auto& [index, first] : all_owed) {
        const Process& process = evidence.run.processes[index];
        const WaitNode* owed = &first.node;
        if (is_told_of(evidence, findings, *owed) ||
            (is_host_unseen(process) && !was_passed_here(evidence, process, *owed))) {
            continue;
        }
        const int64_t idle_ns = process.now_ns - process.last_activity_ns();
        if (std::min(idle_ns, longest_wait_ns(*owed)) <= hang_after_ns(evidence.run, *owed, evidence.options)) {
            continue;
        }
        const int peer = evidence.rank_of(owed->waiting.front().member);
        Finding finding;
        finding.kind = owed->kind == WaitKind::kCollective ? FindingKind::kRankNotArrived : FindingKind::kP2pUnmatched;
        finding.ranks = {first.rank};
        finding.victims = finding.waiting = {peer};
        finding.communicator = owed->communicator;
        finding.sequence = owed->sequence;
        finding.op = op_text(owed->op);
        finding.since_ns = owed->waiting.front().since_ns;
        finding.summary =
            phrase("{} is stuck, too, before {}: {} made that call {} ago, behind others", rank_fact(first.rank),
                   node_fact(evidence.run, *owed), rank_fact(peer), duration_fact(longest_wait_ns(*owed)));
        depends_on<Unknown::kWaitsUnrecorded>(finding, rank_fact(first.rank));
        findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
