#include "blocked_causes.h"

#include <algorithm>
#include <map>

#include "break_tie.h"
#include "explain.h"
#include "host/words.h"
#include "uncertainty.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

// The device itself reports that the stream did not reach the call. The blocker is only as sure as the record of the
// work handed over is complete.
void doubt_blocker(const Evidence& evidence, const WaitNode& node, const Blocked& blocked, const BlockedBy& by,
                   Finding& finding) {
    const Process& process = evidence.run.process(blocked.member);
    if (by.work == nullptr && blocked.ahead.work.empty()) {
        depends_on(finding, process.source.is_flight_recorder    ? Unknown::kNoWorkInFiles
                            : process.streams_seen.recorded == 0 ? Unknown::kNoWorkRecorded
                                                                 : Unknown::kNoWorkAhead);
        doubt<Unknown::kNobodyStarted>(finding, !members_started(node, 1));
        return;
    }
    const bool one_of_several = by.work == nullptr || by.by_comparison;
    doubt<Unknown::kOneOfWork>(finding, one_of_several, rank_fact(process.rank), grouped_digits(blocked.ahead.size()));
    const int64_t oldest = process.work[blocked.ahead.work.front()].entered_ns;
    const bool waits_for_unseen = by.work != nullptr && by.work->kind == WorkKind::kEventWait;
    if (process.streams_seen.sampled) {
        depends_on(finding, Unknown::kSomeLaunches);
    } else if (waits_for_unseen || blocked.ahead.implicit) {
        depends_on(finding, waits_for_unseen ? Unknown::kRecordOfEvent : Unknown::kDefaultStream);
    } else {
        doubt<Unknown::kLostWork>(finding, !process.streams_seen.complete_since(oldest - 1),
                                  grouped_digits(process.streams_seen.overwritten), rank_fact(process.rank));
    }
    // Nothing counts finished sends and receives, so those called before that work may be unfinished.
    const std::vector<int64_t>& marks_ns = process.history.marks_ns;
    doubt<Unknown::kLostBeforeWork>(
        finding, process.overwritten != 0 && (marks_ns.empty() || marks_ns.front() >= oldest), rank_fact(process.rank));
    doubt<Unknown::kEventUnmet>(finding,
                                process.sees.streams && process.gpu_method != format::GpuProgressMethod::kWrites,
                                progress_advice(process));
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
        if (finding.confidence == Confidence::kPossible && break_tie(evidence, nodes, finding)) {
            finding.kind = FindingKind::kP2pUnmatched;
        }
        for (const uint32_t node : nodes) {
            explained.is_cause[node] = true;
        }
        evidence.add_victims(nodes, finding);
        findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
