// Calls of CUDA graphs: which launch ran them, and captures that nobody launched.
#pragma once

#include <string>

#include "analyzer/finding.h"
#include "analyzer/run.h"
#include "analyzer/wait_graph.h"

namespace titan::analyzer {

// "replay 12 of graph 2"; empty for a call that no graph launch ran. Numbers are the process' own.
std::string replay_text(const Entry& entry);
// "3rd of 6 collectives in it": the place of a replayed call in its launch, as far as that is recorded.
std::string place_in_replay(const Process& process, const Entry& entry);
// "replay 12 of graph 2, which holds all_reduce #48 on world (3rd of 6 collectives in it)"; empty where it was not replayed.
std::string replay_that_holds(const Process& process, const Entry& entry, const std::string& call);
// Calls of the member that ran by the same launch, from `sequence` on.
uint64_t calls_left_in_replay(const Process& process, const Member& member, uint64_t sequence);

// The member's own capture of the call that the others run: the same call on the same communicator, captured after
// everything that the member ran there, into a graph that it never launched. Null where there is none.
const Entry* find_capture(const Run& run, const WaitNode& node, const Absence& absence);
// The same where the member went on to its next call: a capture of `like` that lies behind its call before `sequence`.
const Entry* find_capture(const Run& run, MemberRef ref, const Entry& like, uint64_t sequence);
void explain_capture(const Run& run, const WaitNode& node, const std::vector<Absence>& absences, Finding& finding);
// "rank 3 launched it last as its replay 11 of graph 2, 3.1 s before its dump", for a member that lags behind in replays.
void add_replay_evidence(const Run& run, const WaitNode& node, const Absence& absence, Finding& finding);

}  // namespace titan::analyzer
