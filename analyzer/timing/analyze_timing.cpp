#include "align_clocks.h"
#include "timing.h"

namespace titan::analyzer {

Timing analyze_timing(const Run& run) {
    Timing timing;
    timing.clocks = align_clocks(run);
    find_lateness(run, timing);
    classify(timing);
    find_slow_parts(run, timing);
    find_sampled_parts(run, timing);
    return timing;
}

}  // namespace titan::analyzer
