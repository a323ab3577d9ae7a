#include "step_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "host/words.h"

namespace titan::analyzer {
namespace {

using format::MarkerKind;
using format::MetricReduction;

void set_bit(std::vector<bool>& bits, size_t place) {
    if (bits.size() <= place) {
        bits.resize(place + 1);
    }
    bits[place] = true;
}

bool has_bit(const std::vector<bool>& bits, size_t place) { return place < bits.size() && bits[place]; }

// A weight that is none counts nothing, as 0 does.
double weight_of(uint64_t bits) {
    const auto weight = std::bit_cast<double>(bits);
    return std::isfinite(weight) && weight > 0 ? weight : 0;
}

}  // namespace

StepMetrics::Sums* StepMetrics::sums_of(const Key& key) {
    if (kept_from_ && key.first < *kept_from_) {
        return nullptr;
    }
    Sums& sums = sums_[key];
    if (sums_.size() <= most_rows_) {
        return &sums;
    }
    const int64_t oldest_step = sums_.begin()->first.first;
    if (oldest_step == sums_.rbegin()->first.first) {
        return &sums;  // names without end in one step
    }
    kept_from_ = oldest_step + 1;
    sums_.erase(sums_.begin(), sums_.lower_bound({*kept_from_, {}}));
    return key.first == oldest_step ? nullptr : &sums;
}

void StepMetrics::take(Sums& sums, double value, double weight, int64_t at_ns) {
    ++sums.values;
    sums.weights += weight;
    sums.weighted += weight > 0 ? weight * value : 0;
    sums.sum += value;
    sums.squares += value * value;
    sums.least = std::isnan(value) || value < sums.least ? value : sums.least;
    sums.greatest = std::isnan(value) || value > sums.greatest ? value : sums.greatest;
    if (at_ns >= sums.last_ns) {
        sums.last = value;
        sums.last_ns = at_ns;
    }
}

void StepMetrics::add(const ProcessRecords& records, const StepRange& steps) {
    Rank rank{records.rank(), records.role(), -1, records.image().header().step};
    const size_t place = ranks_.size();
    int64_t first_step = INT64_MAX;
    const auto take_metric = [&](const MarkerRecord& record) {
        const format::MarkerEntry& raw = record.raw;
        const Name name(rank.role, record.of.text(raw.name));
        set_bit(ever_[name], place);
        if (steps && (raw.step < steps->first || raw.step > steps->second)) {
            return;
        }
        const auto value = std::bit_cast<double>(raw.value);
        const Key key(raw.step, name);
        Sums* const kept = sums_of(key);
        if (kept == nullptr) {
            return;
        }
        Sums& sums = *kept;
        if (raw.detail != 0) {
            sums.reduction = static_cast<MetricReduction>(raw.detail);
        }
        take(sums, value, weight_of(raw.extra), record.of.realtime_ns(raw.ticks));
        if (!has_bit(sums.reported, place)) {
            set_bit(sums.reported, place);
            sums.newest_of_others += sums.newest;
        }
        sums.newest = value;
        if (!std::isfinite(value)) {
            sums.not_finite.push_back(rank.rank);
            return;
        }
        if (sums.lowest_rank < 0 || value < sums.lowest) {
            sums.lowest = value;
            sums.lowest_rank = rank.rank;
        }
        if (sums.highest_rank < 0 || value > sums.highest) {
            sums.highest = value;
            sums.highest_rank = rank.rank;
        }
    };
    const auto take_marker = [&](const MarkerRecord& record) {
        if (record.raw.kind == MarkerKind::kStep) {
            const auto step = static_cast<int64_t>(record.raw.value);
            first_step = std::min(first_step, step);
            rank.newest_step = std::max(rank.newest_step, step);
        } else if (record.raw.kind == MarkerKind::kMetric) {
            take_metric(record);
        }
    };
    // Of overwritten markers the first step on record is the first whole one.
    const bool is_whole = records.each(RecordKind::kMarker, take_marker, steps).overwritten == 0;
    rank.from_step = is_whole ? -1 : first_step;
    ranks_.push_back(rank);
}

double StepMetrics::value_of(const Sums& sums) const {
    const auto count = static_cast<double>(sums.values);
    switch (sums.reduction) {
        case MetricReduction::kMean: return sums.weights > 0 ? sums.weighted / sums.weights : sums.sum / count;
        case MetricReduction::kSum: return sums.sum;
        case MetricReduction::kMin: return sums.least;
        case MetricReduction::kMax: return sums.greatest;
        case MetricReduction::kStd: {
            const double mean = sums.sum / count;
            return std::sqrt(std::max(sums.squares / count - mean * mean, 0.0));
        }
        case MetricReduction::kLast: return sums.last;
        default: break;
    }
    const auto ranks = static_cast<double>(std::count(sums.reported.begin(), sums.reported.end(), true));
    return (sums.newest_of_others + sums.newest) / ranks;
}

std::vector<StepMetric> StepMetrics::joined() const {
    std::vector<StepMetric> all;
    all.reserve(sums_.size());
    for (const auto& [key, sums] : sums_) {
        StepMetric metric;
        metric.step = key.first;
        std::tie(metric.role, metric.name) = key.second;
        metric.reduction = sums.reduction;
        metric.has_value = sums.reduction != MetricReduction::kNone;
        metric.value = metric.has_value ? value_of(sums) : 0;
        metric.newest_ns = sums.last_ns;
        metric.values = sums.values;
        metric.lowest = sums.lowest;
        metric.highest = sums.highest;
        metric.lowest_rank = sums.lowest_rank;
        metric.highest_rank = sums.highest_rank;
        metric.not_finite = sums.not_finite;
        sort_unique(metric.not_finite);
        for (size_t place = 0; place < ranks_.size(); ++place) {
            const Rank& rank = ranks_[place];
            if (rank.role != metric.role) {
                continue;
            }
            if (has_bit(sums.reported, place)) {
                ++metric.reported;
            } else if (metric.step < rank.from_step) {
                metric.not_on_record.push_back(rank.rank);
            } else if (metric.step <= rank.newest_step) {
                metric.missing.push_back(rank.rank);
            }
        }
        all.push_back(std::move(metric));
    }
    return all;
}

std::string StepMetrics::left_out() const {
    return kept_from_ ? fmt::format(
                            "metrics of steps before {} are left out, for more than {} are too many at once: "
                            "choose --steps",
                            *kept_from_, grouped_digits(most_rows_))
                      : std::string();
}

std::vector<int> StepMetrics::never_reported(const StepMetric& metric) const {
    const auto known = ever_.find({metric.role, metric.name});
    std::vector<int> ranks;
    for (size_t place = 0; known != ever_.end() && place < ranks_.size(); ++place) {
        if (ranks_[place].role == metric.role && !has_bit(known->second, place)) {
            ranks.push_back(ranks_[place].rank);
        }
    }
    return ranks;
}

}  // namespace titan::analyzer
