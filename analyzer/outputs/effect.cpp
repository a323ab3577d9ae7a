#include "effect.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace titan::analyzer {
namespace {

constexpr size_t kMostSlices = 20;
constexpr double kLeastFreedom = 2;
constexpr double kMostResemblance = 0.8;  // more cannot be told from a drift

// A series of slices, and what a test needs of it.
struct Sample {
    explicit Sample(const std::vector<double>& values) : mean(mean_of(values)), slices(values.size()) {
        for (size_t i = 0; i < values.size(); ++i) {
            squares += (values[i] - mean) * (values[i] - mean);
            neighbours += i == 0 ? 0 : (values[i] - mean) * (values[i - 1] - mean);
        }
    }
    double variance_of_mean() const { return squares / static_cast<double>(slices - 1) / static_cast<double>(slices); }

    double mean;
    size_t slices;
    double squares = 0;     // of distances from the mean
    double neighbours = 0;  // products of those of neighbours
};

// The correlation of slices with their neighbours, of both series together; a sample of few shows too little of it.
double resemblance(const Sample& a, const Sample& b) {
    const double squares = a.squares + b.squares;
    const double slices = static_cast<double>(a.slices + b.slices) / 2;
    const double seen = squares > 0 ? (a.neighbours + b.neighbours) / squares : 0;
    return std::clamp((slices * seen + 1) / (slices - 3), 0.0, kMostResemblance);
}

// The continued fraction of the incomplete beta function (Lentz's way).
double beta_fraction(double x, double a, double b) {
    constexpr double kTiny = 1e-300;
    constexpr int kMostTerms = 300;
    const auto unless_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
    double above = 1;
    double below = 1 / unless_zero(1 - (a + b) * x / (a + 1));
    double fraction = below;
    for (int m = 1; m <= kMostTerms; ++m) {
        for (const double term : {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                                  -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))}) {
            below = 1 / unless_zero(1 + term * below);
            above = unless_zero(1 + term / above);
            fraction *= above * below;
        }
        if (std::abs(above * below - 1) < 1e-14) {
            break;
        }
    }
    return fraction;
}

// Regularized: from 0 at x = 0 to 1 at x = 1.
double incomplete_beta(double x, double a, double b) {
    if (x <= 0 || x >= 1) {
        return x <= 0 ? 0 : 1;
    }
    const double front =
        std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a : 1 - front * beta_fraction(1 - x, b, a) / b;
}

// chance_of_t() is kChance there.
double t_of_chance(double freedom) {
    double low = 0, high = 1e3;
    for (int i = 0; i < 80; ++i) {
        const double middle = (low + high) / 2;
        (chance_of_t(middle, freedom) > kChance ? low : high) = middle;
    }
    return high;
}

std::vector<double> logarithms(const std::vector<double>& values) {
    std::vector<double> logs;
    logs.reserve(values.size());
    std::ranges::transform(values, std::back_inserter(logs), [](double value) { return std::log(value); });
    return logs;
}

}  // namespace

double mean_of(const std::vector<double>& values) {
    return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

size_t slices_of(size_t steps) {
    constexpr size_t kSliceSteps = 4;  // at least
    size_t slices = steps < kLeastSteps ? 0 : kLeastSlices;
    while (slices != 0 && slices < kMostSlices && steps >= 2 * slices * kSliceSteps) {
        slices *= 2;
    }
    return slices;
}

std::vector<double> in_slices(std::vector<double> values, size_t slices) {
    while (values.size() > slices) {
        for (size_t i = 0; i < values.size() / 2; ++i) {
            values[i] = (values[2 * i] + values[2 * i + 1]) / 2;
        }
        values.resize(values.size() / 2);
    }
    return values;
}

double chance_of_t(double t, double freedom) { return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5); }

std::optional<Effect> effect_of(const std::vector<double>& a, const std::vector<double>& b, Scale scale) {
    if (std::min(a.size(), b.size()) < kLeastSlices) {
        return std::nullopt;
    }
    Effect effect;
    const bool ratio = scale == Scale::kRatio;
    const Sample before(ratio ? logarithms(a) : a), after(ratio ? logarithms(b) : b);
    const double change = after.mean - before.mean;
    const auto outward = [ratio](double value) { return ratio ? std::expm1(value) : value; };
    effect.change = effect.low = effect.high = outward(change);
    const double of_before = before.variance_of_mean(), of_after = after.variance_of_mean();
    const double variance = of_before + of_after;
    if (variance <= 0) {
        effect.chance = change == 0 ? 1 : 0;
        return effect;
    }
    const double alike = resemblance(before, after);
    const double inflation = (1 + alike) / (1 - alike);
    const double welch = variance * variance /
                         (of_before * of_before / static_cast<double>(before.slices - 1) +
                          of_after * of_after / static_cast<double>(after.slices - 1));
    const double freedom = std::max(welch / inflation, kLeastFreedom);
    const double error = std::sqrt(variance * inflation);
    const double reach = t_of_chance(freedom) * error;
    effect.low = outward(change - reach);
    effect.high = outward(change + reach);
    effect.chance = chance_of_t(change / error, freedom);
    return effect;
}

std::vector<double> holm_corrected(const std::vector<double>& chances) {
    std::vector<size_t> order(chances.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) { return chances[a] < chances[b]; });
    std::vector<double> adjusted(chances.size());
    double most = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        most = std::max(most, chances[order[i]] * static_cast<double>(order.size() - i));
        adjusted[order[i]] = std::min(most, 1.0);
    }
    return adjusted;
}

}  // namespace titan::analyzer
