// Whole comparisons of made-up sides: how often equal runs are said to differ, and what cannot be compared.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "comparison.h"
#include "nightly.h"
#include "step_noise.h"

using namespace titan::analyzer;
using titan::test::draw_steps;
using titan::test::Noise;
using titan::test::slices_from;

namespace {

constexpr int kRanksOfASide = 4;

RankSlices cut(const std::vector<double>& values, double factor) {
    RankSlices slices;
    for (const double value : slices_from(values)) {
        slices.typical.push_back(static_cast<float>(value * factor));
    }
    slices.mean = slices.typical;
    slices.times = values.size();
    return slices;
}

// Steps, and so many parts of them, on all ranks; each series has noise of its own, and takes so much of a step.
Side side_with(std::mt19937_64& random, int parts, double factor, size_t steps = 100) {
    const Noise noise{"", 0.5, 0.01};
    Side side;
    side.world_size = kRanksOfASide;
    for (int rank = 0; rank < kRanksOfASide; ++rank) {
        side.ranks[rank] = {rank < 2 ? "node-1" : "node-2", {rank % 2 == 0 ? "stage 0" : "stage 1"}, steps};
        side.rows[{PartKind::kStep, "step"}].of_rank[rank] = cut(draw_steps(random, steps, noise), factor * 1e9);
        for (int part = 0; part < parts; ++part) {
            side.rows[{PartKind::kSpan, "part " + std::to_string(part)}].of_rank[rank] =
                cut(draw_steps(random, steps, noise), factor * 1e8);
        }
    }
    return side;
}

const ComparedRow* row_named(const std::vector<ComparedRow>& rows, const std::string& name) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const ComparedRow& one) { return one.name == name; });
    return row == rows.end() ? nullptr : &*row;
}

bool remarks(const Comparison& comparison, const std::string& text) {
    return std::any_of(comparison.notes.begin(), comparison.notes.end(),
                       [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("comparisons: equal runs seldom differ in any of 30 parts, and never fail the gate more often than is said") {
    std::mt19937_64 random = titan::test::generator();
    const int runs = titan::test::rounds(60, 200);
    double differing = 0, slower = 0, found = 0;
    for (int i = 0; i < runs; ++i) {
        const Side before = side_with(random, 30, 1), equal = side_with(random, 30, 1);
        const Comparison comparison = compare(before, equal);
        const auto any = std::any_of(comparison.rows.begin(), comparison.rows.end(),
                                     [](const ComparedRow& row) { return row.differs(); });
        differing += any ? 1.0 / runs : 0;
        slower += gate_of(comparison, 0) == Gate::kSlower ? 1.0 / runs : 0;
        found += gate_of(compare(before, side_with(random, 0, 1.05)), 0.03) == Gate::kSlower ? 1.0 / runs : 0;
    }
    MESSAGE("a part differs in " << 100 * differing << "%, a step is slower in " << 100 * slower
                                 << "% of equal runs; of those 5% slower " << 100 * found << "% fail at 3%");
    const auto doubt = [&](double said) { return 3 * std::sqrt(said * (1 - said) / runs); };
    CHECK(differing <= 0.05 + doubt(0.05));
    CHECK(slower <= 0.025 + doubt(0.025));
    CHECK(found > 0.9);
}

TEST_CASE("comparisons: a part, and one that is slow on one host alone") {
    std::mt19937_64 random(3);
    const Side before = side_with(random, 3, 1);
    Side after = side_with(random, 3, 1);
    const auto slow = [&](const std::string& part, int from_rank) {
        for (auto& [rank, slices] : after.rows[{PartKind::kSpan, part}].of_rank) {
            for (float& value : slices.typical) {
                value *= rank >= from_rank ? 1.5F : 1;
            }
        }
    };
    slow("part 1", 0);
    slow("part 2", 2);
    const Comparison comparison = compare(before, after);
    CHECK(row_named(comparison.rows, "part 1")->differs());
    CHECK(row_named(comparison.rows, "part 1")->effect->change == doctest::Approx(0.5).epsilon(0.1));
    CHECK(!row_named(comparison.rows, "part 0")->differs());
    CHECK(row_named(comparison.groups, "part 1") == nullptr);  // as on all ranks
    const ComparedRow* host = row_named(comparison.groups, "part 2");
    REQUIRE(host != nullptr);
    CHECK(host->where == "host node-2");
    CHECK(gate_of(comparison, 0.03) == Gate::kPassed);
    CHECK(comparison.differs());
}

TEST_CASE("comparisons: calls that a journal has as sums") {
    std::mt19937_64 random(7);
    Side before = side_with(random, 2, 1), after = side_with(random, 2, 1);
    for (auto& [rank, slices] : after.rows[{PartKind::kSpan, "part 0"}].of_rank) {
        for (float& value : slices.mean) {
            value *= 1.5F;
        }
    }
    CHECK(!row_named(compare(before, after).rows, "part 0")->differs());
    // Their medians are not known.
    before.rows[{PartKind::kSpan, "part 0"}].summed = true;
    const Comparison comparison = compare(before, after);
    CHECK(row_named(comparison.rows, "part 0")->differs());
    CHECK(remarks(comparison, "A: calls are on record as sums of their step"));
    // Whether the GPU was looked at differs from run to run.
    after.rows[{PartKind::kHostCall, "all_reduce on dp"}] = before.rows[{PartKind::kSpan, "part 1"}];
    before.rows[{PartKind::kGpuCall, "all_reduce on dp"}] = before.rows[{PartKind::kSpan, "part 1"}];
    const Comparison sampled = compare(before, after);
    CHECK(sampled.only_before.empty());
    CHECK(sampled.only_after.empty());
}

TEST_CASE("comparisons: what only one side has, other ranks, and other kinds of runs") {
    std::mt19937_64 random(4);
    Side before = side_with(random, 2, 1), after = side_with(random, 3, 1);
    after.ranks.erase(3);
    after.missing_ranks = {3};
    before.labels["perf_tag"] = "small";
    after.labels["perf_tag"] = "large";
    after.metrics["loss"] = {{{1, 2.0}}, 0};
    const Comparison comparison = compare(before, after);
    CHECK(comparison.only_before.empty());
    CHECK(comparison.only_after == std::vector<std::string>{"part 2", "loss"});
    CHECK(comparison.ranks == std::vector<int>{0, 1, 2});
    CHECK(remarks(comparison, "B: no record of rank 3"));
    CHECK(!comparison.same_work);
    CHECK(gate_of(comparison, 1) == Gate::kCannotTell);
    after.world_size = 3;
    CHECK(remarks(compare(before, after), "A has 4 ranks and B 3: ranks do other shares of the work"));
}

TEST_CASE("comparisons: what one side does not tell is unknown, not another value") {
    std::mt19937_64 random(9);  // NOLINT: the same each time
    Side before = side_with(random, 1, 1), after = side_with(random, 1, 1);
    before.world_size = -1;
    after.settings["NCCL_ALGO"] = "Ring";
    const Comparison comparison = compare(before, after);
    CHECK(remarks(comparison, "settings and versions are not compared: the records of A do not have them"));
    CHECK(remarks(comparison, "the number of ranks of A is not on record"));
    CHECK(!remarks(comparison, "ranks do other shares of the work"));
}

TEST_CASE("comparisons: series of other lengths, and no steps at all") {
    std::mt19937_64 random(5);
    const Side before = side_with(random, 1, 1, 500);
    const Comparison shorter = compare(before, side_with(random, 1, 2, 25));
    REQUIRE(shorter.steps.size() == 2);
    CHECK(shorter.steps.front().effect->change == doctest::Approx(1).epsilon(0.1));
    Side without;
    without.world_size = kRanksOfASide;
    const Comparison none = compare(before, without);
    CHECK(none.steps.empty());
    CHECK(remarks(none, "step time cannot be compared: A has step, B has no steps"));
    CHECK(gate_of(none, 0.03) == Gate::kCannotTell);
    CHECK(compare(Side(), Side()).rows.empty());
}

TEST_CASE("comparisons: metrics are compared step by step where both sides have the same steps") {
    std::mt19937_64 random(6);
    std::normal_distribution<double> noise(0, 0.01);
    Side before, after, later;
    for (int step = 0; step < 60; ++step) {
        before.metrics["loss"].values.emplace_back(step, 10.0 / (1 + step) + noise(random));
        after.metrics["loss"].values.emplace_back(step, 10.0 / (1 + step) + 0.1 + noise(random));
        later.metrics["loss"].values.emplace_back(step + 100, 10.0 / (101 + step) + noise(random));
    }
    const Comparison paired = compare(before, after);
    CHECK(paired.rows.front().paired);
    CHECK(paired.rows.front().differs());
    CHECK(paired.rows.front().effect->change == doctest::Approx(0.1).epsilon(0.1));
    CHECK(!compare(before, later).rows.front().paired);
    CHECK(!compare(before, before).differs());
}
