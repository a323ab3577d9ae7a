// Who ended first? Launchers end a whole job within a second of the first death, and schedulers end a hanging one: most
// processes that are gone are no cause of anything.
#pragma once

#include <string>

#include "run.h"

namespace titan::analyzer {

// Of the processes that are gone, those that ended because of something else become Liveness::kEnded: they were told to
// end, were ended after others, or waited in a hang. Where nothing tells, Run::end_unclear says so.
void judge_ends(Run& run);

// "was told to end by SIGTERM from pid 77 at 12:00:01.250", "exited with status 3 at ...", "showed its last sign of
// life at ...".
std::string end_text(const Process& process);

// How the end of a process lies to those of the others: evidence of who was first. Empty where there is nothing to
// compare.
std::string end_order_text(const Run& run, const Process& process);

}  // namespace titan::analyzer
