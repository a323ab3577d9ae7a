// A stack as lines of a report: the program's frames in full, runs of library frames as one line each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "finding.h"

namespace titan::analyzer {

// Keeps the outermost frame of a run of library frames, because it is what the program called: "16 frames in libc.so.6,
// libcuda.so.1", "cudaStreamSynchronize (libcuda.so.1)". More than `most` lines are cut in the middle.
std::vector<std::string> folded_frames(const std::vector<StackFrame>& innermost_first, size_t most);

}  // namespace titan::analyzer
