#include "steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "host/words.h"
#include "run_text.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

// One value may be meant: a scaler of gradients overflows now and then, and leaves out that step.
constexpr uint64_t kFewestValues = 2;

struct Report {
    const Process* process;
    const MetricRecord* metric;
};

bool is_bad(const Report& report) {
    return report.metric->bad_values >= kFewestValues || (report.metric->bad_values != 0 && report.process->is_gone());
}

bool seems_earlier(const Report& a, const Report& b) {
    const Mark& first = a.metric->bad_since;
    const Mark& second = b.metric->bad_since;
    return first.step >= 0 && second.step >= 0 ? first.step < second.step : first.at_ns < second.at_ns;
}

// Where the older values of b are gone, it may have been the first.
bool is_earlier(const Report& a, const Report& b) { return !b.metric->bad_from_start && seems_earlier(a, b); }

std::vector<int> ranks_of(const std::vector<Report>& reports) {
    std::vector<int> ranks;
    for (const Report& report : reports) {
        ranks.push_back(report.process->rank);
    }
    sort_unique(ranks);
    return ranks;
}

std::string since_text(const Report& report) {
    const Mark& since = report.metric->bad_since;
    const std::string& span = report.process->text(since.name);
    const std::string& place = report.process->text(since.place);
    return fmt::format(
        "{}{}{}{}", since.step < 0 ? "since " + fine_date_text(since.at_ns) : fmt::format("since step {}", since.step),
        report.metric->bad_from_start ? " or before" : "", span.empty() ? "" : ", in span " + span,
        place.empty() ? "" : ", at " + place);
}

void add_finding(const std::string& name, const std::vector<Report>& reports, std::vector<Finding>& findings) {
    std::vector<Report> bad;
    std::ranges::copy_if(reports, std::back_inserter(bad), is_bad);
    if (bad.empty()) {
        return;
    }
    const Report& first = *std::ranges::min_element(bad, seems_earlier);
    std::vector<Report> at_first;
    std::vector<Report> later;
    for (const Report& report : bad) {
        (is_earlier(first, report) ? later : at_first).push_back(report);
    }
    Finding finding;
    finding.kind = FindingKind::kMetricNotFinite;
    finding.hangs = false;
    finding.ranks = ranks_of(at_first);
    finding.since_ns = first.metric->bad_since.at_ns;
    // Which of them was first is not known where older values are gone.
    doubt<Unknown::kOldestValue>(finding, first.metric->bad_from_start && at_first.size() < reports.size());
    finding.summary = phrase("metric {} is {} on {} {}", name, first.metric->last_value, ranks_fact(finding.ranks),
                             since_text(first));
    if (!later.empty()) {
        const Report& next = *std::ranges::min_element(later, seems_earlier);
        finding.summary += phrase("; on {} {}", ranks_fact(ranks_of(later)), since_text(next));
    }
    finding.evidence.push_back(phrase("{} report it; its {} newest values on {} are no numbers",
                                      ranks_fact(ranks_of(reports)), first.metric->bad_values,
                                      rank_fact(first.process->rank)));
    findings.push_back(std::move(finding));
}

}  // namespace

void add_metric_findings(const Run& run, std::vector<Finding>& findings) {
    std::map<std::string, std::vector<Report>> by_name;
    for (const Process& process : run.processes) {
        for (const MetricRecord& metric : process.metrics) {
            by_name[name_or_none(process.text(metric.name))].push_back({&process, &metric});
        }
    }
    for (const auto& [name, reports] : by_name) {
        add_finding(name, reports, findings);
    }
}

}  // namespace titan::analyzer
