// The controller as a function: units of work in, plans out.
#include "budget.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <vector>

using titan::tracer::Budget;
using titan::tracer::kMarkCosts;
using titan::tracer::ObservedUnit;
using titan::tracer::ObservingPlan;

namespace {

constexpr uint32_t kShare = 3000;  // 0.3 %
constexpr uint64_t kMs = 1'000'000;
constexpr size_t kStretch = 101;  // "longer than 100 steps"

struct Step {
    uint64_t took_ns;
    uint64_t launches;
};

// A job under the budget: what each of its steps had.
struct Played {
    std::vector<ObservedUnit> units;
    std::vector<ObservingPlan> plans;

    // The largest share of the GPU's time that full marks take in a stretch of steps, in budgets.
    double worst(size_t from, size_t stretch = kStretch, size_t until = SIZE_MAX) const {
        double most = 0;
        for (size_t first = from; first + stretch <= std::min(until, units.size()); ++first) {
            double took_ns = 0, marks_ns = 0;
            for (size_t i = first; i < first + stretch; ++i) {
                took_ns += static_cast<double>(units[i].took_ns);
                marks_ns += static_cast<double>(units[i].full) * kMarkCosts.full_gpu_ns;
            }
            most = std::max(most, marks_ns / (took_ns * kShare / 1e6));
        }
        return most;
    }
    // The same of the calling thread: what both kinds of marks take.
    double worst_of_host(size_t from) const {
        double most = 0;
        for (size_t first = from; first + kStretch <= units.size(); ++first) {
            double took_ns = 0, marks_ns = 0;
            for (size_t i = first; i < first + kStretch; ++i) {
                const double full = static_cast<double>(units[i].full);
                took_ns += static_cast<double>(units[i].took_ns);
                marks_ns += full * kMarkCosts.full_host_ns + (static_cast<double>(units[i].launches) - full) *
                                                                 kMarkCosts.light_host_ns / plans[i].light_of;
            }
            most = std::max(most, marks_ns / (took_ns * kShare / 1e6));
        }
        return most;
    }
    size_t whole(size_t from) const {
        return static_cast<size_t>(
            std::count_if(units.begin() + static_cast<std::ptrdiff_t>(from), units.end(),
                          [](const ObservedUnit& unit) { return unit.full == unit.launches && unit.launches != 0; }));
    }
};

Played play(size_t steps, const std::function<Step(size_t)>& step_of, uint32_t share = kShare) {
    Budget budget{};
    budget.start(share, kMarkCosts);
    Played played;
    for (size_t i = 0; i < steps; ++i) {
        const Step step = step_of(i);
        const uint64_t full = std::min(step.launches, budget.full_launches(i));
        played.plans.push_back(budget.plan());
        played.units.push_back({step.took_ns, step.launches, full});
        budget.add(played.units.back());
    }
    return played;
}

constexpr size_t kBegun = Budget::kFirstUnits;
constexpr size_t kSettled = Budget::kRemembered;  // at the latest

}  // namespace

TEST_CASE("long steps have full marks always, short ones in one of N") {
    struct Row {
        Step step;
        uint32_t full_of;
    };
    for (const Row& row : {Row{{500 * kMs, 200}, 1}, Row{{5 * kMs, 2}, 1}, Row{{5 * kMs, 20}, 8},
                           Row{{20 * kMs, 20}, 2}, Row{{5 * kMs, 200}, 0}, Row{{200 * kMs, 200}, 2}}) {
        const Played played = play(1000, [&](size_t) { return row.step; });
        CAPTURE(row.step.took_ns);
        CAPTURE(row.step.launches);
        CHECK(played.plans.back().full_of == row.full_of);
        CHECK(played.worst(kBegun) <= 2);
        CHECK(played.worst_of_host(kSettled) <= 2);
        // All of them, and none is cut.
        const size_t expected = row.full_of == 0 ? 0 : (1000 - kBegun) / row.full_of;
        CHECK(played.whole(kBegun) + 1 >= expected);
        CHECK(played.whole(kBegun) <= expected + 1);
    }
}

TEST_CASE("the first steps have full marks, whatever they take") {
    const Played played = play(20, [](size_t) { return Step{kMs, 500}; });
    for (size_t i = 0; i < kBegun; ++i) {
        CHECK(played.units[i].full == 500);
    }
    CHECK(played.units[kBegun].full == 0);
}

TEST_CASE("a host that runs ahead of its GPU from the first step on: each launch has marks") {
    const auto logs_each_10th = [](size_t i) { return Step{i % 10 == 9 ? 1000 * kMs : kMs / 10, 20}; };
    const Played played = play(200, logs_each_10th);
    CHECK(std::all_of(played.plans.begin(), played.plans.end(),
                      [](const ObservingPlan& plan) { return plan.light_of == 1; }));
    CHECK(played.worst(kBegun) <= 2);
    CHECK(played.worst_of_host(kBegun) <= 2);
}

TEST_CASE("the steps of a larger N are among those of a smaller, one in each block of N") {
    for (uint32_t of = 1; of <= Budget::kMostUnits; of *= 2) {
        std::set<uint64_t> places;
        for (uint64_t block = 0; block < 200; ++block) {
            int chosen = 0;
            for (uint64_t unit = block * of; unit < (block + 1) * of; ++unit) {
                if (Budget::is_chosen(of, unit)) {
                    ++chosen;
                    places.insert(unit % of);
                    CHECK((of == 1 || Budget::is_chosen(of / 2, unit)));
                }
            }
            CHECK(chosen == 1);
        }
        CHECK(places.size() == of);  // no step that recurs is missed for ever
    }
    CHECK(!Budget::is_chosen(0, 0));
}

TEST_CASE("calls that differ from step to step") {
    std::mt19937_64 random(57);
    for (const uint64_t most : {10, 100, 1000, 10000}) {
        for (const uint64_t took_ns : {20'000ul, 2 * kMs, 50 * kMs, 500 * kMs}) {
            const Played played = play(5000, [&](size_t) {
                return Step{took_ns / 2 + random() % took_ns, random() % most};
            });
            CAPTURE(most);
            CAPTURE(took_ns);
            CHECK(played.worst(kBegun) <= 2);
        }
    }
    for (size_t period = 2; period <= 64; ++period) {  // nearly all calls in one step of each `period`
        const Played played = play(5000, [&](size_t i) { return Step{10 * kMs, i % period == 1 ? 2000u : 4u}; });
        CAPTURE(period);
        CHECK(played.worst(kBegun) <= 2);
    }
}

TEST_CASE("steps of 20 us") {
    for (const uint64_t launches : {1, 2, 5}) {
        const Played played = play(5000, [&](size_t) { return Step{20'000, launches}; });
        CHECK(played.worst(kBegun) <= 2);
        CHECK(played.worst_of_host(kSettled) <= 2);
    }
}

TEST_CASE("a program that changes is over its budget for fewer than 100 steps") {
    const auto compiles_first = [](size_t i) { return i < 6 ? Step{60'000 * kMs, 200} : Step{5 * kMs, 40}; };
    const auto gets_faster = [](size_t i) { return i < 200 ? Step{1000 * kMs, 300} : Step{10 * kMs, 300}; };
    const auto gets_busier = [](size_t i) { return i < 200 ? Step{100 * kMs, 2} : Step{100 * kMs, 5000}; };
    const auto pauses = [](size_t i) { return i % 300 == 0 ? Step{30'000 * kMs, 0} : Step{5 * kMs, 20}; };
    struct Row {
        std::function<Step(size_t)> step_of;
        size_t change;
    };
    for (const Row& job : {Row{compiles_first, 6}, Row{gets_faster, 200}, Row{gets_busier, 200}}) {
        const Played played = play(2000, job.step_of);
        size_t over = 0;
        for (size_t i = job.change; i < job.change + 100; ++i) {
            over += played.worst(i, 1, i + 1) > 2 ? 1 : 0;
        }
        CHECK(over <= Budget::kRemembered);
        CHECK(played.worst(job.change + 2 * Budget::kRemembered) <= 2);
    }
    // Long pauses make no room for marks between them.
    const Played played = play(3000, pauses);
    CHECK(played.worst(kBegun + Budget::kRemembered) <= 2);
}

TEST_CASE("a plan does not change to and fro where a step lies at its limit") {
    std::mt19937_64 random(58);
    const Played played = play(3000, [&](size_t) {
        return Step{20 * kMs * 35 / 30 + random() % (2 * kMs), 20};  // one of 1 or one of 2
    });
    size_t changes = 0;
    for (size_t i = 100; i + 1 < played.plans.size(); ++i) {
        changes += played.plans[i] == played.plans[i + 1] ? 0 : 1;
    }
    CHECK(changes <= 2);
}

TEST_CASE("a clock that stands still: the first steps, then no full marks and few others") {
    const Played played = play(1000, [](size_t) { return Step{0, 20}; });
    CHECK(played.whole(kBegun) == 0);
    CHECK(played.plans.back() == ObservingPlan{0, Budget::kMostLaunches});
}

TEST_CASE("a step without calls, a program without any") {
    const Played played = play(100, [](size_t i) { return Step{i % 2 * kMs, 0}; });
    CHECK(played.plans.back() == ObservingPlan{1, 1});
}

TEST_CASE("marks that take no GPU time are made everywhere") {
    Budget budget{};
    budget.start(kShare, {.full_gpu_ns = 0, .full_host_ns = 600, .light_host_ns = 600});
    for (int i = 0; i < 100; ++i) {
        budget.add({5 * kMs, 20, 20});
    }
    CHECK(budget.plan().full_of == 1);
    CHECK(budget.full_launches(7) == UINT64_MAX);
}
