// Asking the job's other nodes for a dump: a small file in the dump directory, `<run>/dump-request`. Not of an attempt:
// nodes of one start of the job can count different ones (torchrun counts a restart only on the node that lost a rank).
//
// Rates that a parallel file system can bear: one process per node (the lease holder of the job segment) looks every
// two seconds, which is one open of the directory and one of the file, and none at all while all ranks of the job are
// on one node. Of more than 400 nodes each looks less often, so that together they make 200 looks a second. A request
// is written once per node and five seconds at most, and only if no other node has just done so; after a timeout, which
// all nodes see at the same moment, each node looks for that in its turn.
//
// All of it happens on a thread of its own ("titan-remote"): a file server that hangs is a reason for a dump, and must
// not stop the thread that writes it.
#pragma once

#include <cstdint>

#include "job.h"

namespace titan::tracer {

struct Session;

// Starts the thread; false when there is no one to ask (an unknown rank, a job of one) or no thread to be had.
bool start_remote(Session& session);

// Tells the other nodes, soon. Only the newest untold request counts. signal-safe.
void ask_other_nodes(const JobRequest& request);

// Makes this process the one that looks for remote requests, or not; the watch thread calls it each second.
void set_remote_polling(bool polling);

// The file's text, both ways; parse refuses whatever write cannot have made.
struct RemoteRequest {
    uint64_t id;
    JobRequest request;
};
size_t write_remote_request(const RemoteRequest& remote, char* out, size_t capacity_bytes);
bool parse_remote_request(const char* text, RemoteRequest& remote);

// What each node of a large job may do at any time on the shared file system, not all do at once.
inline constexpr uint64_t kLookPauseNs = 2'000'000'000;
inline constexpr uint64_t kTurnNs = 5'000'000;  // per node
inline constexpr uint64_t kLastTurnNs = 15'000'000'000;

// The pause of a node between two looks for another node's request, in a job of that many ranks, of which some are
// here.
uint64_t look_pause_ns(int32_t world_size, uint32_t ranks_here);

// The time that the node of `rank` waits before it writes when all nodes have seen a timeout at the same moment; 0 if
// the rank is unknown.
uint64_t turn_ns(int32_t rank, int32_t world_size, uint32_t ranks_here);

}  // namespace titan::tracer
