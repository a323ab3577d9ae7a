// Quantiles of many values, to 1 %.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "value_sketch.h"

using titan::analyzer::ValueSketch;

TEST_CASE("sketches: quantiles of any values lie within 1%, the rest is exact") {
    std::mt19937_64 random(11);
    for (int round = 0; round < 60; ++round) {
        std::lognormal_distribution<double> draw(static_cast<double>(round % 20), 1.0 + round % 3);
        const int signs = round % 3;  // positive, negative, both
        std::vector<double> all;
        ValueSketch sketch;
        for (unsigned i = 0; i < 1 + random() % 3000; ++i) {
            const bool negative = signs == 1 || (signs == 2 && random() % 2 == 0);
            all.push_back(draw(random) * (negative ? -1e-6 : 1));
            sketch.add(all.back());
        }
        std::sort(all.begin(), all.end());
        double sum = 0;
        for (const double one : all) {
            sum += one;
        }
        CHECK(sketch.count() == all.size());
        CHECK(sketch.sum() == doctest::Approx(sum));
        CHECK(sketch.least() == all.front());
        CHECK(sketch.most() == all.back());
        for (const double quantile : {0.01, 0.5, 0.95, 0.99, 1.0}) {
            const auto place = static_cast<size_t>(std::ceil(quantile * static_cast<double>(all.size()))) - 1;
            CHECK(std::abs(sketch.quantile(quantile) - all[place]) <= 0.0101 * std::abs(all[place]));
        }
    }
}

TEST_CASE("sketches: the deviation of values far from 0 keeps its digits") {
    ValueSketch sketch;
    for (const double one : {-1.0, 1.0, -1.0, 1.0}) {
        sketch.add(1e12 + one);
    }
    CHECK(sketch.std() == doctest::Approx(1));
}

TEST_CASE("sketches: none, and the least and largest numbers") {
    ValueSketch sketch;
    CHECK(sketch.quantile(0.5) == 0);
    CHECK(sketch.mean() == 0);
    CHECK(sketch.std() == 0);
    CHECK(sketch.least() == 0);
    sketch.add(0);
    CHECK(sketch.quantile(1) == 0);
    sketch.add(std::numeric_limits<double>::denorm_min());
    CHECK(sketch.quantile(1) == 0);
    sketch.add(std::numeric_limits<double>::max());
    sketch.add(std::numeric_limits<double>::lowest());
    CHECK(sketch.quantile(1) == doctest::Approx(std::numeric_limits<double>::max()).epsilon(0.011));
    CHECK(sketch.quantile(0.1) == doctest::Approx(std::numeric_limits<double>::lowest()).epsilon(0.011));
}
