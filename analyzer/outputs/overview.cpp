#include "overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "host/mapped.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostDrawn = 16;   // that are drawn
constexpr size_t kMostKept = 1000;  // names of a group: programs may make names up as they go

// Damaged records claim any moment.
int64_t length_ns(double ns, int64_t begin_ns) {
    constexpr int64_t kLatestNs = INT64_MAX / 2;
    return begin_ns > kLatestNs ? 0 : static_cast<int64_t>(std::min(ns, 4e18));
}

}  // namespace

void Overview::Group::add(const Group& other) {
    begin_ns = std::min(begin_ns, other.begin_ns);
    end_ns = std::max(end_ns, other.end_ns);
    last_step = std::max(last_step, other.last_step);
    steps += other.steps;
    sum_ns += other.sum_ns;
    longest_ns = std::max(longest_ns, other.longest_ns);
    for (const auto& [name, ns] : other.parts_ns) {
        parts_ns[name] += ns;
    }
    for (const auto& [name, values] : other.metrics) {
        metrics[name].sum += values.sum;
        metrics[name].count += values.count;
    }
}

// Two groups become one.
void Overview::make_room() {
    std::map<int64_t, Group> larger;
    for (const auto& [number, group] : groups_) {
        larger[number / 2].add(group);
    }
    steps_of_group_ *= 2;
    groups_ = std::move(larger);
}

void Overview::add(const Part& part) {
    if (part.step < 0 || !part.value || !std::isfinite(*part.value)) {
        return;
    }
    Group& group = groups_[part.step / steps_of_group_];
    group.last_step = std::max(group.last_step, part.step);
    switch (part.kind) {
        case PartKind::kStep:
            group.begin_ns = std::min(group.begin_ns, part.begin_ns);
            group.end_ns = std::max(group.end_ns, part.begin_ns + length_ns(*part.value, part.begin_ns));
            ++group.steps;
            group.sum_ns += *part.value;
            group.longest_ns = std::max(group.longest_ns, *part.value);
            break;
        case PartKind::kSpan:
            if (part.in_steps && group.parts_ns.size() < kMostKept) {
                group.parts_ns[part.name] += *part.value;
            }
            break;
        case PartKind::kGpuCall:
        case PartKind::kHostCall:
            group.parts_ns[part.kind == PartKind::kGpuCall ? "NCCL on the GPU" : "NCCL on the host"] +=
                *part.value * static_cast<double>(part.timed_calls);
            break;
        case PartKind::kMetric:
            if (group.metrics.size() < kMostKept) {
                Group::Values& values = group.metrics[part.name];
                values.sum += *part.value;
                ++values.count;
            }
            break;
    }
    if (groups_.size() > most_groups_) {
        make_room();
    }
}

void Overview::collect(const Run& run, const ProcessRecords& records) {
    WantedSteps all;
    all.with_sums = true;
    visit_parts(run, records, all, [this](const Part& part) { add(part); });
    // Calls and metrics of a step whose begin or end is not on record.
    std::erase_if(groups_, [](const auto& group) { return group.second.steps == 0; });
}

std::vector<std::string> Overview::longest_parts() const {
    std::map<std::string, double> together;
    for (const auto& [number, group] : groups_) {
        for (const auto& [name, ns] : group.parts_ns) {
            together[name] += ns;
        }
    }
    std::vector<std::pair<double, std::string>> sorted =
        mapped(together, [&](const auto& one) { return std::pair<double, std::string>(-one.second, one.first); });
    std::ranges::sort(sorted);
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(sorted.size(), kMostDrawn); ++i) {
        names.push_back(sorted[i].second);
    }
    return names;
}

TimelineCounts Overview::write(PerfettoFormat& format, uint64_t process, uint64_t& next_track) const {
    TimelineCounts counts;
    int32_t order = -1000;  // above the tracks in full
    const std::vector<std::string> parts = longest_parts();
    const std::string title =
        steps_of_group_ == 1 ? "overview: steps" : fmt::format("overview: {} steps at a time", steps_of_group_);
    TraceTrack track{next_track++, process, title, order++, false};
    format.track(track);
    for (const auto& [number, group] : groups_) {
        const int64_t first = number * steps_of_group_;
        const std::string name = group.steps == 1 ? fmt::format("step {}", group.last_step)
                                                  : fmt::format("steps {}-{}", first, group.last_step);
        const auto steps = static_cast<double>(group.steps);
        TraceDetails details{name, {}, 0};
        details.arguments.push_back({"steps", static_cast<int64_t>(group.steps)});
        details.arguments.push_back({"mean, ms", group.sum_ns / steps * 1e-6});
        details.arguments.push_back({"longest, ms", group.longest_ns * 1e-6});
        std::string encoded;
        format.encode(details, encoded);
        const auto next = groups_.upper_bound(number);
        const int64_t begin_ns = common_ns_(group.begin_ns);
        const int64_t end_ns = common_ns_(group.end_ns);
        format.begin(track, begin_ns, encoded);
        format.end(
            track,
            std::max(begin_ns, next == groups_.end() ? end_ns : std::min(end_ns, common_ns_(next->second.begin_ns))));
        ++counts.slices;
    }
    const auto draw = [&](const std::string& of, const std::function<std::optional<double>(const Group&)>& value_of) {
        TraceTrack values{next_track++, process, of, order++, true};
        format.track(values);
        for (const auto& [number, group] : groups_) {
            if (const std::optional<double> value = value_of(group)) {
                format.value(values, common_ns_(group.begin_ns), *value);
                ++counts.values;
            }
        }
    };
    const auto ms_of_step = [](double ns, const Group& group) { return ns * 1e-6 / static_cast<double>(group.steps); };
    draw("overview: step, ms", [&](const Group& group) { return ms_of_step(group.sum_ns, group); });
    for (const std::string& name : parts) {
        draw("overview: " + name + ", ms a step", [&](const Group& group) {
            const auto known = group.parts_ns.find(name);
            return ms_of_step(known == group.parts_ns.end() ? 0 : known->second, group);
        });
    }
    std::map<std::string, uint64_t> metrics;
    for (const auto& [number, group] : groups_) {
        for (const auto& [name, values] : group.metrics) {
            metrics[name] += values.count;
        }
    }
    size_t drawn = 0;
    for (const auto& [name, count] : metrics) {
        if (drawn++ == kMostDrawn) {
            break;
        }
        draw("overview: " + name, [&name = name](const Group& group) -> std::optional<double> {
            const auto known = group.metrics.find(name);
            return known == group.metrics.end()
                       ? std::nullopt
                       : std::optional(known->second.sum / static_cast<double>(known->second.count));
        });
    }
    return counts;
}

}  // namespace titan::analyzer
