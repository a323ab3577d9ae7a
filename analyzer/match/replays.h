// Calls that launches of CUDA graphs ran.
#pragma once

#include <cstdint>
#include <string>

#include "run.h"
#include "sentence.h"

namespace titan::analyzer {

// "1st", "12th".
std::string ordinal(size_t number);
// "replay 12 of graph 2"; empty for a call that no graph launch ran. Numbers are the process' own.
std::string replay_text(const Entry& entry);
// "replay 12 of graph 2, which holds all_reduce #48 on world (3rd of 6 collectives in it)"; empty where it was not
// replayed.
Sentence replay_that_holds(const Process& process, const Entry& entry, const Sentence& call);
// Calls of the member that ran by the same launch, from `sequence` on.
uint64_t calls_left_in_replay(const Process& process, const Member& member, uint64_t sequence);

}  // namespace titan::analyzer
