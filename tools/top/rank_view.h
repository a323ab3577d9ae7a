// The newest part of a living ring, in the analyzer's form of a process. A ring has megabytes, nearly all of them
// history: a rank's current state is read in a few pieces, with pread and nothing else, so that nobody notices.
#pragma once

#include <cstdint>

#include "host/image_buffer.h"
#include "host/result.h"
#include "node/processes.h"
#include "run.h"

namespace titan::tools {

inline constexpr uint64_t kNewestCalls = 1024;  // per ring
inline constexpr uint64_t kNewestMarkers = 512;

struct RankView {
    analyzer::Process process;
    double steps_per_s = -1;  // measured over the last seconds, 0 when steps stopped coming; -1 unknown
    int64_t step_age_ns = 0;  // since the newest step began, 0 unknown
    size_t read_bytes = 0;
};

// `memory` is scratch, for one ring after the other.
Result<RankView> look_at_ring(const NodeProcess& process, ImageBuffer& memory);

}  // namespace titan::tools
