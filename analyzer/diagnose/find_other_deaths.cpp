// Deaths that nobody is known to wait for.
#include "finders.h"

#include <algorithm>
#include <set>

#include "explain.h"
#include "host/words.h"
#include "rank_state.h"
#include "refused_calls.h"
#include "run_text.h"
#include "uncertainty.h"
#include "unknowns.h"
#include "witnessed_ends.h"

namespace titan::analyzer {
namespace {

// Only a witness knows of it, so what it was to do is not known.
void add_unrecorded_death(const Evidence& evidence, ToldSoFar& told, int rank) {
    Finding finding;
    finding.kind = FindingKind::kRankDead;
    finding.ranks = {rank};
    finding.summary =
        phrase("{} is dead ({}) and left no record", rank_fact(rank), witnessed_end_text(evidence.run, rank));
    finding.since_ns = INT64_MAX;
    for (const Process& process : evidence.run.processes) {
        finding.since_ns = std::min(finding.since_ns, process.now_ns);
    }
    doubt<Unknown::kEndOrder>(finding, witnessed_first(evidence.run) != rank);
    const Testimony* end = witnessed_end(evidence.run, rank);
    doubt<Unknown::kRankOfTask>(finding, end != nullptr && end->rank_by_task, rank, rank_fact(rank));
    told.findings.push_back(std::move(finding));
}

bool is_in_a_call(const Process& process) {
    return std::ranges::any_of(process.entries, [](const Entry& entry) {
        return format::moves_data(entry.kind) && entry.state != format::CallState::kFinished;
    });
}

std::set<int> dead_ranks_in(const std::vector<Finding>& findings) {
    std::set<int> ranks;
    for (const Finding& finding : findings) {
        if (finding.kind == FindingKind::kRankDead) {
            ranks.insert(finding.ranks.begin(), finding.ranks.end());
        }
    }
    return ranks;
}

// They had called what the others wait in, and it is told whom that waits for.
void add_deaths_in_a_hang(const Evidence& evidence, ToldSoFar& told) {
    Finding finding;
    finding.kind = FindingKind::kRankDead;
    finding.hangs = false;
    finding.since_ns = INT64_MAX;
    for (const uint32_t index : told.died_waiting) {
        const Process& process = evidence.run.processes[index];
        finding.ranks.push_back(process.rank);
        finding.since_ns = std::min(finding.since_ns, process.now_ns);
        finding.evidence.push_back(phrase("{}: {}", rank_fact(process.rank), rank_state(evidence.run, process)));
        if (const std::string order = end_text(process); !order.empty()) {
            finding.evidence.push_back(phrase("{} {}", rank_fact(process.rank), order));
        }
    }
    if (finding.ranks.empty()) {
        return;
    }
    const bool one = finding.ranks.size() == 1;
    finding.summary =
        phrase("{} {} dead, too: {} while {} waited as the others do", ranks_fact(finding.ranks), one ? "is" : "are",
               one ? "its process ended" : "their processes ended", one ? "it" : "they");
    told.findings.push_back(std::move(finding));
}

// What NCCL refused on all of these, and where else; empty where it refused none, or others.
Sentence refusal_of_all(const Run& run, const std::vector<int>& ranks) {
    for (const Refusal& refusal : refusals_of(run)) {
        if (std::ranges::includes(refusal.ranks, ranks)) {
            return refusal_fact(refusal);
        }
    }
    return {};
}

void add_other_deaths(const Evidence& evidence, ToldSoFar& told) {
    Finding finding;
    finding.kind = FindingKind::kRankDead;
    finding.since_ns = INT64_MAX;
    const Process* unsure = nullptr;
    // A launcher may have ended those in a call with one that ended, too.
    const bool one_left = std::ranges::any_of(
        evidence.run.processes, [](const Process& process) { return process.is_gone() && !process.died(); });
    bool waited = false;
    bool failed = false;  // failed by itself; an error of another rank may cause that, too
    const std::set<int> named = dead_ranks_in(told.findings);
    for (uint32_t index = 0; index < evidence.run.processes.size(); ++index) {
        const Process& process = evidence.run.processes[index];
        if (process.died() && !named.contains(process.rank) && !told.died_waiting.contains(index)) {
            finding.ranks.push_back(process.rank);
            unsure = process.ending.guessed || process.ending.waited_ns != 0 ? &process : unsure;
            waited |= one_left && is_in_a_call(process);
            failed |= process.liveness == Liveness::kExited;
            finding.since_ns = std::min(finding.since_ns, process.now_ns);
            finding.evidence.push_back(phrase("{}: {}", rank_fact(process.rank), rank_state(evidence.run, process)));
        }
    }
    if (!finding.ranks.empty()) {
        const size_t count = finding.ranks.size();
        const std::string how = count == 1 ? witnessed_end_text(evidence.run, finding.ranks.front()) : std::string();
        sort_unique(finding.ranks);
        const Sentence refusal = failed ? refusal_of_all(evidence.run, finding.ranks) : Sentence();
        const Sentence who = phrase("{} [is|are]", ranks_fact(finding.ranks));
        const std::string witnessed = how.empty() ? how : " (" + how + ")";
        finding.summary = refusal.empty()
                              ? phrase("{} dead{}; no other rank is known to wait for [it|them] yet", who, witnessed)
                              : phrase("{} dead: {}, and {} ended with that error{}", who, refusal,
                                       verb_form(count, "it", "they"), witnessed);
        if (unsure != nullptr) {
            doubt_end(*unsure, finding);
        }
        doubt<Unknown::kEndedByLauncher>(finding, waited, ranks_fact(finding.ranks));
        doubt<Unknown::kErrorOfAll>(finding, failed && refusal.empty(), ranks_fact(finding.ranks));
        told.findings.push_back(std::move(finding));
    }
}

}  // namespace

void find_other_deaths(const Evidence& evidence, ToldSoFar& told) {
    add_other_deaths(evidence, told);
    add_deaths_in_a_hang(evidence, told);
    const std::set<int> named = dead_ranks_in(told.findings);
    for (const int rank : evidence.run.missing_ranks) {
        if (!named.contains(rank) && died_unrecorded(evidence.run, rank)) {
            add_unrecorded_death(evidence, told, rank);
        }
    }
}

}  // namespace titan::analyzer
