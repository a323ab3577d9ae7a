// The dump of a process that does not write it: from its ring, and from what the system tells of its threads.
#pragma once

#include <string>

#include "host/result.h"
#include "node/processes.h"

namespace titan::tools {

struct OutsideResult {
    std::string path;
    std::string threads;  // activity of the threads, for people; empty: there are none
    std::string problem;  // it went elsewhere than it should
};

// `why`: for people and for the dump, "is stopped". `directory`: replaces the process's own; empty: its own.
Result<OutsideResult> dump_from_outside(const NodeProcess& process, const std::string& why,
                                        const std::string& directory);

// The newest dump of that process where it writes them; empty: none.
std::string newest_dump_of(const NodeProcess& process);

}  // namespace titan::tools
