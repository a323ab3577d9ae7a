// The rest: calls that do not finish although every member arrived, and calls that the GPU never reached.
#include "finders.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "blocked_causes.h"
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
    const bool in_line = std::any_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
        return waiter.in_line || has_lost_unfinished_calls(evidence.run.process(waiter.member));
    });
    const std::vector<MemberRef>& members = evidence.run.communicators[node.communicator].members;
    // Neither half of a pair ends without the other: if the entry of one half is lost, it has not ended, either.
    const bool lost_half = node.lost && node.kind == WaitKind::kPointToPoint;
    return in_line || lost_half || (node.lost && std::any_of(members.begin(), members.end(), [&](MemberRef ref) {
                                        return has_lost_unfinished_calls(evidence.run.process(ref));
                                    }));
}

// One finding for all of them: none of these waits is known to be the cause.
void add_stuck_in_lost_calls(const Evidence& evidence, std::vector<Finding>& findings,
                             const std::vector<uint32_t>& nodes) {
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
        for (const Waiter& waiter : evidence.graph.nodes[node].waiting) {
            finding.ranks.push_back(evidence.run.member(waiter.member).global_rank);
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
        ranks_fact(finding.ranks), node_fact(evidence.run, evidence.graph.nodes[oldest]));
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
    evidence.add_victims(nodes, finding);
    findings.push_back(std::move(finding));
}

// Only hosts that wait for their GPUs show that the call has not ended.
bool is_known_by_hosts_alone(const Evidence& evidence, const WaitNode& node) {
    return node.device_unknown && node.kind != WaitKind::kCreation &&
           std::all_of(node.waiting.begin(), node.waiting.end(),
                       [&](const Waiter& waiter) { return evidence.graph.orders[waiter.member.process].inferred; });
}

// Each host's newest call was taken for the one that it waits for, but any since it last waited may be: one finding.
void add_stuck_unseen(const Evidence& evidence, std::vector<Finding>& findings, const std::vector<uint32_t>& nodes) {
    const uint32_t oldest = evidence.oldest_of(nodes);
    Finding finding = evidence.finding_at(FindingKind::kStuckInFlight, oldest);
    finding.ranks = evidence.ranks_in(nodes);
    evidence.show_waits(nodes, finding, kShownStuck);
    finding.summary = phrase(
        "{} wait for their GPUs, and which call does not finish is not recorded: {}, or another one since their last "
        "wait",
        ranks_fact(finding.ranks), node_fact(evidence.run, evidence.graph.nodes[oldest]));
    depends_on(finding, Unknown::kStreamsUnseen);
    evidence.add_victims(nodes, finding);
    findings.push_back(std::move(finding));
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
            if (partner >= 0 && std::binary_search(run.missing_ranks.begin(), run.missing_ranks.end(), partner)) {
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
    const std::vector<int> waiting = waiting_ranks(evidence.run, node);
    finding.kind = FindingKind::kRankNotArrived;
    finding.ranks = partners;
    finding.summary = phrase(
        "{} left no record, and the others have handed over sends and receives with {} whose end no record shows: {} "
        "may not have joined; {} {} for {}",
        ranks_fact(partners), verb_form(partners.size(), "it", "them"), verb_form(partners.size(), "it", "they"),
        ranks_fact(waiting), verb_form(waiting.size(), "waits", "wait"), node_fact(evidence.run, node));
    finding.evidence.push_back(waiting_fact(evidence.run, node));
    finding.depends_on(missing_dumps_text(partners, {}), Confidence::kPossible);
    return true;
}

}  // namespace

void find_stuck(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
    BlockedCauses blocked;
    std::vector<uint32_t> in_line;
    const std::vector<uint32_t> stuck = first_stuck_nodes(evidence, explained);
    std::vector<uint32_t> unseen;
    std::copy_if(stuck.begin(), stuck.end(), std::back_inserter(unseen), [&](uint32_t index) {
        return all_arrived(evidence, explained, index) &&
               is_known_by_hosts_alone(evidence, evidence.graph.nodes[index]);
    });
    if (unseen.size() > 1) {
        add_stuck_unseen(evidence, findings, unseen);
    }
    for (const uint32_t index : stuck) {
        if (unseen.size() > 1 && std::find(unseen.begin(), unseen.end(), index) != unseen.end()) {
            continue;
        }
        const WaitNode& node = evidence.graph.nodes[index];
        if (!all_arrived(evidence, explained, index)) {
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
            evidence.add_victims({index}, finding);
            findings.push_back(std::move(finding));
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
        evidence.add_victims({index}, finding);
        findings.push_back(std::move(finding));
    }
    if (!in_line.empty()) {
        add_stuck_in_lost_calls(evidence, findings, in_line);
    }
    report_blocked(evidence, explained, findings, blocked);
}

}  // namespace titan::analyzer
