// Made-up steps with noise like that of real ones.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "effect.h"
#include "robust.h"

namespace titan::test {

// Always the same: a test never fails by chance. With TITAN_FRESH_SEED set from /dev/urandom, to measure.
inline std::mt19937_64 generator() {
    if (std::getenv("TITAN_FRESH_SEED") == nullptr) {
        return std::mt19937_64(20261126);
    }
    std::random_device device("/dev/urandom");
    const uint64_t seed = (uint64_t{device()} << 32) | device();
    MESSAGE("seed " << seed);
    return std::mt19937_64(seed);
}

// Steps of 0.1 s that vary by 2 %: each like the one before it to a degree, some of them long.
struct Noise {
    const char* name;
    double resemblance;
    double long_steps;  // the share that takes 20 times as long
};

inline std::vector<double> draw_steps(std::mt19937_64& random, size_t steps, const Noise& noise) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> share;
    std::vector<double> values;
    double state = normal(random);
    for (size_t i = 0; i < steps; ++i) {
        state = noise.resemblance * state + std::sqrt(1 - noise.resemblance * noise.resemblance) * normal(random);
        values.push_back(0.1 * std::exp(0.02 * state) * (share(random) < noise.long_steps ? 20 : 1));
    }
    return values;
}

inline std::vector<double> slices_from(const std::vector<double>& steps) {
    const size_t slices = analyzer::slices_of(steps.size());
    std::vector<double> medians;
    for (size_t i = 0; i < slices; ++i) {
        const auto place = [&](size_t slice) {
            return steps.begin() + static_cast<std::ptrdiff_t>((slice * steps.size() + slices - 1) / slices);
        };
        medians.push_back(analyzer::median_of({place(i), place(i + 1)}));
    }
    return medians;
}

}  // namespace titan::test
