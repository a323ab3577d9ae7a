#include "evidence.h"

#include <algorithm>

#include "causes.h"
#include "explain.h"
#include "host/words.h"
#include "host_threads.h"
#include "run_text.h"
#include "waiters.h"

namespace titan::analyzer {

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
           std::ranges::all_of(run.processes, [](const Process& process) {
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
    return *std::ranges::min_element(nodes, [&](uint32_t a, uint32_t b) { return since(a) < since(b); });
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
    std::erase_if(finding.victims, [&](int rank) { return std::ranges::binary_search(finding.ranks, rank); });
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

bool Evidence::may_be_one_communicator(const std::vector<uint32_t>& nodes) const {
    const Communicator& first = run.communicators[graph.nodes[nodes.front()].communicator];
    std::set<int32_t> places;
    return nodes.size() > 1 && std::ranges::all_of(nodes, [&](uint32_t index) {
               const WaitNode& node = graph.nodes[index];
               const Communicator& here = run.communicators[node.communicator];
               return node.kind == WaitKind::kCreation && node.sequence == kNoSequence && node.finished.empty() &&
                      here.name == first.name && here.size == first.size && here.size > 0 &&
                      std::ranges::all_of(node.waiting, [&](const Waiter& waiter) {
                          return waiter.member.row != kNoIndex && places.insert(run.member(waiter.member).rank).second;
                      });
           });
}

void ToldSoFar::add(Finding finding, const std::vector<uint32_t>& nodes) {
    evidence_.add_victims(nodes, finding);
    findings.push_back(std::move(finding));
}

void ToldSoFar::add_cause(Finding finding, const std::vector<uint32_t>& nodes) {
    for (const uint32_t node : nodes) {
        is_cause[node] = true;
    }
    add(std::move(finding), nodes);
}

void ToldSoFar::explain(Finding finding, const std::vector<uint32_t>& nodes) {
    for (const uint32_t node : nodes) {
        explained[node] = true;
    }
    add_cause(std::move(finding), nodes);
}

}  // namespace titan::analyzer
