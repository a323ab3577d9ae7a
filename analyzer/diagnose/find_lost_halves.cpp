// A thread waits in a send or receive whose entry is overwritten, and the rest of its rank may wait for that thread.
// The counters of the pair tell who owes the other half.
#include "finders.h"

#include <algorithm>
#include <optional>

#include "host/words.h"
#include "host_threads.h"
#include "long_waits.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

struct LostHalf {
    MemberRef waiting;
    MemberRef owing;
    OpKind kind{};  // of the half that is waited in
    uint64_t sequence = 0;
};

// It waits for its timeout, and no call on record is what it waits for.
bool waits_unseen(const Evidence& evidence, uint32_t index) {
    const Process& process = evidence.run.processes[index];
    const auto waits_there = [&](const WaitNode& node) {
        return std::any_of(node.waiting.begin(), node.waiting.end(),
                           [&](const Waiter& waiter) { return waiter.member.process == index; });
    };
    return process.overwritten != 0 && hangs_for_ns(evidence.run, process) > 0 &&
           std::none_of(evidence.graph.nodes.begin(), evidence.graph.nodes.end(), waits_there);
}

std::optional<LostHalf> lost_half(const Run& run, MemberRef ref) {
    const Member& member = run.member(ref);
    if (member.communicator == kNoIndex || member.closed_ns != 0 || !member.p2p_counted) {
        return std::nullopt;
    }
    for (const MemberRef peer : run.communicators[member.communicator].members) {
        const Member& other = run.member(peer);
        if (peer == ref || !other.p2p_counted || is_inside_a_call(run.process(peer))) {
            continue;
        }
        for (const OpKind kind : {OpKind::kRecv, OpKind::kSend}) {
            const bool receives = kind == OpKind::kRecv;
            const uint64_t made = receives ? member.received_from(other.rank) : member.sent_to(other.rank);
            const uint64_t met = receives ? other.sent_to(member.rank) : other.received_from(member.rank);
            if (met < made) {
                return LostHalf{ref, peer, kind, met};
            }
        }
    }
    return std::nullopt;
}

Finding finding_of(const Evidence& evidence, const LostHalf& half) {
    const Run& run = evidence.run;
    const Member& waiting = run.member(half.waiting);
    const Process& process = run.process(half.waiting);
    const char* const owed = half.kind == OpKind::kRecv ? "send" : "recv";
    Finding finding;
    finding.kind = FindingKind::kP2pUnmatched;
    finding.communicator = waiting.communicator;
    finding.sequence = half.sequence;
    finding.op = owed;
    finding.ranks = {run.member(half.owing).global_rank};
    finding.waiting = {waiting.global_rank};
    finding.waited_ns = hangs_for_ns(run, process);
    finding.since_ns = process.now_ns - finding.waited_ns;
    finding.summary =
        phrase("{} never called {} #{} for {} on {}; a thread of {} waits for {}", rank_fact(finding.ranks.front()),
               owed, half.sequence, rank_fact(waiting.global_rank), communicator_fact(run, waiting.communicator),
               rank_fact(waiting.global_rank), duration_fact(finding.waited_ns));
    finding.evidence.push_back(
        phrase("{} has made more {}s there than {} has made {}s; the entry of the next is overwritten",
               rank_fact(waiting.global_rank), half.kind == OpKind::kRecv ? "recv" : "send",
               rank_fact(finding.ranks.front()), owed));
    finding.depends_on("a larger TITANTRACE_COLLECTIVES: the ring would still hold the call");
    std::vector<uint32_t> nodes;
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const auto& absent = evidence.graph.nodes[index].absent;
        if (std::any_of(absent.begin(), absent.end(),
                        [&](const Absence& absence) { return absence.member.process == half.waiting.process; })) {
            nodes.push_back(index);
        }
    }
    finding.victims = {waiting.global_rank};
    evidence.add_victims(nodes, finding);
    return finding;
}

}  // namespace

void find_lost_halves(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
    for (uint32_t index = 0; index < evidence.run.processes.size(); ++index) {
        if (!waits_unseen(evidence, index)) {
            continue;
        }
        for (uint32_t row = 0; row < evidence.run.processes[index].members.size(); ++row) {
            if (const auto half = lost_half(evidence.run, {index, row})) {
                findings.push_back(finding_of(evidence, *half));
                explained.waits_unseen.insert(index);
                break;
            }
        }
    }
}

}  // namespace titan::analyzer
