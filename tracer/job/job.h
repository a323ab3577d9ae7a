// The segment that all ranks of one job on one node share (formats/layout/job_layout.h), as one of them uses it.
//
// Through it one rank's dump becomes everybody's, the dead are noticed, and one process per node speaks for the node.
// It is only ever a mapping: no descriptor is kept, all waiting is on futexes. Other processes of this user may change
// any byte at any time, so positions are copied and checked before use. Without a segment (no room for one anywhere,
// table full of the living) the process is a job of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "config.h"
#include "formats/layout/enums.h"
#include "formats/layout/job_layout.h"
#include "identity.h"
#include "ring_file.h"

namespace titan::tracer {

using format::JobProcess;
using format::JobRequest;
using format::JobState;
using format::kJobRequests;
using format::kMaxJobProcesses;

// Opens or makes the segment and enters this process. False: there is none, the functions below then do nothing.
bool join_job(const Config& config, const Identity& identity, const RingFile& ring_file);
bool in_job();

// The word that the watch thread sleeps on. signal-safe.
std::atomic<uint32_t>& wake_word();
void wake_watchers();

// A request to all ranks of this node. Each rank sees each generation once, its own and those before it joined never.
void publish_request(const JobRequest& request);
bool next_request(JobRequest& request);

// True while this process is the one that polls and counts the dead for its node; renews or takes over a lost lease.
bool hold_lease();
// It held the lease when it was asked last, or holds it since.
bool has_lease();

// The id of the newest request that crossed nodes, or kNoRemoteRequest where there was none yet. True when a rank of
// this node must react: the id is new here, and not what lay there when the job began.
bool learn_remote_id(uint64_t id);
inline constexpr uint64_t kNoRemoteRequest = 1;

// True for one process of the node per kAskOthersPauseMs: all ranks time out together, one file need be written.
bool first_to_ask_others();
inline constexpr uint64_t kAskOthersPauseMs = 5000;

// True for one process of the node per kOneDumpMs: the ranks of a node dump together, and one line tells of it.
bool first_to_tell_of_dump();
inline constexpr uint64_t kOneDumpMs = 5000;
// Likewise of a metric that is no number, which soon is on all ranks.
bool first_to_tell_of_nan();
inline constexpr uint64_t kOneNanMs = 600'000;

uint32_t ranks_here();  // ranks that ever joined on this node, at least 1

// The rings of this node stay when all have ended in order.
void note_dump_written();

// Marks processes that are gone as dead, those that were told to end if `asked_too`. The first newly dead one is
// described; false when there is none.
bool notice_dead(JobProcess const*& dead, bool asked_too);
// Processes that became other programs without a word are no longer ranks: their end is no death. cold.
void notice_replaced(bool (*was_replaced)(const JobProcess& process));
// One is gone that was told to end; one was found dead since this process joined.
bool is_asked_one_gone();
bool has_anyone_died();

// Calls write(process) for every other process that is gone and that no one has written a dump for.
void claim_gone(bool (*write)(const JobProcess& process));

// This process's own entry. signal-safe.
void set_job_state(JobState state);
JobState exchange_job_state(JobState state);  // returns the one before, kFree without a job
// Its own dump shows how it ends, with stacks: nobody needs to save its ring as well, however often it is told to end
// after that.
void note_last_dump();
// The same for a process that exits in order.
void note_exit_dump();
// The same for a process that is told to end and has a current dump, whatever it was made for. Others may still need to
// learn of its death.
void note_dump_at_end();

// All processes that ever joined, this one among them; empty without a segment.
std::span<JobProcess> job_processes();
// The number of the node's next file of the journal.
uint32_t take_journal_number();
// Whether a process of the node has marked something, as it notes: only such a node keeps a journal.
bool node_has_markers();
void note_markers();

// A clean end, in two steps. From the first on, another process speaks for the node; it tells whether none is left to.
bool begin_leaving();
// Once all processes of the job on this node have left in order and none has dumped, removes rings and segment. Only
// the last one does: it may still save what is in the rings when the others are through.
void leave_job(bool is_last);

// For tests: forgets that this process ever joined.
void forget_job();

}  // namespace titan::tracer
