#include "comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "host/mapped.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

// Smaller changes matter to nobody.
constexpr double kLeastRatio = 0.01;
constexpr double kLeastOfStep = 0.005;
constexpr size_t kMostGroupedParts = 20;

using Slices = std::vector<float> RankSlices::*;
using IsWanted = std::function<bool(int rank)>;

// Means over ranks, slice by slice; slices that no rank has a value in are left out.
std::vector<double> over_ranks(const SideRow& row, Slices member, size_t slices, const IsWanted& is_wanted) {
    std::vector<double> sums(slices);
    std::vector<size_t> counts(slices);
    for (const auto& [rank, of_rank] : row.of_rank) {
        const std::vector<float>& own = of_rank.*member;
        if (!is_wanted(rank) || own.size() < slices) {
            continue;
        }
        const std::vector<double> cut = in_slices({own.begin(), own.end()}, slices);
        for (size_t i = 0; i < slices; ++i) {
            if (!std::isnan(cut[i])) {
                sums[i] += cut[i];
                ++counts[i];
            }
        }
    }
    std::vector<double> means;
    for (size_t i = 0; i < slices; ++i) {
        if (counts[i] != 0) {
            means.push_back(sums[i] / static_cast<double>(counts[i]));
        }
    }
    return means;
}

// As many as every rank has.
size_t common_slices(const SideRow& row, const IsWanted& is_wanted) {
    size_t least = SIZE_MAX;
    for (const auto& [rank, of_rank] : row.of_rank) {
        least = is_wanted(rank) ? std::min(least, of_rank.typical.size()) : least;
    }
    return least == SIZE_MAX ? 0 : least;
}

bool all_above_zero(const std::vector<double>& values) {
    return std::ranges::all_of(values, [](double value) { return value > 0; });
}

double per_step(const Side& side, const SideRow& row, const IsWanted& is_wanted) {
    uint64_t times = 0, steps = 0;
    for (const auto& [rank, of_rank] : row.of_rank) {
        const auto known = side.ranks.find(rank);
        if (is_wanted(rank) && known != side.ranks.end()) {
            times += of_rank.times;
            steps += known->second.steps;
        }
    }
    return steps == 0 ? 0 : static_cast<double>(times) / static_cast<double>(steps);
}

// A value of each slice of a series, by its order.
std::vector<double> cut(const std::vector<double>& values) {
    const size_t slices = slices_of(values.size());
    std::vector<double> sums(slices), counts(slices);
    for (size_t i = 0; slices != 0 && i < values.size(); ++i) {
        const size_t slice = i * slices / values.size();
        sums[slice] += values[i];
        counts[slice] += 1;
    }
    for (size_t i = 0; i < slices; ++i) {
        sums[i] /= counts[i];
    }
    return sums;
}

std::vector<double> values_of(const StepSeries& series) {
    return mapped(series, [](const auto& one) { return one.second; });
}

class Comparer {
  public:
    Comparer(const Side& before, const Side& after) : before_(before), after_(after) {
        if (before.world_size == after.world_size) {
            for (const auto& [rank, known] : before.ranks) {
                if (after.ranks.contains(rank)) {
                    result_.ranks.push_back(rank);
                }
            }
        }
    }

    Comparison compare() {
        compare_steps();
        compare_parts();
        compare_lateness();
        compare_metrics();
        adjust(result_.rows);
        sort(result_.rows);
        compare_groups();
        compare_late_ranks();
        note_differences();
        return std::move(result_);
    }

  private:
    bool is_compared(int rank) const {
        return result_.ranks.empty() || std::ranges::binary_search(result_.ranks, rank);
    }

    // What it adds to a step of a rank.
    static double adds_ns(const ComparedRow& row) {
        const double often = row.compared == Compared::kPart     ? std::max(row.per_step_before, row.per_step_after)
                             : row.compared == Compared::kMetric ? 0
                                                                 : 1;
        return std::abs(row.after - row.before) * often;
    }

    double share_of_step(double added_ns) const {
        return result_.steps.empty() || result_.steps.front().before <= 0 ? 1 : added_ns / result_.steps.front().before;
    }

    // Nothing where one side has no values of these ranks.
    std::optional<ComparedRow> row_of(Compared compared, const PartKey& key, Slices member, const IsWanted& of_before,
                                      const IsWanted& of_after) const {
        const auto a = before_.rows.find(key), b = after_.rows.find(key);
        if (a == before_.rows.end() || b == after_.rows.end()) {
            return std::nullopt;
        }
        const std::vector<double> own = over_ranks(a->second, member, common_slices(a->second, of_before), of_before);
        const std::vector<double> other = over_ranks(b->second, member, common_slices(b->second, of_after), of_after);
        if (own.empty() || other.empty()) {
            return std::nullopt;
        }
        ComparedRow row;
        row.compared = compared;
        row.kind = key.first;
        row.name = key.second;
        row.before = mean_of(own);
        row.after = mean_of(other);
        row.per_step_before = per_step(before_, a->second, of_before);
        row.per_step_after = per_step(after_, b->second, of_after);
        row.of_step = compared == Compared::kPart ? share_of_step(adds_ns(row)) : 1;
        row.scale = all_above_zero(own) && all_above_zero(other) ? Scale::kRatio : Scale::kDifference;
        row.effect = effect_of(own, other, row.scale);
        return row;
    }

    // If there are several periods, as for pipeline stages, the one that most ranks have.
    void compare_steps() {
        const PartKey* most = nullptr;
        size_t ranks = 0;
        for (const auto& [key, row] : before_.rows) {
            if (key.first == PartKind::kStep && after_.rows.contains(key) && row.of_rank.size() > ranks) {
                most = &key;
                ranks = row.of_rank.size();
            }
        }
        if (most == nullptr) {
            return;
        }
        const IsWanted all = [this](int rank) { return is_compared(rank); };
        for (const auto& [compared, member] : {std::pair(Compared::kTypicalStep, &RankSlices::typical),
                                               std::pair(Compared::kMeanStep, &RankSlices::mean)}) {
            if (auto row = row_of(compared, *most, member, all, all)) {
                result_.steps.push_back(std::move(*row));
            }
        }
        adjust(result_.steps);
    }

    // The means of calls that either side has as sums: sums and single calls have them alike.
    Slices typical_of(const PartKey& key) const {
        const auto is_summed = [&key](const Side& side) {
            const auto row = side.rows.find(key);
            return row != side.rows.end() && row->second.summed;
        };
        return is_summed(before_) || is_summed(after_) ? &RankSlices::mean : &RankSlices::typical;
    }

    void compare_parts() {
        const IsWanted all = [this](int rank) { return is_compared(rank); };
        for (const auto& [key, row] : before_.rows) {
            if (key.first == PartKind::kStep) {
                continue;
            }
            if (auto compared = row_of(Compared::kPart, key, typical_of(key), all, all)) {
                result_.rows.push_back(std::move(*compared));
            } else if (!has_part(after_, key)) {
                add_once(key.second, result_.only_before);
            }
        }
        for (const auto& [key, row] : after_.rows) {
            if (key.first != PartKind::kStep && !has_part(before_, key)) {
                add_once(key.second, result_.only_after);
            }
        }
    }

    // A call has a row for its host and one for its GPU, where the GPU was looked at.
    static bool has_part(const Side& side, const PartKey& key) {
        const bool is_call = key.first == PartKind::kGpuCall || key.first == PartKind::kHostCall;
        return side.rows.contains(key) || (is_call && (side.rows.contains({PartKind::kGpuCall, key.second}) ||
                                                       side.rows.contains({PartKind::kHostCall, key.second})));
    }

    static void add_once(const std::string& name, std::vector<std::string>& names) {
        if (std::ranges::find(names, name) == names.end()) {
            names.push_back(name);
        }
    }

    void compare_lateness() {
        if (before_.lateness.empty() || after_.lateness.empty()) {
            return;
        }
        ComparedRow row;
        row.compared = Compared::kLateness;
        row.name = "waiting for late ranks";
        row.scale = Scale::kDifference;
        const std::vector<double> own = values_of(before_.lateness), other = values_of(after_.lateness);
        row.before = mean_of(own);
        row.after = mean_of(other);
        row.of_step = share_of_step(adds_ns(row));
        row.effect = effect_of(cut(own), cut(other), row.scale);
        result_.rows.push_back(std::move(row));
    }

    // Metrics follow their training: step by step where both sides have the same steps.
    void compare_metrics() {
        for (const auto& [name, metric] : before_.metrics) {
            const auto other = after_.metrics.find(name);
            if (other == after_.metrics.end()) {
                result_.only_before.push_back(name);
                continue;
            }
            ComparedRow row;
            row.compared = Compared::kMetric;
            row.name = name;
            row.scale = Scale::kDifference;
            std::vector<double> own = values_of(metric.values), others = values_of(other->second.values);
            std::vector<double> paired_own, paired_other;
            pair(metric.values, other->second.values, paired_own, paired_other);
            row.paired = slices_of(paired_own.size()) != 0;
            if (row.paired) {
                std::vector<double> changes(paired_own.size());
                std::transform(paired_own.begin(), paired_own.end(), paired_other.begin(), changes.begin(),
                               [](double a, double b) { return b - a; });
                const std::vector<double> slices = cut(changes);
                row.effect = effect_of(std::vector<double>(slices.size()), slices, row.scale);
                own = std::move(paired_own);
                others = std::move(paired_other);
            } else {
                row.effect = effect_of(cut(own), cut(others), row.scale);
            }
            if (own.empty() || others.empty()) {
                continue;
            }
            row.before = mean_of(own);
            row.after = mean_of(others);
            result_.rows.push_back(std::move(row));
        }
        for (const auto& [name, metric] : after_.metrics) {
            if (!before_.metrics.contains(name)) {
                result_.only_after.push_back(name);
            }
        }
    }

    static void pair(const StepSeries& a, const StepSeries& b, std::vector<double>& of_a, std::vector<double>& of_b) {
        auto other = b.begin();
        for (const auto& [step, value] : a) {
            other = std::lower_bound(other, b.end(), step,
                                     [](const auto& one, int64_t wanted) { return one.first < wanted; });
            if (other != b.end() && other->first == step) {
                of_a.push_back(value);
                of_b.push_back(other->second);
            }
        }
    }

    // What takes most of a step, by hosts and places that both sides have.
    void compare_groups() {
        std::vector<const ComparedRow*> parts;
        for (const ComparedRow& row : result_.rows) {
            if (row.compared == Compared::kPart && parts.size() < kMostGroupedParts) {
                parts.push_back(&row);
            }
        }
        std::map<std::string, std::set<int>> own = groups_of(before_), other = groups_of(after_);
        for (const auto& group : own) {
            const std::set<int>& others = other[group.first];
            for (const ComparedRow* part : parts) {
                const PartKey key{part->kind, part->name};
                auto row = row_of(
                    Compared::kPart, key, typical_of(key),
                    [&](int rank) { return is_compared(rank) && group.second.contains(rank); },
                    [&](int rank) { return is_compared(rank) && others.contains(rank); });
                if (row) {
                    row->where = group.first;
                    result_.groups.push_back(std::move(*row));
                }
            }
        }
        adjust(result_.groups);
        // As the whole does: that row says it.
        std::erase_if(result_.groups, [&](const ComparedRow& group) {
            const auto whole = std::ranges::find_if(result_.rows, [&](const ComparedRow& row) {
                return row.compared == Compared::kPart && row.kind == group.kind && row.name == group.name;
            });
            const bool as_all = whole->effect && group.effect && whole->scale == group.scale && whole->differs() &&
                                whole->effect->change >= group.effect->low &&
                                whole->effect->change <= group.effect->high;
            return !group.differs() || as_all;
        });
        sort(result_.groups);
    }

    // Hosts and places in the job's grid that are not all of it.
    static std::map<std::string, std::set<int>> groups_of(const Side& side) {
        std::map<std::string, std::set<int>> groups;
        for (const auto& [rank, known] : side.ranks) {
            if (!known.host.empty()) {
                groups["host " + known.host].insert(rank);
            }
            for (const std::string& place : known.places) {
                groups[place].insert(rank);
            }
        }
        std::erase_if(groups, [&](const auto& group) { return group.second.size() == side.ranks.size(); });
        return groups;
    }

    static void adjust(std::vector<ComparedRow>& rows) {
        std::vector<double> chances =
            mapped(rows, [](const ComparedRow& row) { return row.effect ? row.effect->chance : 1; });
        const std::vector<double> adjusted = holm_corrected(chances);
        for (size_t i = 0; i < rows.size(); ++i) {
            rows[i].chance_of_many = adjusted[i];
        }
    }

    static void sort(std::vector<ComparedRow>& rows) {
        std::ranges::stable_sort(rows, [&](const ComparedRow& a, const ComparedRow& b) {
            return a.differs() != b.differs() ? a.differs() : adds_ns(a) > adds_ns(b);
        });
    }

    void compare_late_ranks() {
        if (before_.lateness.empty() || after_.lateness.empty()) {
            return;
        }
        const auto only = [](const std::vector<int>& of, const std::vector<int>& others) {
            std::vector<int> ranks;
            std::ranges::copy_if(of, std::back_inserter(ranks),
                                 [&](int rank) { return std::ranges::find(others, rank) == others.end(); });
            return ranks;
        };
        result_.newly_late = only(after_.late_ranks, before_.late_ranks);
        result_.no_longer_late = only(before_.late_ranks, after_.late_ranks);
    }

    void note(std::string text) { result_.notes.push_back(std::move(text)); }

    void note_differences() {
        const auto label = [](const Side& side, const char* name) {
            const auto known = side.labels.find(name);
            return known == side.labels.end() ? std::string() : known->second;
        };
        const std::string tag = label(before_, "perf_tag"), other_tag = label(after_, "perf_tag");
        result_.same_work = tag.empty() || other_tag.empty() || tag == other_tag;
        if (!result_.same_work) {
            note(
                fmt::format("perf_tag is \"{}\" in A and \"{}\" in B: by their program these are different kinds of "
                            "runs",
                            tag, other_tag));
        }
        if (before_.settings.empty() != after_.settings.empty()) {
            note(fmt::format("settings and versions are not compared: the records of {} do not have them",
                             before_.settings.empty() ? "A" : "B"));
        }
        if ((before_.world_size <= 0) != (after_.world_size <= 0)) {
            note(fmt::format("the number of ranks of {} is not on record", before_.world_size <= 0 ? "A" : "B"));
        } else if (before_.world_size != after_.world_size) {
            note(fmt::format("A has {} and B {}: ranks do other shares of the work",
                             many_counted(static_cast<uint64_t>(std::max(before_.world_size, 0)), "rank"),
                             std::max(after_.world_size, 0)));
        } else if (result_.ranks.empty()) {
            note("no rank is on record in both: all that either has are compared");
        } else if (before_.ranks.size() != result_.ranks.size() || after_.ranks.size() != result_.ranks.size()) {
            note(fmt::format("compared: {}, which both have on record", ranks_text(result_.ranks)));
        }
        note_gaps();
        if (result_.steps.empty()) {
            note_why_no_steps();
        }
        note_calls_per_step();
    }

    // What a side lacks.
    static std::vector<std::string> gaps_of(const Side& side) {
        std::vector<std::string> gaps;
        if (!side.missing_ranks.empty()) {
            gaps.push_back("no record of " + ranks_text(side.missing_ranks));
        }
        if (!side.short_ranks.empty()) {
            gaps.push_back(fmt::format("{} {} fewer than {} steps on record, too few to measure noise",
                                       ranks_text(side.short_ranks), verb_form(side.short_ranks.size(), "has", "have"),
                                       kLeastSteps));
        }
        uint64_t untimed = 0;
        for (const auto& [key, calls] : side.untimed) {
            untimed += calls;
        }
        if (untimed != 0) {
            gaps.push_back(fmt::format(
                "how long {} took is not known ({} shows it)", many_counted(untimed, "call"),
                side.has_flight_recorder_files ? "TORCH_NCCL_ENABLE_TIMING=1" : "TITANTRACE_GPU_PROGRESS=timing"));
        }
        if (side.has_flight_recorder_files) {
            gaps.emplace_back("Flight Recorder files hold only calls: their period counts as a step");
        }
        if (std::ranges::any_of(side.rows, [](const auto& row) { return row.second.summed; })) {
            gaps.emplace_back("calls are on record as sums of their step: their means are compared, not their medians");
        }
        if (side.lateness.empty()) {
            gaps.emplace_back("its records do not show who is late in each step");
        }
        for (const auto& [metric, of] : side.metrics) {
            if (of.not_finite != 0) {
                gaps.push_back(fmt::format("{} is NaN or infinite in {}", metric, many_counted(of.not_finite, "step")));
            }
        }
        if (side.names_left_out != 0) {
            gaps.push_back(fmt::format("{} of names beyond the first {} left out",
                                       many_counted(side.names_left_out, "value"), grouped_digits(kMostNames)));
        }
        return gaps;
    }

    void note_gaps() {
        const std::vector<std::string> own = gaps_of(before_), others = gaps_of(after_);
        const auto has = [](const std::vector<std::string>& gaps, const std::string& gap) {
            return std::ranges::find(gaps, gap) != gaps.end();
        };
        for (const std::string& gap : own) {
            note((has(others, gap) ? "A and B: " : "A: ") + gap);
        }
        for (const std::string& gap : others) {
            if (!has(own, gap)) {
                note("B: " + gap);
            }
        }
    }

    void note_why_no_steps() {
        const auto names = [](const Side& side) {
            std::string text;
            for (const auto& [key, row] : side.rows) {
                if (key.first == PartKind::kStep) {
                    text += (text.empty() ? "" : ", ") + key.second;
                }
            }
            return !text.empty() ? text : side.short_ranks.empty() ? "no steps" : "too few steps";
        };
        note(fmt::format("step time cannot be compared: A has {}, B has {}", names(before_), names(after_)));
    }

    // Whether the GPU or only the host was looked at is the budget's choice (TITANTRACE_BUDGET): both count together.
    static std::map<std::string, double> often_of(const Side& side, const IsWanted& is_wanted) {
        std::map<std::string, double> often;
        for (const auto& [key, row] : side.rows) {
            often[key.second] += key.first == PartKind::kStep ? 0 : per_step(side, row, is_wanted);
        }
        return often;
    }

    void note_calls_per_step() {
        constexpr double kAlike = 0.01;
        const IsWanted all = [this](int rank) { return is_compared(rank); };
        std::map<std::string, double> before = often_of(before_, all), after = often_of(after_, all);
        std::set<std::string> seen;
        std::string text;
        for (const ComparedRow& row : result_.rows) {
            if (row.compared != Compared::kPart || !seen.insert(row.name).second) {
                continue;
            }
            const double a = before[row.name], b = after[row.name];
            if (std::abs(a - b) > kAlike * std::max(a, b)) {
                text += fmt::format("{}{} ({:.3g} -> {:.3g})", text.empty() ? "" : "; ", row.name, a, b);
            }
        }
        if (!text.empty()) {
            note("how often in a step differs: " + text);
        }
    }

    const Side& before_;
    const Side& after_;
    Comparison result_;
};

}  // namespace

bool ComparedRow::differs() const {
    const bool is_large = scale == Scale::kRatio ? effect && std::abs(effect->change) >= kLeastRatio
                                                 : std::abs(after - before) >= kLeastRatio * std::abs(before);
    return effect && chance_of_many < kChance && is_large && of_step >= kLeastOfStep;
}

bool Comparison::differs() const {
    const auto any = [](const std::vector<ComparedRow>& of) {
        return std::ranges::any_of(of, [](const ComparedRow& row) { return row.differs(); });
    };
    return any(steps) || any(rows) || !groups.empty();
}

Comparison compare(const Side& before, const Side& after) { return Comparer(before, after).compare(); }

Gate gate_of(const Comparison& comparison, double slower) {
    if (comparison.steps.empty() || !comparison.same_work) {
        return Gate::kCannotTell;
    }
    bool seen = false;
    for (const ComparedRow& row : comparison.steps) {
        if (!row.effect) {
            continue;
        }
        if (row.effect->change >= slower && row.effect->change > 0 && row.chance_of_many < kChance) {
            return Gate::kSlower;
        }
        seen |= row.compared == Compared::kTypicalStep && row.effect->high < slower;
    }
    return seen ? Gate::kPassed : Gate::kCannotTell;
}

}  // namespace titan::analyzer
