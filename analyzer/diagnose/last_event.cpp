#include "last_event.h"

#include <fmt/format.h>

#include <algorithm>

namespace titan::analyzer {
namespace {

Sentence when_text(const Process& process, const Mark& mark) {
    const std::string& place = process.text(mark.place);
    return phrase("{}{}, {} before its record ends", mark.step < 0 ? "" : fmt::format(" in step {}", mark.step),
                  place.empty() ? "" : " at " + place,
                  duration_fact(std::max<int64_t>(process.now_ns - mark.at_ns, 0)));
}

}  // namespace

void add_last_events(const Evidence& evidence, std::vector<Finding>& findings) {
    evidence.for_each_named(findings, [](const Process& process, Finding& finding) {
        if (const Mark& event = process.last_event; event.at_ns != 0) {
            finding.evidence.push_back(phrase("the newest event of {} is \"{}\"{}", rank_fact(process.rank),
                                              process.text(event.name), when_text(process, event)));
        }
        if (const ErrorMark& error = process.last_error; error.at_ns != 0) {
            finding.evidence.push_back(phrase("the program says that {} of {} failed (\"{}\"){}",
                                              error.name == 0 ? "a span" : process.text(error.name),
                                              rank_fact(process.rank), process.text(error.message),
                                              when_text(process, error)));
        }
    });
}

}  // namespace titan::analyzer
