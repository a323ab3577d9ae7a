// Finds the process that ended first. Launchers end a whole job within a second of the first death, and schedulers end
// a hanging one: most processes that are gone are no cause of anything.
#pragma once

#include "run.h"

namespace titan::analyzer {

// Sets Liveness::kEnded for processes that are gone only because of something else: they were told to end, were ended
// after others, or waited in a hang. If nothing decides it, Run::end_unclear says so.
void judge_ends(Run& run);

// The first process that dumped while this one, of the same host, had shown no sign of life for seconds and was there
// all the same: a dump also saves the ring of a process that is gone. Null where there is none.
const Process* dumped_beside(const Run& run, const Process& silent);

// True if the program's last error says that the other end of a connection was gone: that one ended first.
bool failed_for_a_peer(const Process& process);

}  // namespace titan::analyzer
