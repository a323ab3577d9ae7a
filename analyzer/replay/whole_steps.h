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

// None where the process has no such step.
const StepProfile* profile_of(const Process& process, int32_t step);

}  // namespace titan::analyzer
