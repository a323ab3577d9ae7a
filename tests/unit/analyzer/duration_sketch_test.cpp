// Quantiles of many durations, to 1 %.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "duration_sketch.h"

using titan::analyzer::DurationSketch;

TEST_CASE("sketches: quantiles of any durations lie within 1%, the rest is exact") {
    std::mt19937_64 random(11);
    for (int round = 0; round < 50; ++round) {
        std::lognormal_distribution<double> draw(static_cast<double>(round % 20), 1.0 + round % 3);
        std::vector<int64_t> all;
        DurationSketch sketch;
        DurationSketch halves[2];
        for (unsigned i = 0; i < 1 + random() % 3000; ++i) {
            all.push_back(static_cast<int64_t>(draw(random)));
            sketch.add(all.back());
            halves[i % 2].add(all.back());
        }
        halves[0].add(halves[1]);
        std::sort(all.begin(), all.end());
        double sum = 0;
        for (const int64_t one : all) {
            sum += static_cast<double>(one);
        }
        for (const DurationSketch* one : {&sketch, &halves[0]}) {
            CHECK(one->count() == all.size());
            CHECK(one->sum_ns() == doctest::Approx(sum));
            CHECK(one->least_ns() == all.front());
            CHECK(one->most_ns() == all.back());
            for (const double quantile : {0.01, 0.5, 0.95, 0.99, 1.0}) {
                const auto place = static_cast<size_t>(std::ceil(quantile * static_cast<double>(all.size()))) - 1;
                const auto exact = static_cast<double>(all[place]);
                CHECK(std::abs(one->quantile_ns(quantile) - exact) <= 1 + 0.0101 * exact);
            }
        }
    }
}

TEST_CASE("sketches: none, and durations that no clock gives") {
    DurationSketch sketch;
    CHECK(sketch.quantile_ns(0.5) == 0);
    CHECK(sketch.mean_ns() == 0);
    CHECK(sketch.std_ns() == 0);
    CHECK(sketch.least_ns() == 0);
    sketch.add(-5);
    sketch.add(0);
    CHECK(sketch.quantile_ns(1) == 0);
    sketch.add(INT64_MAX);
    CHECK(sketch.quantile_ns(1) == doctest::Approx(static_cast<double>(INT64_MAX)).epsilon(0.011));
}
