// Writes a dump: a copy of the ring and facts about the moment, compressed, in a file with its final name.
//
// Runs on the watch thread while the rest of the process may be stuck with any lock held: no heap, no CUDA, no NCCL, no
// stdio. All memory is mapped when the session starts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dump_reasons.h"
#include "job.h"
#include "session.h"

namespace titan::tracer {

// Reason and requester of a dump. `detail` is one sentence for people.
struct DumpOrder {
    format::DumpReason reason;
    int32_t requested_by_rank;
    const char* detail;
    Evidence evidence;  // on whichever rank
    bool keeps_rings;   // rings of this node stay after all have ended in order
};

// Maps the memory and remembers the environment, which the watch thread cannot walk while the program changes it.
bool prepare_dumper(Session& session);

// Remembers the environment once more, with what has been set since: by the program, and by NCCL, which puts there what
// it reads from nccl.conf (setEnvFile in NCCL's src/misc/param.cc). On a thread of the program, where NCCL has just
// read its variables; only the first call does anything.
void note_environment();

// Copies the ring. Slots that are being written meanwhile are marked as torn in the copy.
void take_snapshot(Session& session);

// Asks all threads where they are, for the dump of that snapshot. `crashing_thread` waits for this dump; 0 none.
void take_stacks(const Session& session, int32_t crashing_thread);

// Writes the newest snapshot; says on stderr where it is, or why it could not be written.
bool write_dump(Session& session, const DumpOrder& order);

// Writes the ring that a process left behind as a dump in its name.
bool write_dump_of_gone(Session& session, const JobProcess& process);

// Gives the pages back that the last dump used.
void release_dump_memory();

}  // namespace titan::tracer
