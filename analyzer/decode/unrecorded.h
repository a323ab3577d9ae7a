// What moves data between GPUs beside NCCL's host calls: a hang in there shows only as a kernel that does not end.
#pragma once

#include <string>
#include <vector>

#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

// From the list of modules, where the dump has stacks or the ring call sites, and from the calls on record.
std::vector<std::string> find_unrecorded(const OpenedSource& opened, const Process& process);

}  // namespace titan::analyzer
