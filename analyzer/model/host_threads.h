// The threads of a process that matter for NCCL, and what they may be held in.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "run.h"

namespace titan::analyzer {

// Threads of the process that issue NCCL calls: only what holds them keeps a call from being issued.
std::vector<const ThreadState*> issuing_threads(const Process& process);
// Is one of those inside a call? Of a process that ended, that is where it ended.
bool is_inside_a_call(const Process& process);
// The host's activity is unknown: a Flight Recorder file, or no CUDA call was seen at all (TITANTRACE_CUDA=off, a
// static runtime).
bool is_host_unseen(const Process& process);

// Its calls say which thread made them; PyTorch's recorder does not.
bool tells_threads(const Process& process);
bool has_aborted(const Process& process);
// When the process gave up what it was in: it aborted a communicator and called nothing any more. Whatever its host
// waited in, the abort let it go. 0: it never did, or went on, as after the planned abort of an idle communicator.
int64_t gave_up_ns(const Process& process);
// It lives and called something since: what it waited in before its aborts is over.
bool went_on_after_aborts(const Process& process);
// The call is not known to have ended when the process aborted its communicator.
bool has_aborted_in(const Process& process, const Entry& entry);
// A creation from another communicator.
bool is_child(OpKind origin);
bool is_creation(OpKind kind);
bool is_being_created(const Member& member);
// The thread that tells most: one that is inside a call, else the one that was heard of last. Null: none is recorded.
const ThreadState* most_informative_thread_state(const Process& process);
// The thread that does the program's work: the main one, or the one that calls where the main one does nothing that is
// recorded (a worker of Ray trains in a thread of its own).
int32_t working_thread(const Process& process);
// Null: it has no record. A process that drives several GPUs has a rank for each in its communicators, and its own
// number may be that of another's GPU.
const Process* process_of_rank(const Run& run, int rank);
// Does the process have one of the ranks, or were none named?
bool is_asked_for(const Run& run, const Process& process, const std::set<int>& ranks);

}  // namespace titan::analyzer
