#include "keep_steps.h"

#include <vector>

namespace titan::analyzer {

bool keep_steps(Run& run, std::pair<int64_t, int64_t> first_and_last) {
    const auto is_other = [&](const auto& one) {
        return one.step < first_and_last.first || one.step > first_and_last.second;
    };
    bool any = false;
    for (Process& process : run.processes) {
        if (process.steps_by_period) {
            process.steps.clear();  // nobody knows their numbers
        }
        std::erase_if(process.steps, is_other);
        for (Member& member : process.members) {
            std::erase_if(member.arrivals, is_other);
            any |= !member.arrivals.empty();
        }
        any |= !process.steps.empty();
    }
    return any;
}

}  // namespace titan::analyzer
