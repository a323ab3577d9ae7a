#include "side.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "config_differences.h"
#include "effect.h"
#include "late_ranks.h"
#include "layout.h"
#include "robust.h"
#include "step_metrics.h"

namespace titan::analyzer {
namespace {

std::string size_text(uint64_t bytes) {
    return bytes >= 1U << 30   ? fmt::format("{} GiB", bytes >> 30)
           : bytes >= 1U << 20 ? fmt::format("{} MiB", bytes >> 20)
           : bytes >= 1U << 10 ? fmt::format("{} KiB", bytes >> 10)
                               : fmt::format("{} bytes", bytes);
}

// Calls by their size, too, in powers of two.
PartKey key_of(const Part& part) {
    constexpr uint64_t kLargest = uint64_t{1} << 62;
    return {part.kind, !part.is_call()
                           ? part.full_name()
                           : fmt::format("{}, up to {}", part.full_name(),
                                         size_text(std::bit_ceil(std::min(part.bytes / part.calls, kLargest))))};
}

float float_of(double value) { return static_cast<float>(value); }

// The parts of one process, until its steps are known and cut them into slices.
class ProcessParts {
  public:
    void add(const Part& part, Side& side) {
        if (part.kind == PartKind::kMetric) {
            return;
        }
        PartKey key = key_of(part);
        if (!part.value) {
            side.untimed[key] += part.calls;
        } else if (part.kind == PartKind::kStep) {
            begins_ns_[key].push_back(part.begin_ns);
            newest_end_ns_ = std::max(newest_end_ns_, part.begin_ns + static_cast<int64_t>(*part.value));
        }
        values_[std::move(key)].push_back({part.begin_ns, part.value, part.calls, part.timed_calls});
    }

    // Answers how many steps there are.
    uint64_t cut_into(Side& side, int rank) {
        if (begins_ns_.empty()) {
            return 0;
        }
        std::vector<int64_t>& begins_ns = begins_ns_.begin()->second;  // marked steps, or one period
        std::ranges::sort(begins_ns);
        const size_t slices = slices_of(begins_ns.size());
        for (auto& [key, values] : values_) {
            if (slices == 0) {
                break;
            }
            if (!side.rows.contains(key) && side.rows.size() >= kMostNames) {
                side.names_left_out += values.size();
                continue;
            }
            SideRow& row = side.rows[key];
            row.summed |= std::ranges::any_of(values, [](const Value& value) { return value.calls > 1; });
            row.of_rank[rank] = slices_from(values, begins_ns, slices);
        }
        return begins_ns.size();
    }

  private:
    struct Value {
        int64_t begin_ns;
        std::optional<double> value;
        uint64_t calls;  // that it is the mean of, as the next
        uint64_t timed_calls;
    };

    RankSlices slices_from(const std::vector<Value>& values, const std::vector<int64_t>& begins_ns,
                           size_t slices) const {
        std::vector<std::vector<double>> cut(slices);
        std::vector<double> sums(slices), counts(slices);
        RankSlices result;
        for (const Value& one : values) {
            const auto step = std::ranges::upper_bound(begins_ns, one.begin_ns) - begins_ns.begin();
            if (step == 0 || one.begin_ns >= newest_end_ns_) {
                continue;  // before the first step, or in one that is not over
            }
            if (one.value) {
                const size_t slice = static_cast<size_t>(step - 1) * slices / begins_ns.size();
                cut[slice].push_back(*one.value);
                sums[slice] += *one.value * static_cast<double>(one.timed_calls);
                counts[slice] += static_cast<double>(one.timed_calls);
            }
            result.times += one.calls;
        }
        for (size_t i = 0; i < slices; ++i) {
            const double nan = std::numeric_limits<double>::quiet_NaN();
            result.typical.push_back(float_of(cut[i].empty() ? nan : median_of(cut[i])));
            result.mean.push_back(float_of(cut[i].empty() ? nan : sums[i] / counts[i]));
        }
        return result;
    }

    std::map<PartKey, std::vector<Value>> values_;
    std::map<PartKey, std::vector<int64_t>> begins_ns_;
    int64_t newest_end_ns_ = std::numeric_limits<int64_t>::min();
};

std::vector<std::string> places_of(const Run& run, int rank) {
    std::vector<std::string> places;
    const RankPlace* place = run.layout == nullptr ? nullptr : run.layout->place_of(rank);
    for (size_t i = 0; place != nullptr && i < run.layout->dimensions().size(); ++i) {
        const Role role = run.layout->dimensions()[i].role;
        if (place->in(role) >= 0) {
            places.push_back(fmt::format("{} {}", row_of(role).place, place->in(role)));
        }
    }
    return places;
}

// The value that most processes give each name.
class Majority {
  public:
    void add(const std::string& name, const std::string& value) { ++counts_[name][value]; }

    std::map<std::string, std::string> values() const {
        std::map<std::string, std::string> values;
        for (const auto& [name, counts] : counts_) {
            values[name] = std::ranges::max_element(counts, [](const auto& a, const auto& b) {
                               return a.second < b.second;
                           })->first;
        }
        return values;
    }

  private:
    std::map<std::string, std::map<std::string, size_t>> counts_;
};

// The first steps on record may be left out: as many as of each rank.
bool is_wanted(int64_t step, int64_t first_step, const WantedSteps& wanted) {
    return step >= 0 && step >= first_step + static_cast<int64_t>(wanted.skip) && wanted.in_range(step);
}

void add_metrics(const StepMetrics& metrics, const WantedSteps& wanted, Side& side) {
    const std::vector<StepMetric> joined = metrics.joined();
    int64_t first_step = std::numeric_limits<int64_t>::max();
    for (const StepMetric& metric : joined) {
        first_step = metric.step < 0 ? first_step : std::min(first_step, metric.step);
    }
    for (const StepMetric& metric : joined) {
        if (!metric.has_value || !is_wanted(metric.step, first_step, wanted)) {
            continue;
        }
        SideMetric& of = side.metrics[in_role(metric.role, metric.name)];
        if (std::isfinite(metric.value)) {
            of.values.emplace_back(metric.step, metric.value);
        } else {
            ++of.not_finite;
        }
    }
}

// What the job waited for late ranks, step by step, and whose lateness is no chance.
void add_lateness(const Run& run, const WantedSteps& wanted, Side& side) {
    const Timing timing = slowness_of(run).timing;
    if (timing.axes.empty() || !timing.axes.front().steps || timing.axes.front().keys.empty()) {
        return;
    }
    const std::vector<int64_t>& keys = timing.axes.front().keys;
    std::vector<double> waited_ns(keys.size());
    bool any = false;
    for (const RankTiming& rank : timing.ranks) {
        if (rank.axis != 0 || (!side.ranks.empty() && !side.ranks.contains(rank.rank))) {
            continue;
        }
        any = true;
        for (size_t i = 0; i < std::min(keys.size(), rank.costs.size()); ++i) {
            waited_ns[i] += rank.costs[i];
        }
        if (rank.shape.pattern != LatePattern::kNone) {
            side.late_ranks.push_back(rank.rank);
        }
    }
    for (size_t i = 0; any && i < keys.size(); ++i) {
        if (is_wanted(keys[i], keys.front(), wanted)) {
            side.lateness.emplace_back(keys[i], waited_ns[i]);
        }
    }
}

}  // namespace

Side side_of(const Run& run, const WantedSteps& wanted, const std::set<int>& ranks, const ReadProgress& progress) {
    Side side;
    side.run = run.id;
    side.attempt = run.attempt;
    side.world_size = run.world_size;
    side.steps = wanted.range;
    side.missing_ranks = run.missing_ranks;
    Symbols symbols(Symbols::Search::kNearby);
    RecordReader reader(run, symbols);
    Majority labels;
    StepMetrics metrics;
    WantedSteps with_sums = wanted;
    with_sums.with_sums = true;
    const auto add = [&](const ProcessRecords& records) {
        ProcessParts parts;
        side.overwritten_markers +=
            visit_parts(run, records, with_sums, [&](const Part& part) { parts.add(part, side); });
        SideRank& rank = side.ranks[records.rank()];
        side.roles.insert(records.role());
        rank.host = records.process().host;
        rank.places = places_of(run, records.rank());
        rank.steps = parts.cut_into(side, records.rank());
        if (slices_of(rank.steps) == 0) {
            side.short_ranks.push_back(records.rank());
        }
        records.each(RecordKind::kLabel,
                     [&labels](const LabelRecord& record) { labels.add(record.name, record.text); });
        if (records.process().source.is_flight_recorder) {
            side.has_flight_recorder_files = true;
        } else {
            metrics.add(records, wanted.skip == 0 ? wanted.range : std::nullopt);
        }
    };
    reader.visit_all(ranks, add, progress);
    side.problems = reader.problems();
    if (!metrics.left_out().empty()) {
        side.problems.push_back(metrics.left_out());
    }
    side.labels = labels.values();
    for (const ConfigRow& row : config_rows(run, ranks)) {
        side.settings.try_emplace(row.name, row.value);  // the most frequent value comes first
    }
    side.has_variables = run.processes.empty() || !run.processes.front().source.is_journal;
    add_metrics(metrics, wanted, side);
    add_lateness(run, wanted, side);
    return side;
}

}  // namespace titan::analyzer
