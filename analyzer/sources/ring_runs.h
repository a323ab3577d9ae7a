// Runs of this node by the heads of their rings: where a launcher ended the job before anything could dump, they are
// all there is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/node_rings.h"

namespace titan::analyzer {

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
