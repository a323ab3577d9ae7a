// From mismatches and the wait-for graph to findings: causes named, victims folded, the head one first.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "cannot_tell.h"
#include "diagnose.h"
#include "diagnoser.h"
#include "halted.h"
#include "host_threads.h"
#include "host_wait.h"
#include "layout.h"
#include "rank_state.h"
#include "run_text.h"
#include "stragglers.h"
#include "text.h"
#include "witnessed.h"
#include "witnesses_alone.h"

namespace titan::analyzer {

Diagnosis Diagnoser::diagnose() {
    add_mismatches();
    lead_with_mismatches_ahead();
    add_uneven_exchanges();
    add_misdirected();
    add_alone_in_creation();
    add_odd_waiters();
    add_absences();
    add_cycles();
    add_opposite_orders();
    add_blocked();
    add_pairs_of_other_size();
    add_odd_work();
    add_stuck();
    add_other_deaths();
    add_unexplained_waits();
    add_pending();
    finish();
    return std::move(diagnosis_);
}

Finding Diagnoser::finding_at(FindingKind kind, uint32_t index) const {
    const WaitNode& node = graph_.nodes[index];
    Finding finding;
    finding.kind = kind;
    finding.communicator = node.communicator;
    finding.sequence = node.kind == WaitKind::kCreation ? kNoSequence : node.sequence;
    finding.op = op_text(node.waiting.front().entry != nullptr ? node.waiting.front().entry->kind : node.op);
    finding.since_ns = since(index);
    return finding;
}

void Diagnoser::add_victims(const std::vector<uint32_t>& nodes, Finding& finding) const {
    for (const uint32_t node : nodes_behind(graph_, nodes)) {
        const std::vector<int> ranks = waiting_ranks(run_, graph_.nodes[node]);
        finding.victims.insert(finding.victims.end(), ranks.begin(), ranks.end());
    }
    sort_unique(finding.ranks);
    sort_unique(finding.victims);
    std::erase_if(finding.victims,
                  [&](int rank) { return std::binary_search(finding.ranks.begin(), finding.ranks.end(), rank); });
}

// Wrong results hurt nobody's progress, unless the very rank that made them is then missing: it left because of them.
bool Diagnoser::leads_to_a_hang(const Finding& silent) const {
    return std::any_of(diagnosis_.findings.begin(), diagnosis_.findings.end(), [&](const Finding& finding) {
        return finding.hangs && finding.ranks == silent.ranks && silent.since_ns <= finding.since_ns;
    });
}

std::string Diagnoser::awaited_work(const Process& process) const {
    const ThreadState* thread = telling_thread(process);
    if (thread == nullptr || thread->call == 0) {
        return {};
    }
    const auto index = static_cast<size_t>(&process - run_.processes.data());
    return awaited_text(run_, process, *thread, QueueReader(process, graph_.orders[index]));
}

// Who skipped a call is where it should not be: that others do not come to it there is hardly their fault.
void Diagnoser::doubt_waits_of_ranks_that_skipped() {
    std::set<int> skippers;
    for (const Finding& finding : diagnosis_.findings) {
        if (finding.kind == FindingKind::kRankNotArrived && finding.skipped) {
            skippers.insert(finding.ranks.begin(), finding.ranks.end());
        }
    }
    for (Finding& finding : diagnosis_.findings) {
        const bool only_they_wait =
            !finding.waiting.empty() && std::all_of(finding.waiting.begin(), finding.waiting.end(),
                                                    [&](int rank) { return skippers.contains(rank); });
        finding.doubt(only_they_wait, fmt::format("whether {} was to make this call at all: it skipped another one",
                                                  ranks_text(finding.waiting)));
    }
}

void Diagnoser::finish() {
    doubt_waits_of_ranks_that_skipped();
    name_the_halted(run_, diagnosis_);
    std::map<std::string, bool> first;
    for (const Finding& finding : diagnosis_.findings) {
        first[finding.summary] = finding.hangs || leads_to_a_hang(finding);
    }
    int64_t earliest = INT64_MAX;
    for (const Finding& finding : diagnosis_.findings) {
        earliest = std::min(earliest, finding.since_ns);
    }
    // The earliest leads, but hosts do not agree on times to less than this; then the surest, then who hurts most.
    constexpr int64_t kSameTimeNs = 1'000'000'000;
    const auto worth = [&](const Finding& finding) {
        const int64_t later = (finding.since_ns - earliest) / kSameTimeNs;
        return std::tuple(!first[finding.summary], finding.confidence == Confidence::kPossible, later,
                          -static_cast<int>(finding.confidence), -static_cast<int64_t>(finding.victims.size()),
                          finding.since_ns);
    };
    std::stable_sort(diagnosis_.findings.begin(), diagnosis_.findings.end(),
                     [&](const Finding& a, const Finding& b) { return worth(a) < worth(b); });
    add_second_causes();
    Timing timing = analyze_timing(run_);
    add_timing_findings(run_, timing, diagnosis_.findings);
    diagnosis_.clocks = std::move(timing.clocks);
    admit_ignorance(run_, diagnosis_);
    add_testimony(run_, diagnosis_.findings);
    doubt_by_witnesses(run_, diagnosis_.findings);
    std::map<const Process*, std::pair<std::string, std::string>> states;  // with times and without
    const auto state_of = [&](const Process& process) -> const auto& {
        auto [found, fresh] = states.try_emplace(&process);
        if (fresh) {
            const std::string awaited = awaited_work(process);
            found->second = {rank_state(run_, process, awaited), rank_state_without_times(run_, process, awaited)};
        }
        return found->second;
    };
    for (Finding& finding : diagnosis_.findings) {
        if (finding.kind != FindingKind::kSlowCollective) {  // which is of several communicators, and names their ranks
            finding.summary = with_members(finding.summary, run_, finding.communicator);
        }
        if (run_.layout != nullptr) {
            finding.summary = with_places(finding.summary, finding.ranks, *run_.layout);
        }
        for (const auto* ranks : {&finding.ranks, &finding.victims}) {
            for (const int rank : *ranks) {
                const Process* process = process_of_rank_[rank];
                if (process == nullptr) {
                    finding.rank_state[rank] = finding.brief_state[rank] = "no dump and no ring: unknown";
                } else {
                    std::tie(finding.rank_state[rank], finding.brief_state[rank]) = state_of(*process);
                }
            }
        }
    }
    add_standing();
    diagnosis_.warnings = run_.warnings;
}

Diagnosis diagnose(const Run& run, const DiagnoseOptions& options) {
    return run.processes.empty() ? diagnose_by_witnesses(run) : Diagnoser(run, options).diagnose();
}

}  // namespace titan::analyzer
