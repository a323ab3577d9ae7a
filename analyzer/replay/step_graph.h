// The steps of a run as a graph of what waited for what: a rank's calls one after another, and the calls that met.
//
//     rank 0   --own--> [node] ..........run--> --own--> [node]        own: from what it waited for before until it
//                          \  meeting        /                              comes to the call
//     rank 1   --------own--------> [node] --run--> ...                run: from the last arrival of those that meet
//                                                                           there until the call ends
//
// A node is one call of a rank, or one group of calls, or the work of a stream between two events; a meeting is a
// collective, or a send with its receive. Times between two nodes are a rank's own: nobody else's time is in them, so
// that they may be edited and played again (replay.h). No clock is compared where durations tell: who comes last to a
// collective waits least.
//
// Nodes of a rank follow each other as they came on the GPU, which need not be the order of the program. The records of
// streams and events tell what each of them waited for there; without these it is taken to be what ended last before it
// came (node_chains.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "clocks.h"
#include "run.h"

namespace titan::analyzer {

struct StepNode {
    float own_ns = 0;
    float run_ns = 0;
    float behind_ns = 0;         // of its own time: until its host made the call
    uint32_t step = 0;           // index from StepGraph::first_step
    uint32_t slot = 0;           // n-th node of its step
    uint32_t before = kNoIndex;  // the node that came before it on its rank; of the first none
    uint32_t after = kNoIndex;   // what it waits for besides: the node behind which it queues, or whose event it awaits
    bool after_end = false;      // its own time counts from the end of the one before, else from when that came
    bool after_both = false;     // and from the end of `after`, whichever is later
    bool has_end = false;        // when it ended is known; else run_ns is 0
    bool host_late = false;      // its host made the call when the GPU had nothing left to do
    bool keeps_up = false;       // its GPU came to it as soon behind the call as the looks at it can tell
};

// What meetings of one kind run over: a communicator, or a pair of its ranks in one direction.
struct StepRoute {
    uint32_t communicator = kNoIndex;
    int32_t from = -1;  // of sends: ranks in the communicator
    int32_t to = -1;
    OpKind kind{};
    uint8_t size_bits = 0;  // bytes to a factor of 2
    uint64_t bytes = 0;     // the most

    bool is_pair() const { return from >= 0; }
    bool is_exchange() const { return from >= 0 && from == to; }  // of one rank with several others
};

// A rank that has no steps in the graph, but comes to a meeting: a generator, of which the trainers mark their steps.
struct OutsideArrival {
    uint32_t process = kNoIndex;  // index in Run::processes
    double late_ns = 0;           // behind the last of those that the graph has; below 0: it was there before
    bool behind_loads = false;    // it loaded code in that time
};

struct StepGraph {
    static constexpr uint32_t kDoesNotWait = uint32_t{1}
                                             << 31;  // of a piece: a send that ended before its receive came

    std::vector<uint32_t> processes;  // by place here: index in Run::processes
    std::vector<uint32_t> roles;      // likewise: equal numbers do the same work
    std::vector<StepNode> nodes;      // of rank r: [begin[r], begin[r + 1]), in program order
    std::vector<uint32_t> begin;
    std::vector<uint32_t> last;           // by rank: the node that came last; kNoIndex: it has none
    std::vector<double> began_ns;         // a rank's first step, on one clock
    std::vector<double> tail_ns;          // from the end of its last node to that of its last step
    std::vector<int64_t> known_ns;        // by rank: how late its device's times may be
    std::vector<float> carried_ns;        // by rank and step: time behind its calls, which counts to the next call
    std::vector<uint32_t> piece_begin;    // of node n: pieces [piece_begin[n], piece_begin[n + 1])
    std::vector<uint32_t> pieces;         // meetings, with kDoesNotWait
    std::vector<uint32_t> meeting_size;   // number of nodes
    std::vector<uint32_t> meeting_route;  // index in routes
    std::vector<StepRoute> routes;
    std::map<uint32_t, std::vector<OutsideArrival>> outside;  // by meeting
    std::vector<uint32_t> order;  // nodes as they arrive, so that all that one waits for is before it
    int32_t first_step = 0;
    uint32_t steps = 0;
    bool by_period = false;   // steps that no marker tells
    bool by_device = true;    // GPUs were watched on all ranks
    bool by_streams = false;  // and in what order streams work is known
    double step_ns = 0;       // recorded: mean over ranks and steps
    uint32_t sample = 1;      // of so many launches of the GPUs one is seen; the others are taken from other steps
    std::vector<uint32_t> watched;  // then the steps in which all ranks saw each launch, if there are enough to compare
    std::string meets_in;  // "span optimizer" (span_graph.h), "all_reduce on dp" (sum_graph.h): what stands for calls
    bool by_sums = false;  // the latter
    uint32_t forced = 0;   // nodes whose meetings did not come together as recorded

    size_t ranks() const { return processes.size(); }
    // How late the times of any of its devices may be.
    double resolution_ns() const {
        return known_ns.empty() ? 0 : static_cast<double>(*std::max_element(known_ns.begin(), known_ns.end()));
    }
    // Nodes of a slot that follow the same call, so that their own times may be compared, have the same number.
    uint32_t follows(uint32_t node) const { return nodes[node].before == kNoIndex ? 0 : node - nodes[node].before; }
    float carried_of(size_t rank, size_t step) const { return carried_ns[rank * steps + step]; }
    size_t rank_of(uint32_t node) const {
        return static_cast<size_t>(std::upper_bound(begin.begin(), begin.end(), node) - begin.begin()) - 1;
    }
    std::span<uint32_t> meetings_of(uint32_t node) {
        return std::span(pieces).subspan(piece_begin[node], piece_begin[node + 1] - piece_begin[node]);
    }
    std::span<const uint32_t> meetings_of(uint32_t node) const {
        return std::span(pieces).subspan(piece_begin[node], piece_begin[node + 1] - piece_begin[node]);
    }
    const StepRoute& route_of(uint32_t meeting) const { return routes[meeting_route[meeting & ~kDoesNotWait]]; }
    // Calls visit(rank, node) for all.
    template <typename Visit>
    void for_each_node(const Visit& visit) const {
        for (size_t r = 0; r < ranks(); ++r) {
            for (uint32_t n = begin[r]; n < begin[r + 1]; ++n) {
                visit(r, n);
            }
        }
    }
    // Calls visit(first, end) for each step of a rank that has nodes: they are [first, end).
    template <typename Visit>
    void for_each_step(size_t rank, const Visit& visit) const {
        for (uint32_t first = begin[rank], end = first; first < begin[rank + 1]; first = end) {
            while (end < begin[rank + 1] && nodes[end].step == nodes[first].step) {
                ++end;
            }
            visit(first, end);
        }
    }
    // What is missing, for people; empty where nothing is. `why_none`: why there is no graph at all.
    std::vector<std::string> missing;
    std::string why_none;
};

// Sets how long a step takes by its marks: the mean over ranks and steps.
void measure_steps(const Run& run, StepGraph& graph);

// The graph of the steps that all ranks with a record have.
StepGraph step_graph(const Run& run, const Clocks& clocks);

}  // namespace titan::analyzer
