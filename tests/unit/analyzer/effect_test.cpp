// Differences between series of steps: how often noise is called one, and how often a real one is found.
// TITAN_FRESH_SEED=1 analyzer-test -tc='effects: noise*' -s measures anew.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "effect.h"
#include "step_noise.h"

using titan::analyzer::chance_of_t;
using titan::analyzer::Effect;
using titan::analyzer::effect_of;
using titan::analyzer::holm_corrected;
using titan::analyzer::in_slices;
using titan::analyzer::Scale;
using titan::analyzer::slices_of;
using titan::test::draw_steps;
using titan::test::generator;
using titan::test::Noise;
using titan::test::slices_from;

namespace {

struct Rates {
    double slower = 0;  // of equal runs
    double found = 0;   // of runs that are 5 % slower
    double held = 0;    // intervals that hold the change
};

Rates measure(std::mt19937_64& random, size_t steps, const Noise& noise, int rounds) {
    constexpr double kChange = 0.05;
    Rates rates;
    for (int i = 0; i < rounds; ++i) {
        const std::vector<double> before = draw_steps(random, steps, noise);
        std::vector<double> after = draw_steps(random, steps, noise);
        const auto equal = effect_of(slices_from(before), slices_from(after), Scale::kRatio);
        std::for_each(after.begin(), after.end(), [](double& step) { step *= 1 + kChange; });
        const auto slower = effect_of(slices_from(before), slices_from(after), Scale::kRatio);
        rates.slower += equal->low > 0 ? 1.0 / rounds : 0;
        rates.found += slower->low > 0 ? 1.0 / rounds : 0;
        rates.held += slower->low <= kChange && slower->high >= kChange ? 1.0 / rounds : 0;
    }
    return rates;
}

}  // namespace

TEST_CASE("effects: noise is called slower by chance as often as is said, and a change of 5% is found") {
    std::mt19937_64 random = generator();
    constexpr int kRounds = 600;
    constexpr double kSaid = 0.025;
    const double doubt = 3 * std::sqrt(kSaid * (1 - kSaid) / kRounds);  // of a rate that so many rounds measure
    for (const Noise& noise : {Noise{"independent", 0, 0}, Noise{"alike (0.5)", 0.5, 0}, Noise{"alike (0.8)", 0.8, 0},
                               Noise{"1% long", 0.3, 0.01}}) {
        for (const size_t steps : {20, 40, 100, 300}) {
            const Rates rates = measure(random, steps, noise, kRounds);
            MESSAGE(std::string(noise.name) << ", " << steps << " steps: slower " << 100 * rates.slower << "%, found "
                                            << 100 * rates.found << "%, held " << 100 * rates.held << "%");
            // So few steps that much resemble each other do not show how much.
            const bool too_few = steps < 100 && noise.resemblance > 0.5;
            CHECK(rates.slower <= kSaid + doubt + (too_few ? 0.02 : 0));
            CHECK((steps < 100 || rates.found > 0.9));
        }
    }
}

TEST_CASE("effects: chances of t are those of tables") {
    CHECK(chance_of_t(12.706, 1) == doctest::Approx(0.05).epsilon(0.001));
    CHECK(chance_of_t(2.776, 4) == doctest::Approx(0.05).epsilon(0.001));
    CHECK(chance_of_t(4.604, 4) == doctest::Approx(0.01).epsilon(0.001));
    CHECK(chance_of_t(2.228, 10) == doctest::Approx(0.05).epsilon(0.001));
    CHECK(chance_of_t(1.96, 1e6) == doctest::Approx(0.05).epsilon(0.001));
    CHECK(chance_of_t(0, 7) == 1);
    CHECK(chance_of_t(1e9, 7) < 1e-50);
}

TEST_CASE("effects: slices") {
    CHECK(slices_of(19) == 0);
    CHECK(slices_of(20) == 5);
    CHECK(slices_of(39) == 5);
    CHECK(slices_of(40) == 10);
    CHECK(slices_of(80) == 20);
    CHECK(slices_of(1'000'000) == 20);
    CHECK(in_slices({1, 3, 5, 7, 2, 4, 0, 0, 9, 9}, 5) == std::vector<double>{2, 6, 3, 0, 9});
    CHECK(in_slices({1, 2, 3, 4, 5}, 5) == std::vector<double>{1, 2, 3, 4, 5});
}

TEST_CASE("effects: what does not vary, and too little of anything") {
    const std::vector<double> ones(5, 1.0), twos(5, 2.0);
    CHECK(!effect_of({1, 1, 1, 1}, ones, Scale::kRatio));
    CHECK(effect_of(ones, ones, Scale::kRatio)->chance == 1);
    const Effect twice = *effect_of(ones, twos, Scale::kRatio);
    CHECK(twice.change == doctest::Approx(1));
    CHECK(twice.chance == 0);
    const Effect less = *effect_of(std::vector<double>(5), {-2, -2.1, -1.9, -2, -2}, Scale::kDifference);
    CHECK(less.change == doctest::Approx(-2));
    CHECK(less.high < -1.8);
    CHECK(less.low > -2.2);
}

TEST_CASE("effects: of many chances some are small") {
    CHECK(holm_corrected({}).empty());
    CHECK(holm_corrected({0.04}) == std::vector<double>{0.04});
    const std::vector<double> adjusted = holm_corrected({0.04, 0.01, 0.5});
    CHECK(adjusted[0] == doctest::Approx(0.08));
    CHECK(adjusted[1] == doctest::Approx(0.03));
    CHECK(adjusted[2] == doctest::Approx(0.5));
    CHECK(holm_corrected({0.9, 0.8})[1] == 1);
}
