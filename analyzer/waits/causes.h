// Reads the wait-for graph: nodes that hang, cycles, and what lies behind what.
#pragma once

#include <cstdint>
#include <vector>

#include "finding.h"
#include "wait_graph.h"

namespace titan::analyzer {

// A snapshot of a healthy job has waits too. One hangs where somebody has waited for longer than this run ever waits,
// or where a member died; beside a death the living are where they just happened to be, so their absence means nothing
// yet.
enum class Hang : uint8_t { kNone, kByDeath, kByTime };

// Index: node.
std::vector<Hang> find_hangs(const Run& run, const WaitGraph& graph, const DiagnoseOptions& options);

// The usual length of a wait in this call on the rank that came first, 0 unknown; and the length after which it is
// called a hang.
int64_t usual_wait_ns(const Run& run, const WaitNode& node);
int64_t hang_after_ns(const Run& run, const WaitNode& node, const DiagnoseOptions& options);

// A member is missing, or has issued the call on a stream that is behind another call.
bool waits_for_others(const WaitNode& node);

// All who wait have ended: their wait lasted until the end of the job, and nothing will come any more.
bool is_over(const Run& run, const WaitNode& node);

// A watchdog found it, or an abort ended it: a wait in this record is more than a slow call.
bool called_a_hang(const Process& process);

// A ring of which nobody could look up whether its process lives: it ends with the last sign of life.
bool is_unchecked(const Process& process);

// A wait that has lasted so long will soon be called a hang by the watchdog of that process.
int64_t nearly_its_timeout_ns(const Process& process);

// It has waited for nearly as long as its recorder, or PyTorch, allows: it hangs, whatever the others' records say, but
// for one: where they finished the call a moment ago, so does this rank.
bool waited_for_its_timeout(const Run& run, const WaitNode& node, const Waiter& waiter);

// Index: node. The number of its strongly connected component; components with more than one node are deadlocks.
std::vector<uint32_t> find_components(const WaitGraph& graph);

// Nodes from which `target` is reached, itself included.
std::vector<uint32_t> nodes_behind(const WaitGraph& graph, const std::vector<uint32_t>& targets);

// A shortest cycle through the component, as edges; the last one leads back to the first.
std::vector<Edge> shortest_cycle(const WaitGraph& graph, const std::vector<uint32_t>& components, uint32_t start);

}  // namespace titan::analyzer
