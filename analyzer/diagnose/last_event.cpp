#include "last_event.h"

#include <fmt/format.h>

#include <algorithm>

namespace titan::analyzer {

void add_last_events(const Evidence& evidence, std::vector<Finding>& findings) {
    constexpr size_t kMostRanks = 4;
    for (Finding& finding : findings) {
        for (size_t i = 0; finding.hangs && i < std::min(finding.ranks.size(), kMostRanks); ++i) {
            const Process* const process = evidence.process_of_rank[finding.ranks[i]];
            if (process == nullptr || process->last_event.at_ns == 0) {
                continue;
            }
            const Mark& event = process->last_event;
            finding.evidence.push_back(phrase("the newest event of {} is \"{}\"{}, {} before its record ends",
                                              rank_fact(process->rank), process->text(event.name),
                                              event.step < 0 ? "" : fmt::format(" in step {}", event.step),
                                              duration_fact(std::max<int64_t>(process->now_ns - event.at_ns, 0))));
        }
    }
}

}  // namespace titan::analyzer
