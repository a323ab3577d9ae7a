// Decides by step markers whether an absent rank has passed the place of the missing call. Steps are those of the whole
// process: what one thread marks says something about the calls of another only where the two keep together.
#pragma once

#include "run.h"
#include "wait_graph.h"

namespace titan::analyzer {

// The member's newest call that moves data; null where the record has none.
const Entry* newest_call_of(const Process& process, uint32_t row);
// The newest call that moves data of the thread that made that one; of any thread, if no call of the member is on
// record.
const Entry* newest_call_beside(const Process& process, uint32_t row);
// The lowest step of those who wait; INT32_MAX where none is known.
int32_t first_step(const WaitNode& node);
// Is its call, or the thread that makes its calls, in a later step than those who wait?
bool went_to_a_later_step(const Run& run, MemberRef absent, const WaitNode& node);
bool is_of_a_later_step(const Run& run, MemberRef member, const Entry& call, const WaitNode& node);

}  // namespace titan::analyzer
