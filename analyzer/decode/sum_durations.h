// Sums of call durations: the rank that arrives last waits least.
#pragma once

#include "run.h"

namespace titan::analyzer {

// The running sums of the arrivals that sample_arrivals() took.
void sum_durations(Process& process);

}  // namespace titan::analyzer
