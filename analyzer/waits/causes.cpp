#include "causes.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "robust.h"
#include "skipped_call.h"
#include "waiters.h"

namespace titan::analyzer {
namespace {

constexpr int64_t kLeastHangNs = 1'000'000'000;
// Bootstrapping a large communicator takes a while on a healthy machine.
constexpr int64_t kLeastCreationHangNs = 10'000'000'000;
constexpr int64_t kTypicalFactor = 5;
// Calls that are made less often do not tell how long a call may take.
constexpr int64_t kSlowestPaceNs = 60'000'000'000;
constexpr size_t kTypicalCalls = 64;  // the newest ones: all of a large ring would only take longer

// Median time from the call to its completion, over the newest sends and receives of this member: a receive is handed
// over long before its data is there, so it is measured against its like. 0 unknown.
int64_t typical_p2p_ns(const Run& run, MemberRef ref) {
    const Process& process = run.process(ref);
    std::vector<int64_t> durations;
    for (size_t i = process.entries.size(); i-- > 0 && durations.size() < kTypicalCalls;) {
        const Entry& entry = process.entries[i];
        const bool counts = entry.row == ref.row && format::class_of(entry.kind) == format::OpClass::p2p;
        if (counts && entry.finished_ns > entry.entered_ns && entry.entered_ns != 0 &&
            process.may_have_taken(entry.finished_ns - entry.entered_ns)) {
            durations.push_back(entry.finished_ns - entry.entered_ns);
        }
    }
    return typical_of(std::move(durations));
}

// If the calls before are overwritten, nothing tells how long such calls usually take; about as long as from one to the
// next.
int64_t pace_ns(const Run& run, const WaitNode& node) {
    const Waiter& first = node.waiting.front();
    const Process& process = run.process(first.member);
    const int64_t created_ns = run.member(first.member).created_ns;
    if (first.entry == nullptr || process.overwritten == 0 || process.sees.by_watchdog || created_ns == 0 ||
        node.sequence == 0 || node.sequence == kNoSequence || first.entry->entered_ns <= created_ns) {
        return 0;
    }
    const auto pace = static_cast<int64_t>(static_cast<uint64_t>(first.entry->entered_ns - created_ns) / node.sequence);
    return std::min(pace, kSlowestPaceNs);
}

// What waits for less than the shortest step may wait for the program's own work. The first step tells nothing: it
// compiles.
int64_t shortest_step_ns(const Process& process) {
    constexpr size_t kLeastSteps = 2;
    int64_t shortest = INT64_MAX;
    for (const StepProfile& step : process.steps) {
        shortest = std::min(shortest, step.length_ns());
    }
    return process.steps.size() < kLeastSteps ? 0 : std::max<int64_t>(shortest, 0);
}

// Waits so long have come before, and ended.
int64_t beyond_returning_ns(const Run& run, const WaitNode& node) {
    int64_t longest_ns = 0;
    for (const Waiter& waiter : node.waiting) {
        longest_ns =
            waiter.member.row == kNoIndex ? longest_ns : std::max(longest_ns, run.member(waiter.member).returning_ns);
    }
    return longest_ns / 4 * 5;
}

// How long we know the member to be missing: from the start of the wait to its own dump, by its host's clock; or by its
// own silence, which needs no common clock. A ring that ends with its last sign of life tells of its silence by the
// others' newer ones, and so does a process that has ended while those who wait live on.
int64_t missing_for_ns(const Run& run, const WaitNode& node, const Absence& absence, int64_t since_ns) {
    const Process& process = run.processes[absence.member.process];
    const bool is_gone = is_unchecked(process) || (process.has_ended() && !is_over(run, node));
    const int64_t until_ns = is_gone ? std::max(process.now_ns, latest_end_ns(node)) : process.now_ns;
    return std::max(until_ns - since_ns, process.now_ns - process.last_activity_ns());
}

// Calls with lost entries may still be ahead. Allows the time that they take at the observed pace.
int64_t line_ns(const Process& process) {
    const uint64_t lost = lost_unfinished_calls(process);
    if (lost == 0 || called_a_hang(process) || process.sees.by_watchdog) {
        return 0;
    }
    uint64_t finished = 0;
    for (const Member& member : process.members) {
        finished += member.finished;
    }
    const double pace_ns = static_cast<double>(process.now_ns - process.started_ns) / static_cast<double>(finished + 1);
    return static_cast<int64_t>(std::min(1e18, std::max(0.0, pace_ns) * static_cast<double>(lost) * kTypicalFactor));
}

// Has a member been missing for too long?
bool hangs_by_time(const Run& run, const WaitNode& node, int64_t threshold) {
    if (std::ranges::any_of(node.waiting,
                            [&](const Waiter& waiter) { return waited_for_its_timeout(run, node, waiter); })) {
        return true;
    }
    int64_t longest = 0;
    int64_t shortest = INT64_MAX;
    int64_t since = INT64_MAX;
    for (const Waiter& waiter : node.waiting) {
        const bool is_lost = waiter.entry == nullptr && node.kind != WaitKind::kCreation;
        const int64_t age_ns = waiter.age_ns - (is_lost ? 0 : line_ns(run.process(waiter.member)));
        longest = std::max(longest, age_ns);
        // If others have finished the call, this rank has been late since then; a dump made before that shows nothing
        // wrong.
        const int64_t end_ns = waiter.since_ns + waiter.age_ns;
        shortest =
            std::min({shortest, age_ns, node.last_finished_ns == 0 ? INT64_MAX : end_ns - node.last_finished_ns});
        since = std::min(since, waiter.since_ns);
    }
    const bool confirmed = std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
        const Process& process = run.process(waiter.member);
        return process.sees.by_watchdog || called_a_hang(process);
    });
    if (node.absent.empty()) {
        return shortest > threshold;
    }
    return longest > threshold && std::ranges::any_of(node.absent, [&](const Absence& absence) {
               // A record that ends before the wait tells nothing of it: dumps may only have been made at different
               // times.
               const bool ends_before = absence.reason == AbsenceReason::kUnknown && absence.member.known();
               return !absence.member.known() || (ends_before && confirmed) || absence.reason == AbsenceReason::kLeft ||
                      missing_for_ns(run, node, absence, since) > threshold;
           });
}

// Is a member missing that will never come, however short the wait was?
bool hangs_by_death(const Run& run, const WaitNode& node) {
    const auto gone = [&](const Waiter& waiter) { return run.process(waiter.member).is_gone(); };
    const auto dead_waiters = std::ranges::count_if(node.waiting, gone);
    if (dead_waiters > 0 && static_cast<size_t>(dead_waiters) < node.waiting.size()) {
        return true;  // its work on the GPU ended with the process
    }
    return std::ranges::any_of(node.absent, [&](const Absence& absence) {
        return absence.member.known() && absence.reason != AbsenceReason::kUnknown &&
               (absence.reason == AbsenceReason::kFailed || run.processes[absence.member.process].is_gone());
    });
}

// The time between the first and the last dump of the ranks in the node: a healthy job may show shorter waits, too. A
// record that ends with the last sign of life of its process was not cut off by a dump.
int64_t smeared_over_ns(const Run& run, const WaitNode& node) {
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    const auto note = [&](MemberRef ref) {
        if (!ref.known()) {
            return;
        }
        const Process& process = run.process(ref);
        if (!process.has_ended() && !is_unchecked(process) && !process.sees.by_watchdog) {
            first = std::min(first, process.now_ns);
            last = std::max(last, process.now_ns);
        }
    };
    for (const Waiter& waiter : node.waiting) {
        note(waiter.member);
    }
    for (const Absence& absence : node.absent) {
        note(absence.member);
    }
    return last > first ? last - first : 0;
}

}  // namespace

bool waits_for_others(const WaitNode& node) {
    return !node.absent.empty() ||
           std::ranges::any_of(node.blocked, [](const Blocked& blocked) { return !blocked.held_by.empty(); });
}

bool is_over(const Run& run, const WaitNode& node) {
    return std::ranges::all_of(node.waiting,
                               [&](const Waiter& waiter) { return run.process(waiter.member).has_ended(); });
}

bool called_a_hang(const Process& process) {
    return process.source.reason == format::DumpReason::kTimeout || process.source.reason == format::DumpReason::kAbort;
}

bool is_unchecked(const Process& process) { return process.source.is_ring && process.liveness == Liveness::kUnknown; }

int64_t nearly_its_timeout_ns(const Process& process) { return process.watchdog_ns() / 10 * 9; }

int64_t usual_wait_ns(const Run& run, const WaitNode& node) {
    const MemberRef first = node.waiting.front().member;
    const int64_t of_pairs = node.kind == WaitKind::kPointToPoint ? typical_p2p_ns(run, first) : 0;
    const bool watched = run.process(first).gpu_progress || run.process(first).sees.by_watchdog;
    const int64_t usual_ns = node.kind == WaitKind::kPointToPoint && watched ? of_pairs : run.member(first).typical_ns;
    return watched && usual_ns != 0 ? usual_ns : std::max(usual_ns, pace_ns(run, node));
}

namespace {

// Somebody asked living processes for their dumps: nothing had gone wrong by itself.
bool was_asked_for(const Run& run, const WaitNode& node) {
    const auto is_asked = [&](const Waiter& waiter) {
        const Process& process = run.process(waiter.member);
        const format::DumpReason reason = process.source.reason;
        return process.liveness == Liveness::kAlive &&
               (reason == format::DumpReason::kSignal || reason == format::DumpReason::kRequest ||
                reason == format::DumpReason::kApi);
    };
    return std::ranges::all_of(node.waiting, is_asked) &&
           std::ranges::none_of(node.absent, [&](const Absence& absence) {
               return absence.member.known() && run.process(absence.member).is_gone();
           });
}

}  // namespace

int64_t hang_after_ns(const Run& run, const WaitNode& node, const DiagnoseOptions& options) {
    if (const int64_t asked_ns = options.asked_hang_after_ns(); asked_ns != 0) {
        return asked_ns;
    }
    const MemberRef first = node.waiting.front().member;
    const int64_t typical = usual_wait_ns(run, node);
    // The first call of a communicator, and the first of a pair, sets connections up.
    const bool sets_up = node.kind == WaitKind::kCreation || node.sequence <= run.process(first).sees.first_number;
    int64_t threshold = sets_up && !is_over(run, node) ? kLeastCreationHangNs : kLeastHangNs;
    threshold = std::max(threshold, typical > INT64_MAX / kTypicalFactor ? INT64_MAX : typical * kTypicalFactor);
    threshold = std::max(
        {threshold, smeared_over_ns(run, node), shortest_step_ns(run.process(first)), beyond_returning_ns(run, node)});
    const bool asked = was_asked_for(run, node);
    for (const Waiter& waiter : node.waiting) {
        const Process& process = run.process(waiter.member);
        if (process.source.reason == format::DumpReason::kTimeout && process.timeout_ns != 0) {
            // The tracer itself found it too long.
            threshold = std::min(threshold, nearly_its_timeout_ns(process));
        } else if (asked) {
            // It does not yet: a checkpoint or a pause of a server takes seconds, too.
            threshold = std::max(threshold, std::min(kLeastCreationHangNs, nearly_its_timeout_ns(process) / 2));
        }
    }
    return threshold;
}

bool waited_for_its_timeout(const Run& run, const WaitNode& node, const Waiter& waiter) {
    const Process& process = run.process(waiter.member);
    const bool is_about_to_end =
        node.last_finished_ns != 0 && waiter.since_ns + waiter.age_ns - node.last_finished_ns <= kLeastHangNs;
    return !process.is_gone() && process.timeout_ns != 0 && waiter.age_ns > kLeastCreationHangNs &&
           waiter.age_ns >= nearly_its_timeout_ns(process) && !is_about_to_end;
}

std::vector<Hang> find_hangs(const Run& run, const WaitGraph& graph, const DiagnoseOptions& options) {
    std::vector<Hang> hangs(graph.nodes.size(), Hang::kNone);
    std::vector<uint32_t> queue;
    for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
        if (hangs_by_time(run, graph.nodes[node], hang_after_ns(run, graph.nodes[node], options))) {
            hangs[node] = Hang::kByTime;
            queue.push_back(node);
        } else if (hangs_by_death(run, graph.nodes[node])) {
            hangs[node] = Hang::kByDeath;
        }
    }
    // If a member is missing for long, the node that holds it hangs, too. But a node whose members all arrived a moment
    // ago will end, even if the stream of some has work to do first. If somebody died, the others are held wherever
    // they happened to be.
    while (!queue.empty()) {
        const uint32_t node = queue.back();
        queue.pop_back();
        for (const uint32_t edge : graph.edges_of[node]) {
            const uint32_t to = graph.edges[edge].to;
            if (hangs[to] != Hang::kByTime && waits_for_others(graph.nodes[to])) {
                hangs[to] = Hang::kByTime;
                queue.push_back(to);
            }
        }
    }
    return hangs;
}

std::vector<uint32_t> find_components(const WaitGraph& graph) {
    // Tarjan's algorithm with its own stack: a chain of p2p calls can be as long as the job is large.
    const auto count = static_cast<uint32_t>(graph.nodes.size());
    constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
    std::vector<uint32_t> component(count, kNone), order(count, kNone), low(count, 0), stack;
    struct Frame {
        uint32_t node;
        size_t next_edge;
    };
    std::vector<Frame> frames;
    uint32_t visited = 0, components = 0;
    const auto enter = [&](uint32_t node) {
        order[node] = low[node] = visited++;
        stack.push_back(node);
        frames.push_back({node, 0});
    };
    for (uint32_t root = 0; root < count; ++root) {
        if (order[root] != kNone) {
            continue;
        }
        enter(root);
        while (!frames.empty()) {
            const uint32_t node = frames.back().node;
            if (frames.back().next_edge < graph.edges_of[node].size()) {
                const uint32_t to = graph.edges[graph.edges_of[node][frames.back().next_edge++]].to;
                if (order[to] == kNone) {
                    enter(to);
                } else if (component[to] == kNone) {
                    low[node] = std::min(low[node], order[to]);
                }
                continue;
            }
            frames.pop_back();
            if (!frames.empty()) {
                low[frames.back().node] = std::min(low[frames.back().node], low[node]);
            }
            if (low[node] == order[node]) {
                for (uint32_t member = kNone; member != node;) {
                    member = stack.back();
                    stack.pop_back();
                    component[member] = components;
                }
                ++components;
            }
        }
    }
    return component;
}

namespace {

// Nodes that are reached from those in the queue, themselves included. `add_next(node, queue)` adds where arrows lead.
template <typename AddNext>
std::vector<bool> reached_from(std::vector<uint32_t> queue, size_t nodes, AddNext&& add_next) {
    std::vector<bool> reached(nodes, false);
    while (!queue.empty()) {
        const uint32_t node = queue.back();
        queue.pop_back();
        if (!reached[node]) {
            reached[node] = true;
            add_next(node, queue);
        }
    }
    return reached;
}

}  // namespace

std::vector<bool> may_be_behind(const WaitGraph& graph, uint32_t start) {
    return reached_from({start}, graph.nodes.size(), [&](uint32_t node, std::vector<uint32_t>& queue) {
        for (const uint32_t edge : graph.edges_of[node]) {
            queue.push_back(graph.edges[edge].to);
        }
        queue.insert(queue.end(), graph.may_follow[node].begin(), graph.may_follow[node].end());
    });
}

std::vector<uint32_t> nodes_behind(const WaitGraph& graph, const std::vector<uint32_t>& targets) {
    std::vector<std::vector<uint32_t>> before(graph.nodes.size());
    for (const Edge& edge : graph.edges) {
        before[edge.to].push_back(edge.from);
    }
    for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
        for (const uint32_t earlier : graph.may_follow[node]) {
            before[earlier].push_back(node);
        }
    }
    const auto reached = reached_from(targets, graph.nodes.size(), [&](uint32_t node, std::vector<uint32_t>& queue) {
        queue.insert(queue.end(), before[node].begin(), before[node].end());
    });
    std::vector<uint32_t> nodes;
    for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
        if (reached[node]) {
            nodes.push_back(node);
        }
    }
    return nodes;
}

std::vector<Edge> shortest_cycle(const WaitGraph& graph, const std::vector<uint32_t>& components, uint32_t start) {
    constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
    std::vector<uint32_t> came_by(graph.nodes.size(), kNone);  // edge
    std::deque<uint32_t> queue{start};
    while (!queue.empty()) {
        const uint32_t node = queue.front();
        queue.pop_front();
        for (const uint32_t index : graph.edges_of[node]) {
            const uint32_t to = graph.edges[index].to;
            if (components[to] != components[start]) {
                continue;
            }
            if (to == start) {
                std::vector<Edge> cycle{graph.edges[index]};
                for (uint32_t at = node; at != start; at = graph.edges[came_by[at]].from) {
                    cycle.push_back(graph.edges[came_by[at]]);
                }
                std::ranges::reverse(cycle);
                return cycle;
            }
            if (came_by[to] == kNone) {
                came_by[to] = index;
                queue.push_back(to);
            }
        }
    }
    return {};
}

}  // namespace titan::analyzer
