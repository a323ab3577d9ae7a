// Members that disagree at one sequence number: each disagreement is a cause by itself, and explains waits.
#include "finders.h"

#include <algorithm>

#include "call_order.h"
#include "captures.h"
#include "explain.h"
#include "run_text.h"
#include "skipped_call.h"
#include "uncertainty.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

// If nobody watches the GPU, only a host that waited for the stream and came back shows that a call ended. Was a call
// before this one seen to end that way?
bool ends_are_known(const Process& process, const Member& member, const StreamOrder& order, uint64_t sequence) {
    while (sequence-- > 0) {
        const Entry* entry = process.call_at(member, sequence);
        if (entry == nullptr) {
            return member.call_log.find(sequence).has_value();  // condensed: those that are not done have their entry
        }
        if (order.progress[static_cast<size_t>(entry - process.entries.data())] == Progress::kDone) {
            return true;
        }
    }
    return false;
}

// Waits in that communicator at or after the mismatch follow from it, unless it was survived long ago.
std::vector<uint32_t> nodes_explained_by(const Evidence& evidence, const Mismatch& mismatch) {
    std::vector<uint32_t> nodes;
    for (uint32_t i = 0; i < evidence.graph.nodes.size(); ++i) {
        const WaitNode& node = evidence.node(i);
        const bool there = node.kind == WaitKind::kCollective && node.communicator == mismatch.communicator;
        // If equal calls follow each other, a skipped one shows only at the next call that differs.
        const bool skipped_before = std::ranges::any_of(node.absent, [&](const Absence& absence) {
            return absence.moved_on && std::ranges::find(mismatch.culprits, absence.member) != mismatch.culprits.end();
        });
        if (there && (node.sequence == mismatch.sequence || (mismatch.edit.kind != EditKind::kChanged &&
                                                             (node.sequence > mismatch.sequence || skipped_before)))) {
            nodes.push_back(i);
        }
    }
    return nodes;
}

// A call that was left out because it went into a graph that nobody launched.
void call_a_capture_by_its_name(const Evidence& evidence, const Mismatch& mismatch, MemberRef reporter,
                                Finding& finding) {
    const auto right = evidence.run.process(reporter).recall(evidence.run.member(reporter), mismatch.sequence);
    if (mismatch.others.empty() || !right) {
        return;
    }
    const Entry* capture = find_capture(evidence.run, mismatch.culprits.front(), *right, mismatch.sequence);
    if (capture == nullptr) {
        return;
    }
    const Process& process = evidence.run.process(mismatch.culprits.front());
    finding.kind = FindingKind::kCaptureMismatch;
    finding.summary = phrase(
        "{} captured {} into graph {} and never launched that graph, where {} ran it; the others meet its next "
        "call on the communicator instead",
        ranks_fact(finding.ranks), call_fact(evidence.run, mismatch.communicator, right->kind, mismatch.sequence),
        capture->graph, ranks_fact({evidence.rank_of(reporter)}));
    finding.evidence.push_back(capture_fact(process, evidence.rank_of(mismatch.culprits.front()), *capture));
}

// If rings lost unfinished calls, no waiter is visible. Then we accept that nobody finished the call.
bool is_not_survived(const Evidence& evidence, const Mismatch& mismatch) {
    bool lost = false;
    for (const auto* side : {&mismatch.culprits, &mismatch.others}) {
        for (const MemberRef ref : *side) {
            if (evidence.run.member(ref).finished > mismatch.sequence) {
                return false;
            }
            lost |= has_lost_unfinished_calls(evidence.run.process(ref));
        }
    }
    return lost && mismatch.kind != FindingKind::kRedopMismatch;
}

// Is the call of the mismatch ahead of the waiter's on its stream, and not known to have ended?
bool is_behind(const Evidence& evidence, const Waiter& waiter, const Mismatch& mismatch) {
    const Process& process = evidence.run.process(waiter.member);
    const Member* const member = member_in(process, mismatch.communicator);
    const Entry* const entry = member == nullptr ? nullptr : process.call_at(*member, mismatch.sequence);
    if (entry == nullptr || waiter.entry == nullptr || entry >= waiter.entry || entry->stream != waiter.entry->stream) {
        return false;
    }
    const StreamOrder& order = evidence.graph.orders[waiter.member.process];
    const bool same_step = entry->step >= 0 && entry->step == waiter.entry->step;
    return order.progress[static_cast<size_t>(entry - process.entries.data())] == Progress::kUnknown &&
           (same_step || ends_are_known(process, *member, order, mismatch.sequence));
}

// A mismatch that is ahead of what waits, on the same streams, and not known to be survived, is why it waits.
// `of_mismatches`: one for each, in their order.
void lead_with_mismatches_ahead(const Evidence& evidence, ToldSoFar& told, std::vector<Finding>& of_mismatches) {
    for (size_t i = 0; i < evidence.mismatches.size(); ++i) {
        Finding& finding = of_mismatches[i];
        if (finding.hangs || finding.confidence == Confidence::kPossible) {
            continue;
        }
        std::vector<uint32_t> nodes;
        for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
            const WaitNode& node = evidence.node(index);
            if (evidence.hangs(index) && !told.explained[index] && node.device_unknown && node.absent.empty() &&
                std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
                    return is_behind(evidence, waiter, evidence.mismatches[i]);
                })) {
                nodes.push_back(index);
            }
        }
        if (nodes.empty()) {
            continue;
        }
        finding.hangs = true;
        finding.evidence.emplace_back(
            "it is ahead on the streams of the ranks that wait, and whether the GPUs got past it is not recorded");
        for (const uint32_t node : nodes) {
            told.explained[node] = true;
        }
        evidence.show_waits(nodes, finding);
        evidence.add_victims(nodes, finding);
    }
}

}  // namespace

void find_disagreements(const Evidence& evidence, ToldSoFar& told) {
    std::vector<Finding> of_mismatches;
    for (const Mismatch& mismatch : evidence.mismatches) {
        Finding& finding = of_mismatches.emplace_back();
        finding.kind = mismatch.kind;
        finding.communicator = mismatch.communicator;
        finding.sequence = mismatch.sequence;
        finding.confidence = mismatch.confidence;
        finding.summary = mismatch.summary;
        finding.evidence = mismatch.evidence;
        for (const MemberRef ref : mismatch.culprits) {
            finding.ranks.push_back(evidence.rank_of(ref));
        }
        const Sentence shift = mismatch.culprits.empty() || mismatch.several_threads
                                   ? Sentence()
                                   : shift_by_step_text(evidence.run, mismatch.communicator, mismatch.culprits.front());
        if (!shift.empty()) {
            finding.evidence.push_back(shift);
        }
        const MemberRef reporter = mismatch.others.empty() ? mismatch.culprits.front() : mismatch.others.front();
        if (const auto entry =
                evidence.run.process(reporter).recall(evidence.run.member(reporter), mismatch.sequence)) {
            finding.op = op_text(entry->kind);
            finding.since_ns = entry->entered_ns;
        }
        call_a_capture_by_its_name(evidence, mismatch, reporter, finding);
        explain_doubt(evidence.run, mismatch, finding);
        const std::vector<uint32_t> nodes = nodes_explained_by(evidence, mismatch);
        for (const uint32_t node : nodes) {
            told.explained[node] = true;
        }
        evidence.show_waits(nodes, finding);
        evidence.add_victims(nodes, finding);
        finding.hangs = !nodes.empty() || is_not_survived(evidence, mismatch);
        if (nodes.empty() && finding.hangs) {
            finding.evidence.emplace_back("no member is seen to have finished it; calls that wait before it are lost");
            depends_on(finding, Unknown::kLostCauses);
        }
    }
    lead_with_mismatches_ahead(evidence, told, of_mismatches);
    for (Finding& finding : of_mismatches) {
        if (!finding.hangs) {
            finding.evidence.emplace_back("no rank hangs in it, but the results are wrong");
        }
        told.findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
