// Why the steps of a run take long, and what they would take without each cause.
//
//     Run, Clocks --> StepGraph --> StepWork -------- recognisers --------> edits of durations
//                         |                                                     |
//                         +--> replay as recorded ---- compared ---- replay with each edit --> SlowCause
//
// Recognisers run in an order; what one explains, the next no longer sees. A cause is told if the replay without it is
// faster by more than chance. Where the costliest spared enough steps, those tell what it costs (spared_steps.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run.h"
#include "step_graph.h"
#include "step_work.h"
#include "timing.h"

namespace titan::analyzer {

enum class CauseClass : uint8_t {
#define CAUSE(id, name, what, without, next) id,
#include "causes.def"
};

std::string_view name_of(CauseClass cause);
// Ranks are late, of themselves or because of their host.
constexpr bool is_of_ranks(CauseClass cause) { return cause <= CauseClass::kSlowHost; }

// Collectives that take long, of those that are slow the ones that are longest beside their like.
struct SlowCalls {
    std::vector<uint32_t> communicators;  // all that are slow, sorted
    OpKind op{};
    uint64_t bytes = 0;  // of the largest
    int members = 0;
    double taken_ns = 0;  // typical, counted from the last arrival
    double usual_ns = 0;  // of their like, or before
    size_t count = 0;
};

struct SlowCause {
    CauseClass of_class{};
    std::vector<int> ranks;  // sorted; of causes of all ranks: those that it strikes
    std::vector<std::string> hosts;
    std::optional<int> stage;
    std::optional<int64_t> since_step;   // it was not there before, in steps that the record holds
    std::vector<uint32_t> spared_steps;  // of those that were compared, by index: it did not strike here
    double cost_ns = 0;                  // of a step, in the mean over the steps since it began
    double step_ns = 0;                  // the mean of these
    std::optional<HostPart> host_part;   // in which hosts spend that time
    std::string slow_part;               // the same in words
    bool gpus_unseen = false;            // without it a step takes at least as long as the GPUs need, which nobody saw
    bool others_idle = false;            // they have no work there, as at the end of uneven inputs: nobody is slow
    std::vector<std::string> evidence;
    std::optional<SampledExcess> sampled;  // said in `evidence`, too
    std::optional<SlowCalls> calls;

    double without_ns() const { return step_ns - cost_ns; }
    double share() const { return step_ns > 0 ? cost_ns / step_ns : 0; }
};

struct SlowCauses {
    double step_ns = 0;  // mean
    int64_t first_step = 0;
    size_t steps = 0;
    bool by_period = false;
    bool by_spans = false;             // no call is on record: where ranks wait for each other is inferred
    double calls_share = 0;            // of a step, that NCCL's calls take; 0: GPUs were not seen, or there is a cause
    std::vector<int> ranks;            // that were played, sorted
    std::vector<SlowCause> causes;     // the most costly first
    std::vector<std::string> missing;  // what could not be seen
    std::string why_none;              // why nothing could be played; empty otherwise
};

SlowCauses slow_causes(const Run& run, const Timing& timing);

// "the step takes 934 ms; 812 ms if rank 37 were as fast as the others", and "unless the GPUs need longer" where these
// were not seen.
std::string counterfactual_text(const SlowCause& cause);
// "since step 7"; "in the last 39 of 209 steps" where no step is marked, and so none has a number; nothing where it is
// as old as the record.
std::string since_text(const SlowCauses& slow, const SlowCause& cause);
// "the GPU of rank 37 is slow".
std::string what_text(const SlowCause& cause);
// "50% of each step is spent in NCCL's calls: ...": where they take much of it and no cause was found. Calls that are
// all slow from the beginning look like calls that are not. Else empty.
std::string unseen_in_calls_text(const SlowCauses& slow);
// What to do about it.
std::string_view next_step(const SlowCause& cause);

}  // namespace titan::analyzer
