// Steps of a diagnosis behind the finders, in their order (diagnose.cpp).
#pragma once

#include <vector>

#include "evidence.h"
#include "finding.h"
#include "timing.h"

namespace titan::analyzer {

// If nothing hangs: ranks that wait for longer than usual because somebody has not come.
std::vector<Pending> find_pending(const Evidence& evidence, const std::vector<Finding>& findings);
// Joins the hangs that name ranks whose processes live but do not run into one finding, rank_stopped.
void name_the_halted(const Run& run, Diagnosis& diagnosis);
// Ranks that are stuck beside those that are named, and owe a call that is queued behind what hangs.
void add_second_causes(const Evidence& evidence, std::vector<Finding>& findings);
// Plays the calls as the head finding says they should have been, tells what ends, and doubts it if that is not all.
void replay_verdict(const Evidence& evidence, std::vector<Finding>& findings);
// Stragglers, slow collectives and what else makes steps long, what costs a step most first: a hang stays the head, and
// where one is, steps are played only if somebody is late. `timing` forgets lateness that costs nothing. Returns what
// is left out.
std::vector<Warning> add_timing_findings(const Run& run, Timing& timing, const DiagnoseOptions& options,
                                         Diagnosis& diagnosis);
// Metrics of the program that are no numbers any more.
void add_metric_findings(const Run& run, std::vector<Finding>& findings);
// A finding for each kind of fault of GPUs and network ports.
void add_health_findings(const Run& run, std::vector<Finding>& findings);
// A verdict needs enough of the job: fills Diagnosis::cannot_tell, and takes out findings that only blame ranks of
// which nothing is known while most are missing.
void set_cannot_tell(const Run& run, Diagnosis& diagnosis);
// NCCL's RAS may consider a rank dead that no finding names and no record shows alive: the hang may be due to it.
void doubt_by_witnesses(const Run& run, std::vector<Finding>& findings);
// Adds the positions of the culprits, and the frame where they part from the others.
void add_positions(const Evidence& evidence, std::vector<Finding>& findings);
// Adds as evidence which children of a named rank have failed, and where those are that it waits for.
void add_children(const Evidence& evidence, std::vector<Finding>& findings);
// Adds the open span of each named rank of what hangs where the program told facts of it, its newest event, metrics and
// error, as evidence.
void add_last_events(const Evidence& evidence, std::vector<Finding>& findings);
// Adds the state of the GPUs of each named rank of what hangs or is slow as evidence, and the faults of its host.
void add_health(const Evidence& evidence, std::vector<Finding>& findings);
// Says which call of a named rank NCCL refused where others hang: the program may have caught the error and gone on.
void add_refusals(const Evidence& evidence, std::vector<Finding>& findings);
// Settings and machines that differ: beside what hangs in flight or in a creation, else a warning. Last, when all
// findings are there.
void tell_config(const Run& run, Diagnosis& diagnosis);

// Without any record, by witnesses alone: such findings are never certain.
Diagnosis diagnose_by_witnesses(const Run& run);

}  // namespace titan::analyzer
