// The journal of this node: markers of all its ranks, for as long as the job runs (TITANTRACE_JOURNAL_MIB).
//
// One process per node, the one that holds the job segment's lease, reads the rings of all ("titan-journal", a thread
// of its own: a file server may hang) and appends what is new to a file, once per TITANTRACE_JOURNAL_S. How far each
// ring is in the file lies in the segment: whoever takes over goes on from there, and what is overwritten until then
// is missing from the file by its numbers.
#pragma once

#include <cstdint>

namespace titan::tracer {

struct Session;

// The watch thread calls it at each tick: starts or stops writing as the lease comes and goes.
void tend_journal(Session& session);

// The process is about to end. Writes what there is, if it is this process's to write or nobody else is left; waits for
// that a second at most. any-thread.
void save_journal(Session& session, bool is_last);

// A new session: nothing is known of an earlier one.
void reset_journal();

}  // namespace titan::tracer
