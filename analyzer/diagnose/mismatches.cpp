// Members that disagree at one sequence number: each disagreement is a cause by itself, and explains waits.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "captures.h"
#include "diagnoser.h"
#include "doubts.h"
#include "rank_state.h"
#include "run_text.h"
#include "text.h"
#include "went_past.h"

namespace titan::analyzer {

// Waits in that communicator at or after the mismatch follow from it, unless it was survived long ago.
std::vector<uint32_t> Diagnoser::nodes_explained_by(const Mismatch& mismatch) const {
    std::vector<uint32_t> nodes;
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
        const WaitNode& node = graph_.nodes[i];
        const bool there = node.kind == WaitKind::kCollective && node.communicator == mismatch.communicator;
        // Where equal calls follow each other, the one that was left out is seen only at the next other one.
        const bool left_out_before = std::any_of(node.absent.begin(), node.absent.end(), [&](const Absence& absence) {
            return absence.moved_on && std::find(mismatch.culprits.begin(), mismatch.culprits.end(), absence.member) !=
                                           mismatch.culprits.end();
        });
        if (there && (node.sequence == mismatch.sequence ||
                      (mismatch.shift != Shift::kNone && (node.sequence > mismatch.sequence || left_out_before)))) {
            nodes.push_back(i);
        }
    }
    return nodes;
}

// A call that was left out because it went into a graph that nobody launched.
void Diagnoser::call_a_capture_by_its_name(const Mismatch& mismatch, MemberRef teller, Finding& finding) const {
    const auto right = run_.process(teller).recall(run_.member(teller), mismatch.sequence);
    if (mismatch.others.empty() || !right) {
        return;
    }
    const Entry* capture = find_capture(run_, mismatch.culprits.front(), *right, mismatch.sequence);
    if (capture == nullptr) {
        return;
    }
    const Process& process = run_.process(mismatch.culprits.front());
    finding.kind = FindingKind::kCaptureMismatch;
    finding.summary = fmt::format(
        "{} captured {} into graph {} and never launched that graph, where {} ran it; its next call on the "
        "communicator "
        "meets the others there",
        ranks_text(finding.ranks), call_text(run_.communicators[mismatch.communicator], right->kind, mismatch.sequence),
        capture->graph, ranks_text({run_.member(teller).global_rank}));
    finding.evidence.push_back(
        fmt::format("rank {}: {} ({}) was captured into graph {}, {} before its dump; no launch "
                    "of that graph follows",
                    run_.member(mismatch.culprits.front()).global_rank, op_text(capture->kind),
                    arguments_text(*capture), capture->graph, duration_text(process.now_ns - capture->entered_ns)));
}

// Where rings lost unfinished calls nobody is seen to wait in it: that nobody finished it must do.
bool Diagnoser::is_not_survived(const Mismatch& mismatch) const {
    bool lost = false;
    for (const auto* side : {&mismatch.culprits, &mismatch.others}) {
        for (const MemberRef ref : *side) {
            if (run_.member(ref).finished > mismatch.sequence) {
                return false;
            }
            lost |= has_lost_unfinished_calls(run_.process(ref));
        }
    }
    return lost && mismatch.kind != FindingKind::kRedopMismatch;
}

void Diagnoser::add_mismatches() {
    for (const Mismatch& mismatch : mismatches_) {
        Finding finding;
        finding.kind = mismatch.kind;
        finding.communicator = mismatch.communicator;
        finding.sequence = mismatch.sequence;
        finding.confidence = mismatch.confidence;
        finding.summary = mismatch.summary;
        finding.evidence = mismatch.evidence;
        for (const MemberRef ref : mismatch.culprits) {
            finding.ranks.push_back(run_.member(ref).global_rank);
        }
        const std::string shift = mismatch.culprits.empty()
                                      ? std::string()
                                      : shift_by_step_text(run_, mismatch.communicator, mismatch.culprits.front());
        if (!shift.empty()) {
            finding.evidence.push_back(shift);
        }
        const MemberRef teller = mismatch.others.empty() ? mismatch.culprits.front() : mismatch.others.front();
        if (const auto entry = run_.process(teller).recall(run_.member(teller), mismatch.sequence)) {
            finding.op = op_text(entry->kind);
            finding.since_ns = entry->entered_ns;
        }
        call_a_capture_by_its_name(mismatch, teller, finding);
        explain_doubt(run_, mismatch, finding);
        const std::vector<uint32_t> nodes = nodes_explained_by(mismatch);
        for (const uint32_t node : nodes) {
            explained_[node] = true;
            if (const std::string waiting = waiting_text(run_, graph_.nodes[node]); !waiting.empty()) {
                finding.evidence.push_back(waiting);
            }
        }
        add_victims(nodes, finding);
        finding.hangs = !nodes.empty() || is_not_survived(mismatch);
        if (nodes.empty() && finding.hangs) {
            finding.evidence.emplace_back("no member is seen to have finished it; calls that wait before it are lost");
        }
        if (!finding.hangs) {
            finding.evidence.emplace_back("nobody hangs in it, but the results are wrong");
        }
        diagnosis_.findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
