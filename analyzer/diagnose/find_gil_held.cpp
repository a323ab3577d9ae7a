// A rank keeps the GIL while it waits for others in a collective, and those wait outside NCCL: for a server that runs
// in a Python thread of that rank, above all.
#include <algorithm>
#include <iterator>

#include "explain.h"
#include "finders.h"
#include "gil.h"
#include "host/words.h"
#include "run_text.h"
#include "thread_position.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

// The first rank that waits there and whose waiting thread holds the GIL.
const Process* holder_among(const Evidence& evidence, const WaitNode& node) {
    for (const Waiter& waiter : node.waiting) {
        const Process& process = evidence.run.process(waiter.member);
        const ThreadPosition* const holder = gil_holder(process);
        if (holder != nullptr && waiter.entry != nullptr &&
            static_cast<int32_t>(waiter.entry->thread) == holder->thread) {
            return &process;
        }
    }
    return nullptr;
}

// Members that are missing there and wait for an answer of another process; empty if one of the missing does not.
std::vector<const Process*> missing_that_wait(const Evidence& evidence, uint32_t index) {
    std::vector<const Process*> missing;
    for (const Absence& absence : evidence.node(index).absent) {
        const Process* const process = absence.member.known() && evidence.is_free(index, absence)
                                           ? &evidence.run.process(absence.member)
                                           : nullptr;
        const ThreadPosition* const position =
            process == nullptr || process->is_gone() ? nullptr : working_position(*process);
        if (position == nullptr || !waits_for_an_answer(*process, *position)) {
            return {};
        }
        missing.push_back(process);
    }
    return missing;
}

}  // namespace

void find_gil_held(const Evidence& evidence, ToldSoFar& told) {
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.node(index);
        const Process* const holder =
            told.explained[index] || !evidence.hangs(index) ? nullptr : holder_among(evidence, node);
        const std::vector<const Process*> missing =
            holder == nullptr ? std::vector<const Process*>() : missing_that_wait(evidence, index);
        if (missing.empty()) {
            continue;
        }
        Finding finding = evidence.finding_at(FindingKind::kGilHeld, index);
        finding.ranks = {holder->rank};
        const Process& first = *missing.front();
        std::vector<int> ranks;
        std::ranges::transform(missing, std::back_inserter(ranks),
                               [](const Process* process) { return process->rank; });
        finding.victims = ranks;
        finding.summary =
            phrase("{} holds the GIL while it waits in {} for {}, which [waits|wait] for another process in {}",
                   rank_fact(holder->rank), node_fact(evidence.run, node), ranks_fact(ranks),
                   place_text(first, *working_position(first)));
        finding.evidence.push_back(gil_fact(*holder, *gil_holder(*holder)));
        evidence.show_waits({index}, finding);
        depends_on<Unknown::kPythonAnswer>(finding, rank_fact(holder->rank), ranks_fact(ranks));
        told.explain(std::move(finding), {index});
    }
}

}  // namespace titan::analyzer
