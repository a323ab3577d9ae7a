// Processes of one job whose ranks are numbered alike: a trainer, and generators beside it. They are worlds of their
// own, whether or not they say what they are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

bool is_same_process(const Process& a, const Process& b);
// Neither of two processes with one rank replaced the other: they say different roles, or lived at the same time.
bool live_beside(const Process& a, const Process& b);

struct World {
    std::string name;  // the role that its processes say, else "world-2": the second that started
    std::vector<Process> processes;
};

// The worlds, first the one that counts: `wanted` if it is named (and no other), otherwise one in which a process died,
// else that dumped for a hang, that has most ranks, or whose name comes first. One without a name where all ranks are
// different. An error where there is no such role.
Result<std::vector<World>> choose_worlds(std::vector<Process> processes, const std::string& wanted);

// "world-2 of pids 12, 13", or the role.
std::string world_name(const Run& run);
// Which of them this is, and how to read the others.
Warning other_worlds(const Run& run);

}  // namespace titan::analyzer
