// Finds processes that live but do not run: stopped, held by a debugger, frozen; or that were killed after a hang in
// which they did not. The state of their GPUs and peers follows from that.
#include "steps.h"

#include <algorithm>
#include <map>

#include "ends.h"
#include "host/words.h"
#include "run_text.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

using Halted = std::map<int, const Process*>;

bool names(const std::vector<int>& ranks, const Halted& halted) {
    return std::ranges::any_of(ranks, [&](int rank) { return halted.contains(rank); });
}

Sentence halted_text(const Halted& halted) {
    std::map<Halt, std::vector<int>> by_halt;
    for (const auto& [rank, process] : halted) {
        by_halt[process->ending.halt].push_back(rank);
    }
    Sentence text;
    for (const auto& [halt, ranks] : by_halt) {
        const bool was = halt == Halt::kSilent;
        const Sentence who =
            was ? phrase("{} [was|were]", ranks_fact(ranks)) : phrase("{} [is|are]", ranks_fact(ranks));
        text += phrase("{}{} {}", text.empty() ? "" : ", ", who, halt_text(halt));
    }
    return text;
}

Sentence evidence_of_halt(const Run& run, const Process& process) {
    const int64_t seen_ns = process.ending.seen_ns;
    const Process* const dumped = process.ending.halt == Halt::kSilent ? dumped_beside(run, process) : nullptr;
    if (dumped == nullptr) {
        return phrase("the system says that {} (pid {}) is {}; its last sign of life is {} old",
                      rank_fact(process.rank), process.pid, halt_text(process.ending.halt),
                      duration_fact(process.now_ns - seen_ns));
    }
    return phrase(
        "{} (pid {}) showed no sign of life after {}, and its process was still there {} later, when {} "
        "dumped: a dump saves the records of processes on its host that are gone",
        rank_fact(process.rank), process.pid, fine_date_text(seen_ns), duration_fact(dumped->now_ns - seen_ns),
        rank_fact(dumped->rank));
}

void add_evidence_of_halt(const Run& run, const Halted& halted, Finding& finding) {
    constexpr size_t kShown = 4;
    size_t shown = 0;
    for (const auto& [rank, process] : halted) {
        if (shown++ < kShown) {
            finding.evidence.push_back(evidence_of_halt(run, *process));
        }
        if (process->ending.halt == Halt::kSilent && finding.would_confirm.empty()) {
            depends_on<Unknown::kKeptFromRunning>(finding, rank_fact(rank));
        }
    }
}

// One that was killed in the end may have stood still then, as all do that end; who waited for it tells.
bool may_be_halted(const Process& process, const std::vector<Finding>& findings) {
    const Halt halt = process.ending.halt;
    if (halt != Halt::kSilent) {
        return halt != Halt::kNone && process.liveness == Liveness::kAlive;
    }
    return std::ranges::any_of(findings, [&](const Finding& finding) {
        return finding.hangs && std::ranges::find(finding.ranks, process.rank) != finding.ranks.end();
    });
}

void take_over(Finding&& other, Finding& finding) {
    if (finding.evidence.empty() || finding.communicator == kNoIndex) {
        finding.communicator = other.communicator;
        finding.sequence = other.sequence;
        finding.op = other.op;
        finding.since_ns = other.since_ns;
    }
    finding.since_ns = std::min(finding.since_ns, other.since_ns);
    finding.evidence.push_back(phrase("because of that: {}", other.summary));
    std::move(other.evidence.begin(), other.evidence.end(), std::back_inserter(finding.evidence));
    finding.victims.insert(finding.victims.end(), other.victims.begin(), other.victims.end());
    finding.victims.insert(finding.victims.end(), other.ranks.begin(), other.ranks.end());
}

}  // namespace

void name_the_halted(const Run& run, Diagnosis& diagnosis) {
    Halted halted;
    for (const Process& process : run.processes) {
        if (process.rank >= 0 && may_be_halted(process, diagnosis.findings)) {
            halted.emplace(process.rank, &process);
        }
    }
    if (halted.empty()) {
        return;
    }
    // One that waits for a rank that runs is no cause: somebody looks at it with a debugger.
    std::vector<Finding>& findings = diagnosis.findings;
    for (const Finding& finding : findings) {
        if (finding.hangs && !names(finding.ranks, halted)) {
            std::erase_if(halted,
                          [&](const auto& one) { return std::ranges::binary_search(finding.victims, one.first); });
        }
    }
    if (halted.empty()) {
        return;
    }
    Finding finding;
    finding.kind = FindingKind::kRankStopped;
    finding.since_ns = INT64_MAX;
    for (const auto& [rank, process] : halted) {
        finding.ranks.push_back(rank);
        finding.since_ns = std::min(finding.since_ns, process->ending.seen_ns);
    }
    add_evidence_of_halt(run, halted, finding);
    const auto rest = std::stable_partition(findings.begin(), findings.end(), [&](const Finding& other) {
        return !other.hangs || !names(other.ranks, halted);
    });
    std::for_each(rest, findings.end(), [&](Finding& other) { take_over(std::move(other), finding); });
    findings.erase(rest, findings.end());
    sort_unique(finding.victims);
    std::erase_if(finding.victims, [&](int rank) { return halted.contains(rank); });
    finding.summary = halted_text(halted);
    finding.summary += finding.victims.empty() ? "; no other rank is known to wait yet"
                                               : phrase("; {} [waits|wait]", ranks_fact(finding.victims));
    findings.push_back(std::move(finding));
}

}  // namespace titan::analyzer
