#include "last_event.h"

#include <fmt/format.h>

#include <algorithm>

namespace titan::analyzer {

void add_last_events(const Evidence& evidence, std::vector<Finding>& findings) {
    evidence.for_each_named(findings, [](const Process& process, Finding& finding) {
        const Mark& event = process.last_event;
        if (event.at_ns == 0) {
            return;
        }
        finding.evidence.push_back(phrase("the newest event of {} is \"{}\"{}, {} before its record ends",
                                          rank_fact(process.rank), process.text(event.name),
                                          event.step < 0 ? "" : fmt::format(" in step {}", event.step),
                                          duration_fact(std::max<int64_t>(process.now_ns - event.at_ns, 0))));
    });
}

}  // namespace titan::analyzer
