// The ranks that came to a wait, since when, and whether they are still there.
#pragma once

#include <cstdint>

#include "wait_graph.h"

namespace titan::analyzer {

// The first of those who wait in a call; null in a creation.
const Waiter* first_call(const WaitNode& node);
int64_t longest_wait_ns(const WaitNode& node);
// When the newest record of those who wait ends.
int64_t latest_end_ns(const WaitNode& node);
// A Flight Recorder file that was written long before the others', when the wait had hardly begun, is no witness of it:
// its rank may have raised an exception, written the file and left.
bool ends_early(const Process& process, const WaitNode& node);
// Takes such files out of those who wait.
void set_early_records_aside(const Run& run, WaitGraph& graph);
// The host's activity in a Flight Recorder process is unknown: it is a guess that it waits in its unfinished call. If
// another member went on from that very call, unfinished, to the one that is missing, the call is no reason to be
// missing.
void drop_guessed_holds(const Run& run, WaitGraph& graph);
// More members went on without the call than wait in it: the few may have made one too many.
void doubt_majority_that_went_on(WaitNode& node);
// The calls of one NCCL group, or of one graph launch, end together: a member held by one is held by those that lack
// somebody, too.
void hold_by_whole_groups(const Run& run, WaitGraph& graph);
// If only one member waits in an exchange, because all others went on without it, it is the odd one.
void doubt_majority_in_exchanges(const Run& run, WaitGraph& graph);
// Did this member of the parent come to a split (or shrink, or grow) of it?
bool entered_split(const Run& run, const WaitNode& node, MemberRef parent);

}  // namespace titan::analyzer
