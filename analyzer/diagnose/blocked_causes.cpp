#include "blocked_causes.h"

#include <algorithm>
#include <map>

#include "explain.h"
#include "host/words.h"
#include "uncertainty.h"

namespace titan::analyzer {
namespace {

// The device itself reports that the stream did not reach the call. The blocker is only as sure as the record of the
// work handed over is complete.
void doubt_blocker(const Evidence& evidence, const WaitNode& node, const Blocked& blocked, const BlockedBy& by,
                   Finding& finding) {
    const Process& process = evidence.run.process(blocked.member);
    if (by.work == nullptr && blocked.ahead.work.empty()) {
        finding.doubt(true, process.source.is_flight_recorder
                                ? "a run under titantrace: Flight Recorder dumps hold no kernels and copies"
                            : process.streams_seen.recorded == 0
                                ? "kernels and copies in the record: set TITANTRACE_CUDA and TITANTRACE_LAUNCHES=1"
                                : "a record of the work ahead on its stream: nothing recorded is ahead");
        finding.doubt(!members_started(node, 1), "a member whose GPU is known to have started the call",
                      Confidence::kPossible);
        return;
    }
    const bool one_of_several = by.work == nullptr || by.by_comparison;
    finding.doubt(one_of_several, phrase("cuda-gdb or a coredump of {}'s GPU: one of {} pieces of work blocks it",
                                         rank_fact(process.rank), grouped_digits(blocked.ahead.size())));
    const int64_t oldest = process.work[blocked.ahead.work.front()].entered_ns;
    const bool waits_for_unseen = by.work != nullptr && by.work->kind == WorkKind::kEventWait;
    const bool partly_seen =
        blocked.ahead.implicit || !process.streams_seen.complete_since(oldest - 1) || waits_for_unseen;
    finding.doubt(partly_seen, process.streams_seen.sampled
                                   ? "TITANTRACE_LAUNCHES=1: only some kernels and copies are recorded"
                               : waits_for_unseen ? "the record of the event that it waits for: it is missing"
                               : blocked.ahead.implicit
                                   ? "streams made with cudaStreamNonBlocking, or none of it on the default stream"
                                   : phrase("a larger TITANTRACE_STREAM_WORK: {} pieces of {} were overwritten",
                                            grouped_digits(process.streams_seen.overwritten), rank_fact(process.rank)));
    // Of sends and receives no count tells how many had ended: what was called before that work may not have.
    const std::vector<int64_t>& marks_ns = process.history.marks_ns;
    finding.doubt(
        process.overwritten != 0 && (marks_ns.empty() || marks_ns.front() >= oldest),
        phrase("a larger TITANTRACE_COLLECTIVES: what {} called before that work is overwritten, and it may be "
               "behind one of these calls",
               rank_fact(process.rank)));
    finding.doubt(process.sees.streams && process.gpu_method != format::GpuProgressMethod::kWrites,
                  progress_advice(process) +
                      ": that its stream did not reach the call is inferred from an event that did not complete");
}

}  // namespace

// Is there a member whose stream does not wait for another call?
bool is_blocked_there(const Evidence& evidence, const Explained& explained, uint32_t index) {
    const WaitNode& node = evidence.graph.nodes[index];
    return evidence.hang_of[index] == Hang::kByTime && !explained.nodes[index] && !explained.in_cycle.contains(index) &&
           std::any_of(node.blocked.begin(), node.blocked.end(), [&](const Blocked& blocked) {
               return blocked.held_by.empty() && !evidence.run.process(blocked.member).is_gone();
           });
}

void note_blocked(const Evidence& evidence, uint32_t index, BlockedCauses& causes) {
    for (const Blocked& blocked : evidence.graph.nodes[index].blocked) {
        if (blocked.held_by.empty() && !evidence.run.process(blocked.member).is_gone()) {
            const CulpritKey key{blocked.member.process, evidence.run.member(blocked.member).global_rank, kNoIndex, -1};
            causes.try_emplace(key, BlockedCause{&blocked, {}}).first->second.nodes.push_back(index);
        }
    }
}

// Members that are blocked in the same call by the same thing are one finding.
void report_blocked(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings,
                    const BlockedCauses& causes) {
    struct Place {
        std::vector<const BlockedCause*> causes;
        BlockedBy by;
    };
    std::map<std::pair<uint32_t, std::string>, Place> places;
    for (const auto& [key, cause] : causes) {
        const uint32_t first = evidence.oldest_of(cause.nodes);
        const BlockedBy by = find_blocker(evidence.run, evidence.graph.nodes[first], *cause.blocked);
        Place& place = places[{first, blocker_text(evidence.run, *cause.blocked, by)}];
        place.causes.push_back(&cause);
        place.by = by;
    }
    for (const auto& [key, place] : places) {
        Finding finding = evidence.finding_at(FindingKind::kGpuQueueBlocked, key.first);
        std::vector<const Blocked*> blocked;
        std::vector<uint32_t> nodes;
        for (const BlockedCause* cause : place.causes) {
            blocked.push_back(cause->blocked);
            nodes.insert(nodes.end(), cause->nodes.begin(), cause->nodes.end());
            finding.ranks.push_back(evidence.run.member(cause->blocked->member).global_rank);
        }
        sort_unique(finding.ranks);
        explain_blocked(evidence.run, evidence.graph.nodes[key.first], blocked, finding);
        doubt_blocker(evidence, evidence.graph.nodes[key.first], *blocked.front(), place.by, finding);
        doubt_short_wait(evidence.run, evidence.graph.nodes[key.first], finding);
        for (const uint32_t node : nodes) {
            explained.is_cause[node] = true;
        }
        evidence.add_victims(nodes, finding);
        findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
