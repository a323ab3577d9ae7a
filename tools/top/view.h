// The content of titan-top as plain values, made from the rings of this node, or from the records of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/image_buffer.h"
#include "host/result.h"
#include "node/processes.h"
#include "top/conclusion.h"

namespace titan::tools {

// Of records alone: how long a span takes in a step on average, or the newest value of a metric.
struct NamedValue {
    std::string name;
    double value = 0;
};

struct RankRow {
    int32_t rank = -1;
    int32_t pid = 0;
    std::string state;  // "running", "stopped", "silent", "dead", ...
    int64_t heartbeat_age_ns = 0;
    int64_t step = -1;
    int64_t step_age_ns = 0;
    double steps_per_s = -1;
    std::string span;                  // innermost, empty: none
    std::string doing;                 // "inside cudaStreamSynchronize", "in program code"
    int64_t doing_ns = 0;              // how long, 0 unknown
    std::vector<int> waits_for;        // ranks that have not arrived in what it waits in
    int64_t waits_ns = 0;              // how long
    std::string gpu;                   // "640 W 61 C 100 %" of the GPU that is worst off, empty: not read
    bool is_throttled = false;         // by heat or for want of power
    std::string odd_metric;            // one that was no finite number in its newest values, empty: none
    std::vector<NamedValue> spans_ns;  // in its newest steps, the longest first
    std::vector<NamedValue> metrics;
};

// A communicator's last collective; or a point-to-point call or a creation that somebody waits in.
struct CallRow {
    std::string what;  // "all_reduce #41 on dp:0"
    std::string id;    // id of the communicator, hexadecimal
    std::string name;
    int32_t size = -1;
    uint64_t sequence = 0;
    std::string operation;
    int64_t pending_ns = -1;        // since the first member came, -1: nobody waits
    std::vector<int> arrived;       // ranks of this node
    std::vector<int> queued;        // of those: the call was issued, but the GPU has not reached it
    std::vector<int> missing;       // ranks of this node that have not come
    uint32_t elsewhere = 0;         // members that have no ring here
    bool progress_unknown = false;  // not each launch on the GPU is watched: the call may be over
};

struct JobView {
    std::string run;
    int32_t attempt = 0;
    int32_t world_size = -1;
    int64_t recorded_ns = 0;            // the moment that the records go up to; 0: these are rings of now
    bool has_ended = false;             // none of its processes lives, by these records
    std::string recorded_hosts;         // of records alone
    std::string host;                   // "CPUs at 1200 to 3500 of 3800 MHz", empty: not read
    std::vector<std::string> observed;  // how GPUs are, where that is not the best: sentences
    std::vector<RankRow> ranks;
    std::vector<CallRow> calls;  // those that are waited in first, the longest of them first
    Conclusion conclusion;
};

struct NodeView {
    int64_t realtime_ns = 0;
    std::vector<JobView> jobs;
    std::vector<std::string> problems;  // what could not be read
    std::vector<std::string> notes;     // on records
    size_t read_bytes = 0;
};

struct ViewOptions {
    std::string run;                 // empty: all
    std::vector<std::string> paths;  // of records; empty: the rings of this node
    std::string ring_directory;
    bool dead_jobs = false;  // also jobs of which nobody lives
};

NodeView look_at_node(const ViewOptions& options, ImageBuffer& memory);
// The last state of the newest run at `options.paths`.
Result<NodeView> look_at_records(const ViewOptions& options);

// Text for people, at most that many columns and lines (0: any number). What is to be looked at comes first, however
// small the window.
std::string view_text(const NodeView& view, size_t columns, size_t lines, bool colour);
// One line.
std::string view_json(const NodeView& view);

}  // namespace titan::tools
