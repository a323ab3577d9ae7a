// Calls of CUDA graphs: captures that nobody launched, launches that lag behind.

#include <fmt/format.h>

#include <algorithm>

#include "captures.h"
#include "explain.h"
#include "host/words.h"
#include "replays.h"
#include "run_text.h"
#include "waiters.h"

namespace titan::analyzer {
namespace {

size_t captured_calls(const Process& process, uint32_t graph) {
    size_t count = 0;
    for (uint32_t i = 0; i < process.history.size(); ++i) {
        count += process.history[i].captured && process.history[i].graph == graph ? 1 : 0;
    }
    return count;
}

}  // namespace

Sentence capture_fact(const Process& process, int rank, const Entry& capture) {
    return phrase(
        "{}: {} ({}) was captured into graph {}, {} before its dump; no launch of that graph follows, and it "
        "holds {}",
        rank_fact(rank), op_text(capture.kind), arguments_text(capture), capture.graph,
        duration_fact(process.now_ns - capture.entered_ns),
        counted(captured_calls(process, capture.graph), "collective"));
}

void explain_capture(const Run& run, const WaitNode& node, const std::vector<Absence>& absences, Finding& finding) {
    const Waiter* waiter = first_call(node);
    const std::vector<int> waiting = waiting_ranks(run, node);
    std::vector<int> captured;
    for (const Absence& absence : absences) {
        captured.push_back(absence.global_rank);
    }
    const Sentence what = node_fact(run, node);
    const std::string how = waiter == nullptr || waiter->entry->replay == 0 ? "eagerly" : "by launching a graph";
    const Entry* capture = find_capture(run, node, absences.front());
    const std::string graph = capture == nullptr || capture->graph == 0 ? std::string("a CUDA graph")
                                                                        : fmt::format("graph {}", capture->graph);
    const Sentence wait = phrase("{} [waits|wait] for {}", ranks_fact(waiting), duration_fact(longest_wait_ns(node)));
    if (captured.size() > waiting.size() && !waiting.empty()) {
        // The few are called wrong, as everywhere.
        finding.summary = phrase("{} ran {} {} where {} captured it into a graph and did not launch that; {}",
                                 ranks_fact(waiting), what, how, ranks_fact(captured), wait);
        finding.ranks = waiting;
    } else {
        finding.summary = phrase("{} captured {} into {} and never launched that graph, where {} ran it {}; {}",
                                 ranks_fact(captured), what, graph, ranks_fact(waiting), how, wait);
    }
    for (const Absence& absence : absences) {
        const Process& process = run.process(absence.member);
        const Entry* entry = find_capture(run, node, absence);
        if (entry == nullptr || finding.evidence.size() >= 5) {
            continue;
        }
        finding.evidence.push_back(capture_fact(process, absence.global_rank, *entry));
    }
}

void add_replay_evidence(const Run& run, const WaitNode& node, const Absence& absence, Finding& finding) {
    const Waiter* waiter = first_call(node);
    if (waiter == nullptr || waiter->entry->replay == 0 || !absence.member.known()) {
        return;
    }
    finding.evidence.push_back(phrase("{} ran it by {} (its own numbers)",
                                      rank_fact(run.member(waiter->member).global_rank), replay_text(*waiter->entry)));
    const Process& process = run.process(absence.member);
    const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(),
                                   [](const Entry& entry) { return entry.replay != 0; });
    if (last == process.entries.rend()) {
        finding.evidence.push_back(
            phrase("{}: no launch of a graph with collectives is recorded", rank_fact(absence.global_rank)));
        return;
    }
    finding.evidence.push_back(
        phrase("{}: the newest launch of a graph with collectives is {}{}, {} before "
               "its dump",
               rank_fact(absence.global_rank), replay_text(*last),
               last->step >= 0 ? phrase(" in step {}", last->step) : std::string(),
               duration_fact(process.now_ns - last->entered_ns)));
}

}  // namespace titan::analyzer
