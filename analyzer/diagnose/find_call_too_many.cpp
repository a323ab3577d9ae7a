// One rank alone waits in a call that all others have not made, and they make no other call either, as at the end of a
// job: it made one too many, or they all owe one. Sure is that it is one call ahead.
#include "finders.h"

#include <algorithm>

#include "captures.h"
#include "explain.h"
#include "host/words.h"
#include "host_threads.h"
#include "run_text.h"
#include "thread_position.h"
#include "unknowns.h"
#include "waiters.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastOthers = 2;

// It made all calls but this one, and waits for nobody that is on record.
bool stands_idle_before(const Evidence& evidence, const WaitNode& node, const Absence& absence) {
    if (!absence.member.known() || absence.member.row == kNoIndex || absence.reason != AbsenceReason::kNotIssued ||
        absence.moved_on || absence.skip.verdict != SkipVerdict::kNo || !absence.held_by.empty() ||
        find_capture(evidence.run, node, absence) != nullptr) {
        return false;
    }
    const Process& process = evidence.run.process(absence.member);
    const ThreadPosition* const position = working_position(process);
    return evidence.run.member(absence.member).issued == node.sequence && !process.has_ended() &&
           !is_inside_a_call(process) && (position == nullptr || wait_outside_nccl(process, *position).empty());
}

bool is_one_ahead(const Evidence& evidence, uint32_t index) {
    const WaitNode& node = evidence.node(index);
    return node.kind == WaitKind::kCollective && node.waiting.size() == 1 && node.absent.size() >= kLeastOthers &&
           node.finished.empty() && !node.lost && evidence.hang_of[index] == Hang::kByTime &&
           std::ranges::all_of(node.absent,
                               [&](const Absence& absence) { return stands_idle_before(evidence, node, absence); });
}

Finding finding_of(const Evidence& evidence, uint32_t index) {
    const WaitNode& node = evidence.node(index);
    Finding finding = evidence.finding_at(FindingKind::kOpMismatch, index);
    const int rank = evidence.rank_of(node.waiting.front().member);
    const Sentence others = ranks_fact(absent_ranks(node));
    const uint8_t first = evidence.run.process(node.waiting.front().member).sees.first_number;
    finding.ranks = {rank};
    const Sentence length = wait_length(evidence.run, node);
    finding.summary = phrase(
        "{} is one call ahead: it waits in {}{}{} and has made {} calls there, where {}, all other members, have made "
        "{} and are idle",
        rank_fact(rank), node_fact(evidence.run, node), length.empty() ? "" : " ", length, node.sequence + 1 - first,
        others, node.sequence - first);
    evidence.show_waits({index}, finding);
    depends_on<Unknown::kOwedCall>(finding, others, rank_fact(rank));
    return finding;
}

}  // namespace

void find_call_too_many(const Evidence& evidence, ToldSoFar& told) {
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        if (told.explained[index] || !is_one_ahead(evidence, index)) {
            continue;
        }
        told.explain(finding_of(evidence, index), {index});
    }
}

}  // namespace titan::analyzer
