// How two series of steps differ, and how far noise alone would make them differ. Pure.
//
// Steps resemble those before them, so they are no independent values. A series is cut into slices of consecutive steps
// (slice_of), and the slices are compared by Welch's t test. Where slices still resemble their neighbours, as their
// correlation with them tells, fewer of them count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace titan::analyzer {

inline constexpr size_t kLeastSteps = 20;  // of a series: fewer tell too little of its noise
inline constexpr size_t kLeastSlices = 5;
inline constexpr double kChance = 0.05;  // less is no chance

// 5, 10 or 20, so that two series of any lengths can be cut alike (in_slices); 0 of too few steps.
size_t slices_of(size_t steps);
// Means of neighbours, until there are so many.
std::vector<double> in_slices(std::vector<double> values, size_t slices);

enum class Scale : uint8_t { kRatio, kDifference };

struct Effect {
    // kRatio: b / a - 1; kDifference: b - a.
    double change = 0;
    double low = 0;  // of the interval that holds it with 95 %
    double high = 0;
    double chance = 1;  // that noise alone makes as large a change, up or down (p value)
};

// The effect between the values of slices, in their order; kRatio: all above 0. Nothing with fewer than kLeastSlices of
// either.
std::optional<Effect> effect_of(const std::vector<double>& a, const std::vector<double>& b, Scale scale);

// Chances as they are where many are looked at: so that with `chance` below 5 % for any of them noise does that in at
// most 5 % of all comparisons (Holm).
std::vector<double> holm_corrected(const std::vector<double>& chances);

double mean_of(const std::vector<double>& values);  // 0 without any

// The chance that a t distributed value lies farther than `t` from 0.
double chance_of_t(double t, double freedom);

}  // namespace titan::analyzer
