#include "analyzer/graph_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/explain.h"
#include "analyzer/text.h"

namespace titan::analyzer {
namespace {

template <typename A, typename B>
bool same_arguments(const A& a, const B& b) {
    return a.kind == b.kind && a.count == b.count && a.datatype == b.datatype && a.reduction == b.reduction &&
           a.peer == b.peer;
}

// Does a call of the history from `place` on fit?
template <typename Fits>
bool any_from(const History& history, uint32_t place, Fits&& fits) {
    for (uint32_t i = place; i < history.size(); ++i) {
        if (fits(history[i])) {
            return true;
        }
    }
    return false;
}

std::string ordinal(size_t number) {
    const size_t last = number % 10;
    const bool teen = number / 10 % 10 == 1;
    return fmt::format("{}{}", number,
                       teen || last == 0 || last > 3 ? "th"
                       : last == 1                   ? "st"
                       : last == 2                   ? "nd"
                                                     : "rd");
}

const Waiter* first_call(const WaitNode& node) {
    const auto found = std::find_if(node.waiting.begin(), node.waiting.end(),
                                    [](const Waiter& waiter) { return waiter.entry != nullptr; });
    return found == node.waiting.end() ? nullptr : &*found;
}

size_t captured_calls(const Process& process, uint32_t graph) {
    size_t count = 0;
    for (uint32_t i = 0; i < process.history.size(); ++i) {
        count += process.history[i].captured && process.history[i].graph == graph ? 1 : 0;
    }
    return count;
}

}  // namespace

std::string replay_text(const Entry& entry) {
    if (entry.replay == 0) {
        return {};
    }
    return entry.graph == 0 ? fmt::format("replay {}", entry.replay)
                            : fmt::format("replay {} of graph {}", entry.replay, entry.graph);
}

std::string place_in_replay(const Process& process, const Entry& entry) {
    // The calls of a launch lie side by side.
    const auto [first, end] = process.history.replays.around(entry.place, process.history.size());
    return end - first == 1 ? std::string("the only collective in it")
                            : fmt::format("{} of {} collectives in it", ordinal(entry.place - first + 1), end - first);
}

std::string replay_that_holds(const Process& process, const Entry& entry, const std::string& call) {
    return entry.replay == 0
               ? std::string()
               : fmt::format("{}, which holds {} ({})", replay_text(entry), call, place_in_replay(process, entry));
}

uint64_t calls_left_in_replay(const Process& process, const Member& member, uint64_t sequence) {
    const auto first = process.recall(member, sequence);
    if (!first || first->replay == 0) {
        return 0;
    }
    uint64_t count = 0;
    for (auto next = first; next && next->replay == first->replay;) {
        next = process.recall(member, sequence + ++count);
    }
    return count;
}

const Entry* find_capture(const Run& run, MemberRef ref, const Entry& like, uint64_t sequence) {
    const Process& process = run.process(ref);
    const Member& member = run.member(ref);
    // Among equal calls any may be the one that was left out: what ran instead of it was the next one.
    uint64_t first = sequence;
    const auto reaches = [&](uint32_t place) {
        while (first > 0) {
            const std::optional<uint32_t> before = member.past.find(first - 1);
            if (before && *before < place) {
                return true;
            }
            if (before && !same_arguments(process.history[*before], like)) {
                return false;
            }
            first = before ? first - 1 : 0;
        }
        return true;
    };
    for (size_t i = process.entries.size(); i-- > 0 && reaches(process.entries[i].place);) {
        const Entry& entry = process.entries[i];
        if (!entry.captured || entry.row != ref.row || !same_arguments(entry, like)) {
            continue;
        }
        const bool launched = any_from(process.history, entry.place, [&](const CallShape& later) {
            return later.replayed && later.graph == entry.graph;
        });
        return launched ? nullptr : &entry;
    }
    return nullptr;
}

const Entry* find_capture(const Run& run, const WaitNode& node, const Absence& absence) {
    const Waiter* waiter = first_call(node);
    const bool left_out =
        absence.moved_on && absence.reason == AbsenceReason::kQueued;  // its next call has that number
    if (node.kind != WaitKind::kCollective || waiter == nullptr ||
        (absence.reason != AbsenceReason::kNotIssued && !left_out) || !absence.member.known() ||
        absence.member.row == kNoIndex) {
        return nullptr;
    }
    if (left_out) {
        return find_capture(run, absence.member, *waiter->entry, node.sequence);
    }
    return find_capture(run, absence.member, *waiter->entry, run.member(absence.member).issued);
}

void explain_capture(const Run& run, const WaitNode& node, const std::vector<Absence>& absences, Finding& finding) {
    const Waiter* waiter = first_call(node);
    const std::vector<int> waiting = waiting_ranks(run, node);
    std::vector<int> captured;
    for (const Absence& absence : absences) {
        captured.push_back(absence.global_rank);
    }
    const std::string what = node_text(run, node);
    const std::string how = waiter == nullptr || waiter->entry->replay == 0 ? "eagerly" : "by launching a graph";
    const Entry* capture = find_capture(run, node, absences.front());
    const std::string graph = capture == nullptr || capture->graph == 0 ? std::string("a CUDA graph")
                                                                        : fmt::format("graph {}", capture->graph);
    const std::string wait = fmt::format("{} {} for {}", ranks_text(waiting), waiting.size() == 1 ? "waits" : "wait",
                                         duration_text(longest_wait_ns(node)));
    if (captured.size() > waiting.size() && !waiting.empty()) {
        // The few are called wrong, as everywhere.
        finding.summary = fmt::format("{} ran {} {} where {} captured it into a graph and did not launch that; {}",
                                      ranks_text(waiting), what, how, ranks_text(captured), wait);
        finding.ranks = waiting;
    } else {
        finding.summary = fmt::format("{} captured {} into {} and never launched that graph, where {} ran it {}; {}",
                                      ranks_text(captured), what, graph, ranks_text(waiting), how, wait);
    }
    for (const Absence& absence : absences) {
        const Process& process = run.process(absence.member);
        const Entry* entry = find_capture(run, node, absence);
        if (entry == nullptr || finding.evidence.size() >= 5) {
            continue;
        }
        const size_t calls = captured_calls(process, entry->graph);
        finding.evidence.push_back(fmt::format(
            "rank {}: {} ({}) was captured into graph {}, {} before its dump; no launch of that graph follows, and it "
            "holds {} collective{}",
            absence.global_rank, op_text(entry->kind), arguments_text(*entry), entry->graph,
            duration_text(process.now_ns - entry->entered_ns), calls, calls == 1 ? "" : "s"));
    }
}

void add_replay_evidence(const Run& run, const WaitNode& node, const Absence& absence, Finding& finding) {
    const Waiter* waiter = first_call(node);
    if (waiter == nullptr || waiter->entry->replay == 0 || !absence.member.known()) {
        return;
    }
    finding.evidence.push_back(fmt::format("rank {} ran it by {} (its own numbers)",
                                           run.member(waiter->member).global_rank, replay_text(*waiter->entry)));
    const Process& process = run.process(absence.member);
    const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(),
                                   [](const Entry& entry) { return entry.replay != 0; });
    if (last == process.entries.rend()) {
        finding.evidence.push_back(
            fmt::format("rank {}: no launch of a graph with collectives is recorded", absence.global_rank));
        return;
    }
    finding.evidence.push_back(
        fmt::format("rank {}: the newest launch of a graph with collectives is {}{}, {} before "
                    "its dump",
                    absence.global_rank, replay_text(*last),
                    last->step >= 0 ? fmt::format(" in step {}", last->step) : std::string(),
                    duration_text(process.now_ns - last->entered_ns)));
}

}  // namespace titan::analyzer
