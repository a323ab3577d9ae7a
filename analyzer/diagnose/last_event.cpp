#include "steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/words.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

Sentence when_text(const Process& process, const Mark& mark) {
    const std::string& place = process.text(mark.place);
    return phrase("{}{}, {} before its record ends", mark.step < 0 ? "" : fmt::format(" in step {}", mark.step),
                  place.empty() ? "" : " at " + place,
                  duration_fact(std::max<int64_t>(process.now_ns - mark.at_ns, 0)));
}

std::string facts_text(const Process& process, const ToldMark& mark) {
    return mark.facts == 0 ? std::string() : fmt::format(" ({})", process.text(mark.facts));
}

// "loss 2.31, grad_norm 1.5": those of the newest step that has any.
std::string newest_metrics(const Process& process, int64_t step) {
    constexpr size_t kMostMetrics = 4;
    std::string words;
    size_t count = 0;
    for (const MetricRecord& metric : process.metrics) {
        if (metric.last_step == step && count++ < kMostMetrics) {
            words += fmt::format("{}{} {}", words.empty() ? "" : ", ", name_or_none(process.text(metric.name)),
                                 number_text(metric.last_value));
        }
    }
    return words + (count > kMostMetrics ? fmt::format(" and {} more", count - kMostMetrics) : "");
}

void tell_metrics(const Process& process, Finding& finding) {
    int64_t newest = -1;
    for (const MetricRecord& metric : process.metrics) {
        newest = std::max(newest, metric.last_step);
    }
    if (newest >= 0) {
        finding.evidence.push_back(phrase("the newest metrics of {} are of step {}: {}", rank_fact(process.rank),
                                          newest, newest_metrics(process, newest)));
    }
}

}  // namespace

void add_last_events(const Evidence& evidence, std::vector<Finding>& findings) {
    evidence.for_each_named(findings, [](const Process& process, Finding& finding) {
        if (const ToldMark& span = process.open_span; span.facts != 0) {
            finding.evidence.push_back(phrase(
                "{} is in span {}{}, begun {} before its record ends", rank_fact(process.rank), process.text(span.name),
                facts_text(process, span), duration_fact(std::max<int64_t>(process.now_ns - span.at_ns, 0))));
        }
        if (const ToldMark& event = process.last_event; event.at_ns != 0) {
            finding.evidence.push_back(phrase("the newest event of {} is \"{}\"{}{}", rank_fact(process.rank),
                                              process.text(event.name), facts_text(process, event),
                                              when_text(process, event)));
        }
        tell_metrics(process, finding);
        if (const ErrorMark& error = process.last_error; error.at_ns != 0) {
            finding.evidence.push_back(phrase("the program says that {} of {} failed (\"{}\"){}",
                                              error.name == 0 ? "a span" : process.text(error.name),
                                              rank_fact(process.rank), process.text(error.message),
                                              when_text(process, error)));
        }
    });
}

}  // namespace titan::analyzer
