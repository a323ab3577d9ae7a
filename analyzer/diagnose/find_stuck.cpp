// The rest: calls that do not finish although every member arrived, and calls that the GPU never reached.
#include "finders.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "break_tie.h"
#include "explain.h"
#include "host/words.h"
#include "skipped_call.h"
#include "stuck_nodes.h"
#include "uncertainty.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

constexpr size_t kShownStuck = 8;

// The call in which a rank hangs may have lost its entry; then the calls with entries only wait behind it.
bool may_hang_in_a_lost_call(const Evidence& evidence, const WaitNode& node) {
    const bool in_line = std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
        return waiter.in_line || has_lost_unfinished_calls(evidence.run.process(waiter.member));
    });
    const std::vector<MemberRef>& members = evidence.run.communicators[node.communicator].members;
    // Neither half of a pair ends without the other: if the entry of one half is lost, it has not ended, either.
    const bool lost_half = node.lost && node.kind == WaitKind::kPointToPoint;
    return in_line || lost_half || (node.lost && std::ranges::any_of(members, [&](MemberRef ref) {
                                        return has_lost_unfinished_calls(evidence.run.process(ref));
                                    }));
}

// One finding for all of them: none of these waits is known to be the cause.
void add_stuck_in_lost_calls(const Evidence& evidence, ToldSoFar& told, const std::vector<uint32_t>& nodes) {
    const uint32_t oldest = evidence.oldest_of(nodes);
    Finding finding = evidence.finding_at(FindingKind::kStuckInFlight, oldest);
    finding.confidence = Confidence::kPossible;
    const Process* largest = nullptr;
    for (const Process& process : evidence.run.processes) {
        if (has_lost_unfinished_calls(process)) {
            finding.ranks.push_back(process.rank);
        }
    }
    for (const uint32_t node : nodes) {
        for (const Waiter& waiter : evidence.node(node).waiting) {
            finding.ranks.push_back(evidence.rank_of(waiter.member));
        }
    }
    sort_unique(finding.ranks);
    for (const int rank : finding.ranks) {
        const Process* process = evidence.process_of_rank[rank];
        largest = process != nullptr && (largest == nullptr || process->overwritten > largest->overwritten) ? process
                                                                                                            : largest;
    }
    finding.summary = phrase(
        "the rings are too small: calls that had not finished are overwritten, and {} may hang in one of those; in "
        "which, and for whom, is undecidable; the oldest that is left is {}",
        ranks_fact(finding.ranks), node_fact(evidence.run, evidence.node(oldest)));
    if (largest != nullptr) {
        finding.would_confirm.push_back(larger_ring_text(*largest) +
                                        ", among them unfinished ones that it may hang in");
    }
    if (!evidence.run.missing_ranks.empty()) {
        finding.ranks.insert(finding.ranks.end(), evidence.run.missing_ranks.begin(), evidence.run.missing_ranks.end());
        sort_unique(finding.ranks);
        finding.summary +=
            phrase("; {} left no dump and may be the cause as well", ranks_fact(evidence.run.missing_ranks));
        finding.would_confirm.push_back(missing_dumps_text(evidence.run.missing_ranks, {}));
    }
    evidence.show_waits(nodes, finding, kShownStuck);
    told.add(std::move(finding), nodes);
}

// Only hosts that wait for their GPUs show that the call has not ended.
bool is_known_by_hosts_alone(const Evidence& evidence, const WaitNode& node) {
    return node.device_unknown && node.kind != WaitKind::kCreation &&
           std::ranges::all_of(node.waiting, [&](const Waiter& waiter) {
               return evidence.graph.orders[waiter.member.process].inferred;
           });
}

// Each host's newest call was taken for the one that it waits for, but any since it last waited may be: one finding.
void add_stuck_unseen(const Evidence& evidence, ToldSoFar& told, const std::vector<uint32_t>& nodes) {
    const uint32_t oldest = evidence.oldest_of(nodes);
    Finding finding = evidence.finding_at(FindingKind::kStuckInFlight, oldest);
    finding.ranks = evidence.ranks_in(nodes);
    evidence.show_waits(nodes, finding, kShownStuck);
    finding.summary = phrase(
        "{} wait for their GPUs, and which call does not finish is not recorded: {}, or another one since their last "
        "wait",
        ranks_fact(finding.ranks), node_fact(evidence.run, evidence.node(oldest)));
    depends_on(finding, Unknown::kStreamsUnseen);
    told.add(std::move(finding), nodes);
}

// Ranks without a record that a member of the node has handed over a send or receive with, in a call that nobody saw
// end.
std::vector<int> unrecorded_partners(const Evidence& evidence, const WaitNode& node) {
    const Run& run = evidence.run;
    std::vector<int> ranks;
    for (const MemberRef member : run.communicators[node.communicator].members) {
        const Process& process = run.process(member);
        const bool is_half = node.kind == WaitKind::kCollective || run.member(member).rank == node.source ||
                             run.member(member).rank == node.target;
        for (uint32_t index = 0; is_half && index < process.entries.size(); ++index) {
            const Entry& entry = process.entries[index];
            const bool open = format::class_of(entry.kind) == format::OpClass::p2p && entry.row != kNoIndex &&
                              process.members[entry.row].communicator != kNoIndex &&
                              evidence.graph.orders[member.process].progress[index] == Progress::kUnknown;
            const int partner =
                open ? run.global_rank(run.communicators[process.members[entry.row].communicator], entry.peer) : -1;
            if (partner >= 0 && std::ranges::binary_search(run.missing_ranks, partner)) {
                ranks.push_back(partner);
            }
        }
    }
    sort_unique(ranks);
    return ranks;
}

// A rank that left no record may not have come to what the others exchange with it, and all of them may wait for that.
bool blame_the_unrecorded(const Evidence& evidence, const WaitNode& node, Finding& finding) {
    const std::vector<int> partners = evidence.run.partial_recording || !is_known_by_hosts_alone(evidence, node)
                                          ? std::vector<int>()
                                          : unrecorded_partners(evidence, node);
    if (partners.empty()) {
        return false;
    }
    finding.kind = FindingKind::kRankNotArrived;
    finding.ranks = partners;
    finding.summary = phrase(
        "{} left no record, and the others have handed over sends and receives with [it|them] whose end no record "
        "shows: [it|they] may not have joined; {} [waits|wait] for {}",
        ranks_fact(partners), ranks_fact(waiting_ranks(evidence.run, node)), node_fact(evidence.run, node));
    finding.evidence.push_back(waiting_fact(evidence.run, node));
    finding.depends_on(missing_dumps_text(partners, {}), Confidence::kPossible);
    return true;
}

// Members whose stream never came to their call, grouped by the work that blocks it.
struct BlockedCause {
    const Blocked* blocked;
    std::vector<uint32_t> nodes;
};
using BlockedCauses = std::map<CulpritKey, BlockedCause>;

// The device itself reports that the stream did not reach the call. The blocker is only as sure as the record of the
// work handed over is complete.
void doubt_blocker(const Evidence& evidence, const WaitNode& node, const Blocked& blocked, const BlockedBy& by,
                   Finding& finding) {
    const Process& process = evidence.run.process(blocked.member);
    if (by.work == nullptr && blocked.ahead.work.empty()) {
        depends_on(finding, process.source.is_flight_recorder    ? Unknown::kNoWorkInFiles
                            : process.streams_seen.recorded == 0 ? Unknown::kNoWorkRecorded
                            : process.streams_seen.sampled       ? Unknown::kSomeLaunches
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

void note_blocked(const Evidence& evidence, uint32_t index, BlockedCauses& causes) {
    for (const Blocked& blocked : evidence.node(index).blocked) {
        if (blocked.held_by.empty() && !evidence.run.process(blocked.member).is_gone()) {
            const CulpritKey key{blocked.member.process, evidence.rank_of(blocked.member), kNoIndex, -1};
            causes.try_emplace(key, BlockedCause{&blocked, {}}).first->second.nodes.push_back(index);
        }
    }
}

// Members that are blocked in the same call by the same thing are one finding.
void report_blocked(const Evidence& evidence, ToldSoFar& told, const BlockedCauses& causes) {
    struct Place {
        std::vector<const BlockedCause*> causes;
        BlockedBy by;
    };
    std::map<std::pair<uint32_t, std::string>, Place> places;
    for (const auto& [key, cause] : causes) {
        const uint32_t first = evidence.oldest_of(cause.nodes);
        const BlockedBy by = find_blocker(evidence.run, evidence.node(first), *cause.blocked);
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
            finding.ranks.push_back(evidence.rank_of(cause->blocked->member));
        }
        sort_unique(finding.ranks);
        explain_blocked(evidence.run, evidence.node(key.first), blocked, finding);
        doubt_blocker(evidence, evidence.node(key.first), *blocked.front(), place.by, finding);
        doubt_short_wait(evidence.run, evidence.node(key.first), finding);
        if (finding.confidence == Confidence::kPossible && break_tie(evidence, nodes, finding)) {
            finding.kind = FindingKind::kP2pUnmatched;
        }
        told.add_cause(std::move(finding), nodes);
    }
}

}  // namespace

void find_stuck(const Evidence& evidence, ToldSoFar& told) {
    BlockedCauses blocked;
    std::vector<uint32_t> in_line;
    const std::vector<uint32_t> stuck = first_stuck_nodes(evidence, told);
    std::vector<uint32_t> unseen;
    std::ranges::copy_if(stuck, std::back_inserter(unseen), [&](uint32_t index) {
        return all_arrived(evidence, told, index) && is_known_by_hosts_alone(evidence, evidence.node(index));
    });
    if (unseen.size() > 1) {
        add_stuck_unseen(evidence, told, unseen);
    }
    for (const uint32_t index : stuck) {
        if (unseen.size() > 1 && std::ranges::find(unseen, index) != unseen.end()) {
            continue;
        }
        const WaitNode& node = evidence.node(index);
        if (!all_arrived(evidence, told, index)) {
            note_blocked(evidence, index, blocked);
            continue;
        }
        if (node.kind != WaitKind::kCreation && may_hang_in_a_lost_call(evidence, node)) {
            in_line.push_back(index);
            continue;
        }
        Finding finding = evidence.finding_at(
            node.kind == WaitKind::kCreation ? FindingKind::kCommInitStuck : FindingKind::kStuckInFlight, index);
        if (blame_the_unrecorded(evidence, node, finding)) {
            told.add(std::move(finding), {index});
            continue;
        }
        doubt_stuck(evidence.run, node, finding);
        doubt_guesses(evidence.run, node, finding);
        finding.ranks = waiting_ranks(evidence.run, node);
        explain_stuck(evidence.run, node, finding);
        if (node.kind == WaitKind::kPointToPoint && break_tie(evidence, {index}, finding)) {
            finding.kind = FindingKind::kP2pUnmatched;
            finding.confidence = Confidence::kPossible;
        }
        told.add(std::move(finding), {index});
    }
    if (!in_line.empty()) {
        add_stuck_in_lost_calls(evidence, told, in_line);
    }
    report_blocked(evidence, told, blocked);
}

}  // namespace titan::analyzer
