// Decides whether an absent rank skipped the call or has not reached it yet.
#pragma once

#include <vector>

#include "expected.h"
#include "run.h"
#include "stream_order.h"
#include "wait_graph.h"

namespace titan::analyzer {

// Did the absent member make calls, on the thread that makes those of this communicator, that a waiter made only after
// the one it waits in, and that do not merely queue behind that or another? Then it passed the place where the missing
// call belongs. (A call that a waiter has not come to either tells nothing: the waiter may be the one that left
// something out.) Without step markers the two may have counted apart before, and then it is the waiter whose numbers
// are off: what each used to do tells, else the vote of all ranks that make such calls. `orders`: by process.
SkippedCall find_skipped_call(const Run& run, const SiblingEdits& edits, const std::vector<StreamOrder>& orders,
                              MemberRef absent, const WaitNode& node);
// For programs without step markers: has the absent member made more sends, or receives, with a peer than any waiting
// member had when it came to the call? Then it is in a later step, and skipped the call. Waits of other kinds are not
// comparable by count.
SkipVerdict ahead_in_messages(const Run& run, MemberRef absent, const WaitNode& node);

// Did the absent member make another call where it always made the missing one before?
bool called_another_instead(const Run& run, MemberRef absent, const WaitNode& node);
// Is the missing call among those that the absent member used to make where this edit is?
bool in_place_of(const Run& run, MemberRef absent, const WaitNode& node, const Edit& edit);
// Since the call of this kind before it, did the thread leave one out, or make another instead? Where it only changed
// the order, the calls go on as others.
bool skipped_a_repetition(const Process& process, const Entry& entry);
// Its call of that number queues behind others: does it belong to a later step, because it left one out? Says so in
// `absence`.
void note_earlier_skip(const Run& run, const WaitNode& node, const Entry& queued, Absence& absence);
// Did the record of this process end before the wait began? Then it says nothing about the wait.
// `process`: index.
bool is_stale(const Run& run, uint32_t process, const WaitNode& node);
// Unfinished calls whose entries are overwritten: which call is at the head of their stream is not known then.
uint64_t lost_unfinished_calls(const Process& process);
bool has_lost_unfinished_calls(const Process& process);
// Ranks that an unknown member of the communicator may be: those that left no record or, where each rank left one,
// those that are no members as far as the record tells. Empty where that says nothing: there are many, or not all ranks
// were to be recorded.
std::vector<int> ranks_outside(const Run& run, const Communicator& communicator);
// The global rank of a member that never entered the creation of its communicator, by its place on the line that the
// members lie on; -1 unknown.
int who_never_came(const Run& run, const Communicator& communicator, size_t comm_rank);

}  // namespace titan::analyzer
