// A rank that is alone in the creation of a communicator while others wait for it.
#include "finders.h"

#include <algorithm>

#include "explain.h"
#include "host/words.h"
#include "host_threads.h"
#include "skipped_call.h"

namespace titan::analyzer {
namespace {

// The call that somebody waits for while the member that owes it is in this creation: the one that it always made
// there, else the only one. UINT32_MAX where there is none.
uint32_t owed_from_creation(const Evidence& evidence, uint32_t index) {
    const MemberRef caller = evidence.graph.nodes[index].waiting.front().member;
    const Process& process = evidence.run.process(caller);
    const auto made = std::find_if(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
        return entry.row == caller.row && is_creation(entry.kind);
    });
    uint32_t only = UINT32_MAX;
    size_t owed_calls = 0;
    for (uint32_t other = 0; other < evidence.graph.nodes.size(); ++other) {
        for (const Absence& absence : evidence.graph.nodes[other].absent) {
            const bool owed = absence.member.process == caller.process && absence.member.row != kNoIndex &&
                              absence.reason == AbsenceReason::kNotIssued &&
                              std::find(absence.held_by.begin(), absence.held_by.end(), index) != absence.held_by.end();
            if (!owed || !evidence.hangs(other)) {
                continue;
            }
            if (made != process.entries.rend() &&
                in_place_of(evidence.run, absence.member, evidence.graph.nodes[other], *made)) {
                return other;
            }
            only = other;
            ++owed_calls;
        }
    }
    return owed_calls == 1 ? only : UINT32_MAX;
}

void report_alone_in_creation(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings,
                              uint32_t index, uint32_t owed) {
    const WaitNode& missed = evidence.graph.nodes[owed];
    const int rank = evidence.run.member(evidence.graph.nodes[index].waiting.front().member).global_rank;
    const bool pair = missed.kind == WaitKind::kPointToPoint;
    Finding finding = evidence.finding_at(pair ? FindingKind::kP2pUnmatched : FindingKind::kRankNotArrived, owed);
    finding.ranks = {rank};
    finding.confidence = Confidence::kPossible;
    finding.summary =
        phrase("{} is in {}, which nobody else comes to, while {} {} for it in {}", rank_fact(rank),
               node_fact(evidence.run, evidence.graph.nodes[index]), ranks_fact(waiting_ranks(evidence.run, missed)),
               verb_form(waiting_ranks(evidence.run, missed).size(), "waits", "wait"), node_fact(evidence.run, missed));
    evidence.show_waits({owed, index}, finding);
    finding.evidence.emplace_back("all other ranks are held in calls of their own, none in that creation");
    finding.would_confirm.push_back(
        phrase("the program: which ranks {} expects there; another rank may have skipped its side", rank_fact(rank)));
    evidence.tell_cause({owed, index}, std::move(finding), explained, findings);
}

}  // namespace

// If a rank is alone in the creation of a communicator, all others are held in calls, and some of them wait for it,
// then the creation is the odd call, whoever else was to take part in it.
void find_alone_in_creation(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.graph.nodes[index];
        if (node.kind != WaitKind::kCreation || node.sequence != kNoSequence ||
            evidence.hang_of[index] != Hang::kByTime || explained.nodes[index] || node.waiting.size() != 1 ||
            !node.finished.empty() || !evidence.run.missing_ranks.empty()) {
            continue;
        }
        const bool all_held =
            std::all_of(evidence.run.processes.begin(), evidence.run.processes.end(), [&](const Process& process) {
                return !process.is_gone() && process.sees.host_calls && is_inside_a_call(process);
            });
        const uint32_t owed = all_held ? owed_from_creation(evidence, index) : UINT32_MAX;
        if (owed != UINT32_MAX) {
            report_alone_in_creation(evidence, explained, findings, index, owed);
        }
    }
}

}  // namespace titan::analyzer
