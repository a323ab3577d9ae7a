// Reasons why a finding is less than certain, each put as what would settle it.
#pragma once

#include <string>
#include <vector>

#include "explain.h"
#include "finding.h"
#include "match.h"
#include "wait_graph.h"

namespace titan::analyzer {

// "a dump of rank 3 (missing)". `what` names them where their global ranks are unknown.
std::string missing_dumps_text(const std::vector<int>& ranks, const std::string& what);
// "a larger TITANTRACE_COLLECTIVES: 1,204 entries of rank 5 were overwritten".
std::string larger_ring_text(const Process& process);

// "TITANTRACE_GPU_PROGRESS=writes", and what keeps that from working where it was the setting already.
std::string progress_advice(const Process& process);

// An absence is a claim about what was not recorded, so it is worth what the records are worth.
void doubt_absence(const Run& run, const Culprits& culprits, Finding& finding);
// The confidence comes from the match; this says what is behind it.
void explain_doubt(const Run& run, const Mismatch& mismatch, Finding& finding);
// Work that does not end may be slow, as long as no watchdog has called it a hang.
void doubt_short_wait(const Run& run, const WaitNode& node, Finding& finding);
// A call that everybody has reached and that does not end.
void doubt_stuck(const Run& run, const WaitNode& node, Finding& finding);
// Waits whose length, and pairs whose numbers, the record leaves to be guessed.
void doubt_guesses(const Run& run, const WaitNode& node, Finding& finding);
// It is a guess that this process ended before the others.
void doubt_end(const Process& process, Finding& finding);
// It is unknown which of the ranks in the cycle has the wrong order, or only a rank's own past tells.
void doubt_culprits_of_cycle(const Run& run, const std::vector<int>& ranks, bool by_prediction, Finding& finding);

}  // namespace titan::analyzer
