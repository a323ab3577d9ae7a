// The steps of a rank of which all calls are on record.
#pragma once

#include <cstdint>

#include "run.h"

namespace titan::analyzer {

struct StepRange {
    int32_t first = 0;
    int32_t last = -1;

    bool empty() const { return last < first; }
};

// Steps whose calls are all there, and have ended on the GPU: a host that runs ahead has made many more.
StepRange whole_steps(const Process& process);

// Index in Process::history behind the calls of the newest step: the profiles end with it, and what comes behind it has
// no step of its own here.
uint32_t end_of_last(const Process& process);

// When the first call of that step had ended on the GPU, which may be the one behind the newest profile; 0: that is not
// seen.
int64_t end_of_first_call_ns(const Process& process, int32_t step);

// When the calls before the step had ended on the GPU: what its host made since then, the GPU may begin. 0: none is
// seen.
int64_t ended_before_ns(const Process& process, const StepProfile& step);

// Did the process load code in one of the steps that reach into the time from begin to end?
bool loads_code(const Process& process, int64_t begin_ns, int64_t end_ns);

// Calls visit(place in Process::history, its times, when the host entered it) for each call whose times are kept.
template <typename Visit>
void for_each_timed_call(const Process& process, const Visit& visit) {
    auto place = process.history.size() - static_cast<uint32_t>(process.call_times.size());
    int64_t entered_ns = process.call_times_from_ns;
    for (const CallTimes& times : process.call_times) {
        entered_ns += int64_t{times.since_before} * CallTimes::kUnitNs;
        visit(place++, times, entered_ns);
    }
}

}  // namespace titan::analyzer
