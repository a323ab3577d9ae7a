#include "ended_well.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "host/words.h"
#include "robust.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

bool has_ended_well(const Process& process) {
    return process.liveness == Liveness::kExited && !process.ending.failed() && !process.ending.asked();
}

// Where the first step on record is not the program's first, it went on from one before.
std::string steps_text(const Run& run) {
    const Process* longest = nullptr;
    for (const Process& process : run.processes) {
        if (process.step >= 0 && (longest == nullptr || process.step > longest->step)) {
            longest = &process;
        }
    }
    if (longest == nullptr) {
        return {};
    }
    const int32_t first = longest->steps.empty() || longest->steps_by_period ? INT32_MAX : longest->steps.front().step;
    return first > 1 ? fmt::format(" at step {}", longest->step)
                     : " after " + counted(static_cast<size_t>(longest->step + 1 - first), "step");
}

// As the replay counts it; else as the hosts do, the median over steps and ranks.
std::string step_length_text(const Run& run, double step_ns) {
    if (step_ns == 0) {
        std::vector<double> lengths_ns;
        for (const Process& process : run.processes) {
            for (const StepProfile& step : process.steps) {
                lengths_ns.push_back(static_cast<double>(step.length_ns()));
            }
        }
        step_ns = lengths_ns.empty() ? 0 : median_of(std::move(lengths_ns));
    }
    return step_ns == 0 ? std::string() : fmt::format("; {} a step", duration_text(static_cast<int64_t>(step_ns)));
}

}  // namespace

std::string odd_metrics_text(const Run& run) {
    constexpr size_t kMostMetrics = 3;
    struct Bad {
        std::vector<int> ranks;
        int64_t first_step = INT64_MAX;
    };
    std::map<std::string, Bad> bad;
    for (const Process& process : run.processes) {
        for (const MetricRecord& metric : process.metrics) {
            if (metric.bad_ever != 0) {
                Bad& one = bad[name_or_none(process.text(metric.name))];
                one.ranks.push_back(process.rank);
                one.first_step = std::min(one.first_step, metric.first_bad_step);
            }
        }
    }
    std::string text;
    size_t told = 0;
    for (auto& [name, one] : bad) {
        if (told++ < kMostMetrics) {
            sort_unique(one.ranks);
            text += fmt::format("{}{}, {}{}", text.empty() ? "metrics not finite: " : "; ", name, ranks_text(one.ranks),
                                one.first_step < 0 ? std::string() : fmt::format(", step {}", one.first_step));
        }
    }
    return told <= kMostMetrics ? text : text + fmt::format(" and {} more", told - kMostMetrics);
}

bool ended_well(const Run& run) { return !run.processes.empty() && std::ranges::all_of(run.processes, has_ended_well); }

std::string ended_well_text(const Run& run, double step_ns) {
    if (!ended_well(run)) {
        return {};
    }
    const std::string metrics = odd_metrics_text(run);
    const bool all_told = run.missing_ranks.empty();
    return fmt::format("{}ended well{}, {}{}{}{}", all_told ? "" : ranks_text(run.ranks) + " ", steps_text(run),
                       recorded_ranks_text(run), all_told ? "" : "; no record of " + ranks_text(run.missing_ranks),
                       step_length_text(run, step_ns), metrics.empty() ? "" : "; " + metrics);
}

std::string unknown_ends_text(const Run& run) {
    std::vector<int> ranks;
    int64_t seen_ns = INT64_MAX;
    for (const Process& process : run.processes) {
        if (process.source.is_journal && process.liveness == Liveness::kUnknown) {
            ranks.push_back(process.rank);
            seen_ns = std::min(seen_ns, process.now_ns);
        }
    }
    sort_unique(ranks);
    return ranks.empty()
               ? std::string()
               : fmt::format("{} left only a journal: it goes to {}, and does not show whether {} {} ended, or how",
                             ranks_text(ranks), date_text(seen_ns), ranks.size() == 1 ? "it" : "they",
                             verb_form(ranks.size(), "has", "have"));
}

}  // namespace titan::analyzer
