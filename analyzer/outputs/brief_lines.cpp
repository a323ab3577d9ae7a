#include "brief_lines.h"

#include <fmt/format.h>

#include <map>

#include "host/words.h"
#include "parts.h"
#include "phases.h"
#include "report_parts.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostBriefNames = 4;
constexpr double kMuchLonger = 1.2;

// "30 steps of 13 ms on average (99th percentile 34 ms) on 2 ranks; 35.4% of the time was training".
std::string steps_line(const Summary& summary, const AttemptTimes& times) {
    for (const SummaryRow* row : summary.rows()) {
        if (row->kind != PartKind::kStep || row->values.count() == 0) {
            continue;
        }
        const std::string of_role = in_role(row->role, "");
        const std::string what =
            row->name == kMarkedStep && times.first_step != kNoStep
                ? counted(static_cast<uint64_t>(times.newest_step - times.first_step + 1), "step")
                : of_role + counted(row->values.count() / row->of_rank.size(), row->name.substr(of_role.size()));
        std::string text =
            fmt::format("{} of {} on average (99th percentile {}) on {}", what, fine_duration_text(row->values.mean()),
                        fine_duration_text(row->values.quantile(0.99)), many_counted(row->of_rank.size(), "rank"));
        if (const double share = goodput_of({times}).share(); times.first_step != kNoStep && share > 0) {
            text += fmt::format("; {:.1f}% of the time was training", 100 * share);
        }
        return text;
    }
    return {};
}

// The step itself, or what holds several: no part of it.
bool holds_steps(std::string_view span) {
    const std::string_view phase = phase_of(span);
    return phase == "training_single_iteration" || phase == "training_loop" || phase == "epoch" ||
           phase == "application";
}

// "longest spans of a step: forward 20 ms on average, data 17 ms (rank 1: 30 ms)". A rank that takes longer than the
// others may wait in there: whose fault that is, the verdict says.
std::string spans_line(const Summary& summary) {
    std::string text;
    size_t told = 0;
    for (const SummaryRow* row : summary.rows()) {  // the largest sum first
        if (row->kind != PartKind::kSpan || row->in_steps_ns <= 0 || holds_steps(row->name) ||
            ++told > kMostBriefNames) {
            continue;
        }
        text += fmt::format("{}{} {}", told == 1 ? "longest spans of a step: " : ", ", name_or_none(row->name),
                            fine_duration_text(row->values.mean()));
        text += told == 1 ? " on average" : "";
        const int rank = row->highest_rank();
        const double highest_ns = rank < 0 ? 0 : row->of_rank.at(rank).mean();
        text += highest_ns > kMuchLonger * row->values.mean()
                    ? fmt::format(" (rank {}: {})", rank, fine_duration_text(highest_ns))
                    : "";
    }
    return text;
}

// "newest metrics: loss 2.71, lr 0.001; not finite: loss in step 20 on rank 0".
std::string metrics_line(const StepMetrics& metrics) {
    struct Bad {
        int64_t step;
        std::vector<int> ranks;
    };
    std::map<std::string, double> newest;
    std::map<std::string, Bad> bad;  // as it was first
    for (const StepMetric& metric : metrics.joined()) {
        const std::string name = in_role(metric.role, name_or_none(metric.name));
        if (metric.has_value) {
            newest[name] = metric.value;
        }
        if (!metric.not_finite.empty()) {
            bad.emplace(name, Bad{metric.step, metric.not_finite});
        }
    }
    std::string text;
    size_t told = 0;
    for (const auto& [name, value] : newest) {
        if (told++ < kMostBriefNames) {
            text += fmt::format("{}{} {}", text.empty() ? "newest metrics: " : ", ", name, number_text(value));
        }
    }
    text += told > kMostBriefNames ? fmt::format(" and {} more", told - kMostBriefNames) : "";
    told = 0;
    for (const auto& [name, first] : bad) {
        if (told++ < kMostBriefNames) {
            text += fmt::format("{}{} in step {} on {}", told == 1 ? "; not finite: " : ", ", name, first.step,
                                ranks_text(first.ranks));
        }
    }
    return text + (told > kMostBriefNames ? fmt::format(" and {} more", told - kMostBriefNames) : "");
}

}  // namespace

std::vector<std::string> brief_lines(const Summary& summary, const StepMetrics& metrics, const AttemptTimes& times) {
    std::vector<std::string> lines = {steps_line(summary, times), spans_line(summary), metrics_line(metrics)};
    std::erase(lines, "");
    return lines;
}

}  // namespace titan::analyzer
