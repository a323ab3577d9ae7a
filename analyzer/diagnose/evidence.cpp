#include "evidence.h"

#include <algorithm>

#include "causes.h"
#include "explain.h"
#include "host/words.h"
#include "host_threads.h"
#include "run_text.h"
#include "waiters.h"

namespace titan::analyzer {

// Nothing visible keeps the member from coming.
bool Evidence::is_free(uint32_t node, const Absence& absence) const {
    if (absence.reason == AbsenceReason::kUnknown) {
        return false;
    }
    if (run.processes[absence.member.process].is_gone() || absence.reason == AbsenceReason::kFailed) {
        return true;
    }
    return hang_of[node] == Hang::kByTime && (absence.moved_on || absence.held_by.empty()) &&
           absence.skip.verdict != SkipVerdict::kWaiterIsOdd;
}

bool Evidence::all_are_held() const {
    return run.missing_ranks.empty() && !run.partial_recording &&
           std::all_of(run.processes.begin(), run.processes.end(), [](const Process& process) {
               return !process.is_gone() && process.sees.host_calls && is_inside_a_call(process);
           });
}

int64_t Evidence::since(uint32_t node) const {
    int64_t first = INT64_MAX;
    for (const Waiter& waiter : graph.nodes[node].waiting) {
        first = std::min(first, waiter.since_ns);
    }
    return first;
}

uint32_t Evidence::oldest_of(const std::vector<uint32_t>& nodes) const {
    return *std::min_element(nodes.begin(), nodes.end(), [&](uint32_t a, uint32_t b) { return since(a) < since(b); });
}

Finding Evidence::finding_at(FindingKind kind, uint32_t index) const {
    const WaitNode& node = graph.nodes[index];
    Finding finding;
    finding.kind = kind;
    finding.communicator = node.communicator;
    finding.sequence = node.kind == WaitKind::kCreation ? kNoSequence : node.sequence;
    finding.op = op_text(node.waiting.front().entry != nullptr ? node.waiting.front().entry->kind : node.op);
    finding.since_ns = since(index);
    finding.waited_ns = longest_wait_ns(node);
    return finding;
}

void Evidence::add_victims(const std::vector<uint32_t>& nodes, Finding& finding) const {
    const std::vector<int> behind = ranks_in(nodes_behind(graph, nodes));
    finding.victims.insert(finding.victims.end(), behind.begin(), behind.end());
    sort_unique(finding.ranks);
    sort_unique(finding.victims);
    std::erase_if(finding.victims,
                  [&](int rank) { return std::binary_search(finding.ranks.begin(), finding.ranks.end(), rank); });
}

std::vector<int> Evidence::ranks_in(const std::vector<uint32_t>& nodes) const {
    std::vector<int> ranks;
    for (const uint32_t node : nodes) {
        const std::vector<int> waiting = waiting_ranks(run, graph.nodes[node]);
        ranks.insert(ranks.end(), waiting.begin(), waiting.end());
    }
    sort_unique(ranks);
    return ranks;
}

void Evidence::show_waits(const std::vector<uint32_t>& nodes, Finding& finding, size_t most) const {
    for (size_t i = 0; i < std::min(most, nodes.size()); ++i) {
        if (const Sentence waiting = waiting_fact(run, graph.nodes[nodes[i]]); !waiting.empty()) {
            finding.evidence.push_back(waiting);
        }
    }
}

void Evidence::tell_cause(const std::vector<uint32_t>& nodes, Finding finding, Explained& explained,
                          std::vector<Finding>& findings) const {
    for (const uint32_t node : nodes) {
        explained.nodes[node] = explained.is_cause[node] = true;
    }
    add_victims(nodes, finding);
    findings.push_back(std::move(finding));
}

}  // namespace titan::analyzer
