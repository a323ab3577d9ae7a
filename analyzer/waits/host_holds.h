// Waits that the host of a process is held in, as nodes of the wait-for graph.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "host_calls.h"
#include "queue_ahead.h"
#include "run.h"
#include "stream_order.h"

namespace titan::analyzer {

// The unfinished calls of each process in the graph. Index: process.
struct PlacedCalls {
    std::vector<std::unordered_map<uint32_t, uint32_t>> node_of_entry;  // index of the entry -> node
    std::vector<std::vector<uint32_t>> creations;                       // nodes of communicators that it creates
    std::vector<std::vector<uint32_t>> lost;                            // nodes of calls whose entries are overwritten
    std::vector<StreamOrder> orders;
    std::vector<QueueReader> queues;

    void insert_head(uint32_t process, uint32_t head, std::set<uint32_t>& nodes) const;
    // The call itself if it is at the head of its stream, else the call that it queues behind.
    void insert_nodes_before(uint32_t process, uint32_t call, std::set<uint32_t>& nodes) const;
};

// Asked often of the same processes: answers are kept. `placed` must be complete, and outlive this.
class HostHolds {
  public:
    HostHolds(const Run& run, const PlacedCalls& placed)
        : run_(run), placed_(placed), holds_(run.processes.size()), known_(run.processes.size(), false) {}

    // Nodes; none where the host runs the program's own code.
    const std::vector<uint32_t>& of_process(uint32_t process);
    // The same for one member. A process that drives several ranks has a thread for each: that of its last call.
    std::vector<uint32_t> of_member(MemberRef ref);

  private:
    void hold_thread(uint32_t process, const ThreadState& thread, std::set<uint32_t>& nodes) const;
    bool hold_by_streams(uint32_t process, const ThreadState& thread, std::set<uint32_t>& nodes) const;
    void hold_in_nccl(uint32_t process, const ThreadState& thread, HostCall call, std::set<uint32_t>& nodes) const;
    void hold_in_sync(uint32_t process, const ThreadState& thread, HostCall call, std::set<uint32_t>& nodes) const;

    const Run& run_;
    const PlacedCalls& placed_;
    std::vector<std::vector<uint32_t>> holds_;
    std::vector<bool> known_;
};

}  // namespace titan::analyzer
