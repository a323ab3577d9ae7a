// Reads what /proc tells a stranger about a process that may be traced.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace titan::tools {

struct ProcView {
    bool exists = false;
    bool is_zombie = false;
    uid_t user = 0;
    bool readable = false;    // its mappings may be looked at
    bool has_tracer = false;  // libtitantrace is mapped
    bool records = false;     // the tracer's thread runs
    std::string ring_path;    // ring that it has mapped, empty: none
};

ProcView look_at(pid_t pid);

// "NAME=VALUE" of the environment that it was started with; empty where we may not look.
std::vector<std::string> environment_of(pid_t pid);

// Its name, or its number where it has none.
std::string user_name(uid_t user);

}  // namespace titan::tools
