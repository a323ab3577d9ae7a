// Rings that processes left on this node: listing, reading those of a run, collecting them as dumps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/layout/ring_layout.h"
#include "host/node_rings.h"
#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

struct NodeRing {
    std::string path;
    int32_t pid = 0;
    int32_t rank = -1;
    int32_t attempt = 0;
    std::string run;
    std::string executable;
    Liveness liveness = Liveness::kUnknown;
    int64_t age_ns = 0;  // since the newest thing in it
    int64_t newest_ns = 0;
    uint64_t size_bytes = 0;
    std::string problem;  // reason why it cannot be read; the rest is empty then
};

// Only of the private directories of this user below them, and no links.
std::vector<NodeRing> list_rings(const RingDirectories& directories);
// One line of JSON.
std::string ring_as_json(const NodeRing& ring);

// Paths of all that is named like a ring there, in order.
std::vector<std::string> ring_paths(const RingDirectories& directories);

struct CollectOptions {
    RingDirectories ring_directories;
    std::string run;   // empty: every run
    std::string into;  // DIR/<run>/<attempt>/rank<NNNNN>.<n>.titan
    bool include_alive = false;
};
struct CollectResult {
    std::vector<std::string> written;
    size_t saved_before = 0;  // saved by an earlier collect
    std::vector<std::string> problems;
};
CollectResult collect_rings(const CollectOptions& options);

const char* liveness_text(Liveness liveness);

// Judges how a process ended that is gone, by what it wrote at its end.
Liveness dead_how(const format::RingHeader& header);

// --- Runs of this node by the heads of their rings: where a launcher ended the job before anything could dump, they
// are all there is.

// A run that has rings on this node.
struct RingRun {
    std::string run;
    int32_t attempt = 0;
    bool alive = false;
    int64_t newest_ns = 0;
    size_t rings = 0;
};

// The newest one whose dumps would lie in one of the paths, whether or not there are any.
std::optional<RingRun> newest_ring_run(const RingDirectories& directories, const std::vector<std::string>& paths,
                                       const std::string& run, std::optional<int32_t> attempt);

}  // namespace titan::analyzer
