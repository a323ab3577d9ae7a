#include "witnesses_alone.h"

#include "host/words.h"
#include "unknowns.h"
#include "watchdogs_alone.h"
#include "witnessed_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace titan::analyzer {
namespace {

constexpr size_t kShownStatements = 16;

template <typename Holds>
std::set<int> ranks_with(const Run& run, Holds&& holds) {
    std::set<int> ranks;
    for (const Testimony& said : run.testimony) {
        if (said.rank >= 0 && holds(said)) {
            ranks.insert(said.rank);
        }
    }
    return ranks;
}

// If all but one of the ranks that logged lost a peer: that one, or the one that never logged.
std::set<int> left_by_others(const Run& run) {
    const std::set<int> losers = ranks_with(run, [](const Testimony& said) { return said.lost_a_peer; });
    std::set<int> rest;
    for (int rank = 0; rank < run.world_size && rest.size() < 2; ++rank) {
        if (!losers.contains(rank)) {
            rest.insert(rank);
        }
    }
    return losers.empty() || rest.size() != 1 ? std::set<int>() : rest;
}

struct Suspects {
    std::set<int> ranks;
    std::string why;
    bool acted = false;  // `why` is a clause with a verb
    Confidence confidence = Confidence::kPossible;
};

// The best of what witnesses name.
Suspects suspects_of(const Run& run) {
    Suspects found;
    found.ranks = ranks_with(run, [](const Testimony& said) { return said.order == EndOrder::kFirst; });
    if (!found.ranks.empty()) {
        found.why = "ended first";
        found.acted = true;
        found.confidence = Confidence::kLikely;
        return found;
    }
    found.ranks = ranks_with(run, [](const Testimony& said) { return said.considered_dead; });
    if (!found.ranks.empty()) {
        found.why = "considered dead by NCCL's RAS";
        found.confidence = Confidence::kLikely;
        return found;
    }
    found.ranks = ranks_with(run, [](const Testimony& said) { return said.claim == Claim::kSilent; });
    if (!found.ranks.empty()) {
        found.why = "silent, as a witness says: dead, stopped or cut off";
        return found;
    }
    found.ranks = left_by_others(run);
    found.why = "perhaps dead: all other ranks log that a peer closed its connection";
    return found;
}

void add_without_records(Finding finding, Diagnosis& diagnosis) {
    finding.summary = phrase("{}; no dump and no ring is there to confirm it", finding.summary);
    finding.would_confirm.emplace_back(
        "dumps, or the rings of the ranks' nodes: what they did last, and who waits for whom");
    for (const auto* ranks : {&finding.ranks, &finding.victims}) {
        for (const int rank : *ranks) {
            finding.note_no_record(rank);
        }
    }
    diagnosis.findings.push_back(std::move(finding));
}

// One that left no record waited itself, as its log says.
void doubt_those_who_waited(const Run& run, std::vector<Finding>& findings) {
    for (const Testimony& said : run.testimony) {
        const bool waited = said.watchdog && said.watchdog->timed_out &&
                            std::binary_search(run.missing_ranks.begin(), run.missing_ranks.end(), said.rank);
        for (Finding& finding : findings) {
            if (waited && std::binary_search(finding.ranks.begin(), finding.ranks.end(), said.rank)) {
                depends_on<Unknown::kWaitedByItsLog>(finding, rank_fact(said.rank), said.text);
            }
        }
    }
}

}  // namespace

Diagnosis diagnose_by_witnesses(const Run& run) {
    Diagnosis diagnosis;
    diagnosis.warnings = run.warnings;
    const Suspects suspects = suspects_of(run);
    if (!suspects.acted) {
        if (std::optional<Finding> finding = find_by_watchdogs(run)) {
            add_without_records(std::move(*finding), diagnosis);
            return diagnosis;
        }
    }
    if (suspects.ranks.empty()) {
        diagnosis.cannot_tell = "no dump and no ring is there, and what witnesses say names no rank as the cause";
        for (size_t i = 0; i < std::min(kShownStatements, run.testimony.size()); ++i) {
            diagnosis.cannot_tell += "; " + quoted(run.testimony[i]);
        }
        if (run.testimony.size() > kShownStatements) {
            diagnosis.cannot_tell += "; " + counted(run.testimony.size() - kShownStatements, "more statement");
        }
        return diagnosis;
    }
    Finding finding;
    finding.kind = FindingKind::kRankDead;
    finding.ranks.assign(suspects.ranks.begin(), suspects.ranks.end());
    finding.confidence = suspects.confidence;
    finding.summary = phrase("{} {}{}", ranks_fact(finding.ranks),
                             suspects.acted ? "" : verb_form(finding.ranks.size(), "is ", "are "), suspects.why);
    size_t statements = 0;
    for (const Testimony& said : run.testimony) {
        const bool names_one = suspects.ranks.contains(said.rank);
        if ((names_one || said.lost_a_peer) && statements++ < kShownStatements) {
            finding.evidence.push_back(quoted(said));
        }
    }
    if (statements > kShownStatements) {
        finding.evidence.push_back(counted(statements - kShownStatements, "more statement") + " of this kind");
    }
    add_without_records(std::move(finding), diagnosis);
    return diagnosis;
}

void doubt_by_witnesses(const Run& run, std::vector<Finding>& findings) {
    doubt_those_who_waited(run, findings);
    for (const Testimony& said : run.testimony) {
        const auto process = std::find_if(run.processes.begin(), run.processes.end(),
                                          [&](const Process& one) { return one.rank == said.rank; });
        const bool seen = process != run.processes.end() && process->liveness == Liveness::kAlive;
        const bool named = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
            return std::find(finding.ranks.begin(), finding.ranks.end(), said.rank) != finding.ranks.end();
        });
        if (!said.considered_dead || said.rank < 0 || seen || named) {
            continue;
        }
        for (Finding& finding : findings) {
            if (finding.hangs) {
                finding.evidence.push_back(quoted(said));
                depends_on<Unknown::kDeadForRas>(finding, rank_fact(said.rank));
            }
        }
        return;
    }
}

}  // namespace titan::analyzer
