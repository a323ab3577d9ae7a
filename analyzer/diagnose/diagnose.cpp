// Turns a run into findings: names causes, folds in victims, and puts the head finding first.
#include "diagnose.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ended_well.h"
#include "explain.h"
#include "finders.h"
#include "formats/layout/label_names.h"
#include "host/words.h"
#include "layout.h"
#include "rank_state.h"
#include "repeated_sites.h"
#include "steps.h"
#include "unknowns.h"
#include "witnessed_ends.h"

namespace titan::analyzer {
namespace {

constexpr Finder* kFinders[] = {
#define FINDER(name) name,
#include "findings.def"
};

// A rank that skipped a call waits where it should not be: if others do not come to it there, that is hardly their
// fault.
void doubt_waits_of_ranks_that_skipped(std::vector<Finding>& findings) {
    std::set<int> skippers;
    for (const Finding& finding : findings) {
        if (finding.kind == FindingKind::kRankNotArrived && finding.skipped) {
            skippers.insert(finding.ranks.begin(), finding.ranks.end());
        }
    }
    for (Finding& finding : findings) {
        const bool only_they_wait = !finding.waiting.empty() && std::ranges::all_of(finding.waiting, [&](int rank) {
            return skippers.contains(rank);
        });
        doubt<Unknown::kCallOfSkippers>(finding, only_they_wait, ranks_fact(finding.waiting));
    }
}

// Wrong results hurt nobody's progress, unless the very rank that made them is then missing: it left because of them.
bool leads_to_a_hang(const Finding& silent, const std::vector<Finding>& findings) {
    return std::ranges::any_of(findings, [&](const Finding& finding) {
        return finding.hangs && finding.ranks == silent.ranks && silent.since_ns <= finding.since_ns;
    });
}

// Hangs come first, the earliest ahead; but the clocks of hosts agree only to about a second. Then comes the most
// certain, then a death (a slow rank may still come), then the finding that hurts most.
void put_head_first(std::vector<Finding>& findings) {
    constexpr int64_t kSameTimeNs = 1'000'000'000;
    int64_t earliest = INT64_MAX;
    for (const Finding& finding : findings) {
        earliest = std::min(earliest, finding.since_ns);
    }
    const auto worth = [&](const Finding& finding) {
        const bool hangs = finding.hangs || leads_to_a_hang(finding, findings);
        const int64_t later = (finding.since_ns - earliest) / kSameTimeNs;
        return std::tuple(!hangs, finding.confidence == Confidence::kPossible, later,
                          -static_cast<int>(finding.confidence), finding.kind != FindingKind::kRankDead,
                          -static_cast<int64_t>(finding.victims.size()), finding.since_ns);
    };
    using Ranked = std::pair<decltype(worth(Finding())), Finding>;
    std::vector<Ranked> ranked;
    for (const Finding& finding : findings) {
        ranked.emplace_back(worth(finding), finding);
    }
    std::ranges::stable_sort(ranked, [](const Ranked& a, const Ranked& b) { return a.first < b.first; });
    std::ranges::transform(ranked, findings.begin(), [](Ranked& each) { return std::move(each.second); });
}

std::vector<Warning> add_timing(const Run& run, const DiagnoseOptions& options, Diagnosis& diagnosis) {
    Timing timing = analyze_timing(run);
    std::vector<Warning> left_out = add_timing_findings(run, timing, options, diagnosis);
    diagnosis.clocks = std::move(timing.clocks);
    return left_out;
}

void add_places(const Run& run, std::vector<Finding>& findings) {
    for (Finding& finding : findings) {
        if (finding.kind != FindingKind::kSlowCollective) {  // it concerns several communicators, and names their ranks
            add_members(run, finding.communicator, finding.summary);
        }
        add_places(run, finding.ranks, finding.summary);
    }
}

std::string nccl_error_of(const Process& process) {
    const auto found = std::ranges::find_if(
        process.labels, [&](const auto& label) { return process.text(label.first) == format::kNcclErrorLabel; });
    return found == process.labels.end() ? std::string() : printable(process.text(found->second));
}

// What NCCL told the programs of the ranks that a finding names, or that wait for those.
void add_nccl_errors(const Evidence& evidence, std::vector<Finding>& findings) {
    constexpr size_t kMostTexts = 3;
    for (Finding& finding : findings) {
        std::vector<std::pair<std::string, std::vector<int>>> told;
        for (const auto* ranks : {&finding.ranks, &finding.victims}) {
            for (const int rank : *ranks) {
                const Process* process = evidence.process_of_rank[rank];
                const std::string text = process == nullptr ? std::string() : nccl_error_of(*process);
                const auto same = std::ranges::find_if(told, [&](const auto& other) { return other.first == text; });
                if (same != told.end()) {
                    same->second.push_back(rank);
                } else if (!text.empty() && told.size() < kMostTexts) {
                    told.emplace_back(text, std::vector<int>{rank});
                }
            }
        }
        for (const auto& [text, ranks] : told) {
            finding.evidence.push_back(phrase("the last error that NCCL reported to {}: {}", ranks_fact(ranks), text));
        }
    }
}

// A rank that is named may wait itself, in a communicator that others have closed since.
void add_closed_communicators(const Evidence& evidence, std::vector<Finding>& findings) {
    for (Finding& finding : findings) {
        for (const WaitNode& node : evidence.graph.nodes) {
            std::vector<int> named;
            for (const int rank : waiting_ranks(evidence.run, node)) {
                if (std::ranges::binary_search(finding.ranks, rank)) {
                    named.push_back(rank);
                }
            }
            std::vector<int> closed;
            for (const Absence& absence : node.absent) {
                if (absence.member.row != kNoIndex && absence.member.known() &&
                    evidence.run.member(absence.member).closed_ns != 0) {
                    closed.push_back(absence.global_rank);
                }
            }
            if (finding.hangs && !named.empty() && !closed.empty()) {
                finding.evidence.push_back(
                    phrase("{} [waits|wait] in {}, whose communicator {} [has|have] destroyed or aborted",
                           ranks_fact(named), node_fact(evidence.run, node), ranks_fact(closed)));
            }
        }
    }
}

// Adds the state of each rank that a finding names.
void add_states(const Evidence& evidence, std::vector<Finding>& findings) {
    std::map<const Process*, StateTexts> states;
    for (Finding& finding : findings) {
        for (const auto* ranks : {&finding.ranks, &finding.victims}) {
            for (const int rank : *ranks) {
                const Process* process = evidence.process_of_rank[rank];
                if (process == nullptr) {
                    finding.note_no_record(rank);
                    continue;
                }
                const auto [state, inserted] = states.try_emplace(process);
                if (inserted) {
                    state->second = state_texts(evidence, *process);
                }
                finding.rank_state[rank] = state->second.with_times;
                finding.brief_state[rank] = state->second.without;
            }
        }
    }
}

// The story of a diagnosis, step by step. The run is linked and has its layout; Evidence matches its calls and asks who
// waits for whom.
Diagnosis diagnose_records(const Run& run, const DiagnoseOptions& options) {
    const Evidence evidence(run, options);
    ToldSoFar told(evidence);
    for (Finder* find : kFinders) {
        find(evidence, told);
    }
    Diagnosis diagnosis;
    std::vector<Finding>& findings = diagnosis.findings;
    findings = std::move(told.findings);
    diagnosis.waiting = find_pending(evidence, findings);
    doubt_waits_of_ranks_that_skipped(findings);
    name_the_halted(run, diagnosis);
    put_head_first(findings);
    add_second_causes(evidence, findings);
    replay_verdict(evidence, findings);
    const std::vector<Warning> left_out = add_timing(run, options, diagnosis);
    add_metric_findings(run, findings);
    add_health_findings(run, findings);
    set_cannot_tell(run, diagnosis);
    diagnosis.ended = findings.empty() ? ended_well_text(run, diagnosis.step_ns) : std::string();
    diagnosis.metrics = findings.empty() && diagnosis.ended.empty() ? odd_metrics_text(run) : std::string();
    add_refusals(evidence, findings);
    add_nccl_errors(evidence, findings);
    add_closed_communicators(evidence, findings);
    add_testimony(run, findings);
    doubt_by_witnesses(run, findings);
    add_places(run, findings);
    add_states(evidence, findings);
    add_positions(evidence, findings);
    add_children(evidence, findings);
    add_last_events(evidence, findings);
    add_health(evidence, findings);
    tell_sites_once(run, findings);
    diagnosis.warnings = run.warnings;
    diagnosis.warnings.insert(diagnosis.warnings.end(), left_out.begin(), left_out.end());
    tell_config(run, diagnosis);
    return diagnosis;
}

}  // namespace

Diagnosis diagnose(const Run& run, const DiagnoseOptions& options) {
    return run.processes.empty() ? diagnose_by_witnesses(run) : diagnose_records(run, options);
}

}  // namespace titan::analyzer
