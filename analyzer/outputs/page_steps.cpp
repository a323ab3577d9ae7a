// Step by step: what the time went into, who came late, and what the program measured.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "health_faults.h"
#include "health_of.h"
#include "host/words.h"
#include "late_ranks.h"
#include "named_stacks.h"
#include "page_sections.h"
#include "straggler_report.h"
#include "summary_report.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostSpans = 7;  // and others: a colour of the page for each
constexpr size_t kMostBins = 200;
constexpr size_t kMostMetrics = 24;
constexpr size_t kMostPoints = 400;

double whole(double value) { return std::round(std::clamp(value, -9e15, 9e15)); }

// One step of all ranks: sums over them.
struct StepSums {
    uint64_t ranks = 0;
    double sum_ns = 0, least_ns = HUGE_VAL, most_ns = 0;
    int slowest = -1;
    std::map<std::string, double> parts_ns;
};

struct FixedPart {
    const char* name;
    int64_t StepProfile::*time;
};
constexpr auto kFixedParts = std::to_array<FixedPart>({
    {"waiting for the GPU", &StepProfile::sync_ns},
    {"blocking copies", &StepProfile::copy_ns},
    {"allocating", &StepProfile::memory_ns},
    {"loading code", &StepProfile::load_ns},
    {"inside NCCL's calls", &StepProfile::nccl_ns},
});

std::map<int64_t, StepSums> sums_of(const Run& run) {
    std::map<int64_t, StepSums> steps;
    for (const Process& process : run.processes) {
        for (const StepProfile& profile : process.steps) {
            StepSums& sums = steps[profile.step];
            const auto length_ns = static_cast<double>(std::max<int64_t>(profile.length_ns(), 0));
            ++sums.ranks;
            sums.sum_ns += length_ns;
            sums.least_ns = std::min(sums.least_ns, length_ns);
            if (length_ns >= sums.most_ns) {
                sums.most_ns = length_ns;
                sums.slowest = process.rank;
            }
            for (const FixedPart& part : kFixedParts) {
                sums.parts_ns[part.name] += static_cast<double>(profile.*part.time);
            }
            for (uint32_t i = 0; i < profile.span_count && profile.first_span + i < process.step_spans.size(); ++i) {
                const SpanTime& span = process.step_spans[profile.first_span + i];
                sums.parts_ns["span " + printable(process.text(span.name))] += static_cast<double>(span.busy_ns);
            }
        }
    }
    return steps;
}

// The parts that take longest; all others are summed as one.
std::vector<std::string> parts_of(const std::map<int64_t, StepSums>& steps) {
    std::map<std::string, double> all;
    for (const auto& [step, sums] : steps) {
        for (const auto& [name, ns] : sums.parts_ns) {
            all[name] += ns;
        }
    }
    std::vector<std::string> names;
    for (const auto& [name, ns] : all) {
        if (ns > 0) {
            names.push_back(name);
        }
    }
    std::ranges::stable_sort(names, [&](const std::string& a, const std::string& b) { return all[a] > all[b]; });
    names.resize(std::min(names.size(), kMostSpans));
    return names;
}

// The axis that most ranks are measured on.
uint32_t axis_of(const Timing& timing) {
    std::map<uint32_t, size_t> ranks;
    for (const RankTiming& rank : timing.ranks) {
        ++ranks[rank.axis];
    }
    return std::ranges::max_element(ranks, [](const auto& a, const auto& b) { return a.second < b.second; })->first;
}

void add_point(Json& series, const StepMetric& metric) {
    series["steps"].push_back(metric.step);
    series["values"].push_back(metric.has_value && std::isfinite(metric.value) ? Json(metric.value) : Json(nullptr));
    series["lowest"].push_back(metric.lowest_rank < 0 ? Json(nullptr) : Json(metric.lowest));
    series["highest"].push_back(metric.highest_rank < 0 ? Json(nullptr) : Json(metric.highest));
}

}  // namespace

Json steps_section(const Run& run) {
    const std::map<int64_t, StepSums> steps = sums_of(run);
    if (steps.empty()) {
        return nothing_because(run.processes.empty()
                                   ? "only dumps, rings and journals show steps one by one; `titan-analyze timeline` "
                                     "draws those of logs"
                                   : "the program marks no steps (titan_step, titantrace.step), or none has ended");
    }
    const std::vector<std::string> names = parts_of(steps);
    Json json;
    for (const char* key : {"steps", "ranks", "mean_ns", "shortest_ns", "longest_ns", "slowest_rank"}) {
        json[key] = Json::array();
    }
    std::vector<Json> parts(names.size(), Json::array());
    Json others = Json::array();
    bool has_others = false;
    for (const auto& [step, sums] : steps) {
        const auto ranks = static_cast<double>(sums.ranks);
        json["steps"].push_back(step);
        json["ranks"].push_back(sums.ranks);
        json["mean_ns"].push_back(static_cast<int64_t>(whole(sums.sum_ns / ranks)));
        json["shortest_ns"].push_back(static_cast<int64_t>(whole(sums.least_ns)));
        json["longest_ns"].push_back(static_cast<int64_t>(whole(sums.most_ns)));
        json["slowest_rank"].push_back(sums.slowest);
        double others_ns = std::accumulate(sums.parts_ns.begin(), sums.parts_ns.end(), 0.0,
                                           [](double sum, const auto& part) { return sum + part.second; });
        for (size_t i = 0; i < names.size(); ++i) {
            const auto part = sums.parts_ns.find(names[i]);
            const double ns = part == sums.parts_ns.end() ? 0 : part->second;
            others_ns -= ns;
            parts[i].push_back(static_cast<int64_t>(whole(ns / ranks)));
        }
        has_others |= others_ns > 1;
        others.push_back(static_cast<int64_t>(whole(std::max(others_ns, 0.0) / ranks)));
    }
    json["parts"] = Json::array();
    for (size_t i = 0; i < names.size(); ++i) {
        json["parts"].push_back({{"name", names[i]}, {"mean_ns", std::move(parts[i])}});
    }
    if (has_others) {
        json["parts"].push_back({{"name", "others"}, {"mean_ns", std::move(others)}});
    }
    return json;
}

Json lateness_section(const Timing& timing, const SlowCauses& slow) {
    if (timing.ranks.empty()) {
        return nothing_because(
            "no communicator has enough calls that nearly all its members have a record of: nothing to compare");
    }
    const uint32_t chosen = axis_of(timing);
    const TimeAxis& axis = timing.axes[chosen];
    const size_t stride = std::max<size_t>((axis.keys.size() + kMostBins - 1) / kMostBins, 1);
    Json keys = Json::array();
    for (size_t i = 0; i < axis.keys.size(); i += stride) {
        keys.push_back(axis.keys[i]);
    }
    Json rows = Json::array();
    size_t others = 0;
    for (const RankTiming& rank : timing.ranks) {
        if (rank.axis != chosen) {
            ++others;
            continue;
        }
        std::vector<int64_t> late_us;  // the largest of each bin
        bool any = false;
        for (size_t i = 0; i < rank.costs.size(); i += stride) {
            const auto end = rank.costs.begin() + static_cast<std::ptrdiff_t>(std::min(i + stride, rank.costs.size()));
            const double most = *std::max_element(rank.costs.begin() + static_cast<std::ptrdiff_t>(i), end);
            late_us.push_back(static_cast<int64_t>(whole(most / 1000)));
            any |= late_us.back() != 0;
        }
        rows.push_back({{"rank", rank.rank},
                        {"late_us", any ? Json(late_us) : Json::array()},
                        {"cost_ns", static_cast<int64_t>(whole(cost_ns(slow, rank, axis)))},
                        {"share", share_of(slow, rank, axis)},
                        {"slow_part", rank.slow_part},
                        {"straggler", rank.shape.pattern != LatePattern::kNone}});
    }
    return {{"steps", axis.steps},        {"keys", std::move(keys)},
            {"keys_in_a_column", stride}, {"length_ns", static_cast<int64_t>(whole(step_length_ns(slow, axis)))},
            {"rows", std::move(rows)},    {"ranks_of_another_axis", others}};
}

Json metrics_section(const StepMetrics& metrics) {
    std::map<std::string, std::vector<const StepMetric*>> by_name;
    const std::vector<StepMetric> joined = metrics.joined();
    for (const StepMetric& metric : joined) {
        by_name[in_role(metric.role, metric.name)].push_back(&metric);
    }
    if (by_name.empty()) {
        return nothing_because("the program reports no metrics (titan_metric, titantrace.metric)");
    }
    Json list = Json::array();
    for (const auto& [name, points] : by_name) {
        if (list.items().size() == kMostMetrics) {
            break;
        }
        const size_t stride = (points.size() + kMostPoints - 1) / kMostPoints;
        Json series{{"name", printable(name)},
                    {"reduction", std::string(format::name_of(points.front()->reduction))},
                    {"every", stride}};
        std::set<int> not_finite;
        for (const char* key : {"steps", "values", "lowest", "highest"}) {
            series[key] = Json::array();
        }
        for (size_t i = 0; i < points.size(); ++i) {
            if ((points.size() - 1 - i) % stride == 0) {  // the newest is among them
                add_point(series, *points[i]);
            }
            not_finite.insert(points[i]->not_finite.begin(), points[i]->not_finite.end());
        }
        series["not_finite"] = rank_ranges({not_finite.begin(), not_finite.end()});
        series["never_reported"] = rank_ranges(metrics.never_reported(*points.front()));
        list.push_back(std::move(series));
    }
    const size_t more = by_name.size() - list.items().size();
    return {{"series", std::move(list)}, {"more_metrics", more}};
}

// --- Sections out of full records: durations, stacks; and the readings of the machine.

namespace {

constexpr size_t kMostDurations = 200;
constexpr size_t kMostFrames = 6'000;  // of a tree

Json first_rows(const Summary& summary, std::vector<const SummaryRow*> rows, const char* why_none) {
    std::erase_if(rows, [](const SummaryRow* row) { return row->kind == PartKind::kMetric; });
    if (rows.empty()) {
        return nothing_because(why_none);
    }
    const size_t more = rows.size() - std::min(rows.size(), kMostDurations);
    rows.resize(rows.size() - more);
    Json list = Json::array();
    for (const SummaryRow* row : rows) {
        Json json = summary_row_json(summary, *row);
        json["up_to_bytes"] = row->up_to_bytes;
        list.push_back(std::move(json));
    }
    return {{"rows", std::move(list)}, {"more_rows", more}};
}

// Frames that nobody leaves are one node.
Json tree_json(const StackNode& start, size_t& left) {
    const StackNode* node = &start;
    Json frames = Json::array();
    frames.push_back(node->text);
    while (node->children.size() == 1 && node->ending == 0) {
        node = &node->children.front();
        frames.push_back(node->text);
    }
    left -= std::min(left, frames.items().size());
    Json children = Json::array();
    for (const StackNode& child : node->children) {
        if (left > 0) {
            children.push_back(tree_json(child, left));
        }
    }
    return {{"frames", std::move(frames)},
            {"ranks", rank_ranges({start.ranks.begin(), start.ranks.end()})},
            {"threads", start.threads},
            {"children", std::move(children)}};
}

Json tree_section(const std::vector<ProcessStacks>& all, bool all_threads) {
    const StackNode root = merge_stacks(all, all_threads);
    size_t left = kMostFrames;
    Json list = Json::array();
    for (const StackNode& child : root.children) {
        if (left > 0) {
            list.push_back(tree_json(child, left));
        }
    }
    return {{"roots", std::move(list)}, {"cut", left == 0}};
}

struct Reading {
    double value;
    int rank;
};

}  // namespace

Json durations_section(const Summary& summary) {
    return first_rows(summary, summary.rows(), "no step, span or call is on record from begin to end");
}

Json sizes_section(const Summary& summary) {
    return first_rows(summary, summary.rows_by_size(), "no collective is on record with its size");
}

Json stacks_section(const std::vector<ProcessStacks>& all, const std::vector<std::string>& problems) {
    const bool any = std::ranges::any_of(all, [](const ProcessStacks& one) { return !one.threads.empty(); });
    std::map<std::string, std::vector<int>> ranks_of;
    for (const ProcessStacks& process : all) {
        for (const std::string& note : process.notes) {
            ranks_of[note].push_back(process.rank);
        }
    }
    Json notes = problems;
    for (const auto& [note, ranks] : ranks_of) {
        notes.push_back(ranks_text(ranks) + ": " + note);
    }
    if (!any) {
        Json json = nothing_because("no record has stacks");
        json["notes"] = std::move(notes);
        return json;
    }
    return {{"main_threads", tree_section(all, false)}, {"all_threads", tree_section(all, true)}, {"notes", notes}};
}

Json health_section(const Run& run) {
    std::map<std::pair<std::string, std::string>, std::vector<int>> faults;        // device and what: ranks
    std::map<std::pair<std::string, std::string>, std::vector<Reading>> readings;  // kind and what was read
    for (const Process& process : run.processes) {
        for (const Fault& fault : faults_of(process)) {
            faults[{fault.device.name() + " of " + process.host, fault.what}].push_back(process.rank);
        }
        for (const DeviceHealth& device : health_of(process)) {
            for (const auto& [what, reading] : device.readings) {
                readings[{device.kind, what}].push_back({plausible_reading(reading->value), process.rank});
            }
        }
    }
    if (readings.empty()) {
        return nothing_because("the machines were not read (TITANTRACE_HEALTH_S)");
    }
    Json fault_list = Json::array();
    for (auto& [key, ranks] : faults) {
        fault_list.push_back({{"device", key.first}, {"what", key.second}, {"ranks", rank_ranges(ranks)}});
    }
    Json list = Json::array();
    for (auto& [key, values] : readings) {
        std::ranges::stable_sort(values, [](const Reading& a, const Reading& b) { return a.value < b.value; });
        list.push_back({{"kind", key.first},
                        {"what", key.second},
                        {"readings", values.size()},
                        {"least", values.front().value},
                        {"least_rank", values.front().rank},
                        {"median", values[values.size() / 2].value},
                        {"most", values.back().value},
                        {"most_rank", values.back().rank}});
    }
    return {{"faults", std::move(fault_list)}, {"readings", std::move(list)}};
}

}  // namespace titan::analyzer
