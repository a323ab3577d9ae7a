// Sums of steps as columns, as marker_columns.h does markers.
#pragma once

#include <span>

#include "formats/layout/step_sum.h"

namespace titan::format {

template <typename Coder>
void code_steps(Coder& coder, std::span<StepSum> steps) {
    uint64_t step = 0;
    uint64_t first_ticks = 0;
    for (StepSum& sum : steps) {
        coder.delta(sum.step, step);
        coder.number(sum.calls);
        coder.number(sum.bytes);
        coder.number(sum.host_ticks);
        coder.number(sum.device_ticks);
        coder.number(sum.timed_calls);
        coder.delta(sum.first_ticks, first_ticks);
        uint64_t last_ticks = first_ticks;
        coder.delta(sum.last_ticks, last_ticks);
    }
}

}  // namespace titan::format
