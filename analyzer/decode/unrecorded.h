// Libraries that move data between GPUs without NCCL's host calls: a hang in them shows only as a kernel that does not
// end.
#pragma once

#include <string>
#include <vector>

#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

// Looks in the list of modules, if the dump has stacks or the ring has call sites, and in the recorded calls.
std::vector<std::string> find_unrecorded(const OpenedSource& opened, const Process& process);

}  // namespace titan::analyzer
