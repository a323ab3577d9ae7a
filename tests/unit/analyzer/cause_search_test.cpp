// What recognisers make of a job that is given as a table: how long each rank works by itself in each step.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "cause_search.h"
#include "late_ranks.h"
#include "layout.h"
#include "patterns.h"
#include "table_job.h"

namespace {

using namespace titan;
using namespace titan::test;
using analyzer::CauseClass;
using analyzer::find_everyone;
using analyzer::find_host_parts;
using analyzer::find_pauses_of_all;
using analyzer::find_pauses_of_hosts;
using analyzer::find_pauses_of_ranks;
using analyzer::find_slow_links;
using analyzer::find_slow_ranks;

bool is_among(uint32_t step, std::initializer_list<uint32_t> steps) {
    return std::find(steps.begin(), steps.end(), step) != steps.end();
}

// Each rank's work varies by a percent, so that no two steps are equal.
double varied(int rank, uint32_t step) {
    return kWorkMs * (1 + 0.01 * ((rank * 7 + static_cast<int>(step) * 13) % 5 - 2) / 2);
}

}  // namespace

TEST_CASE("pauses: a few long ones of one rank are its own, and cost what the others wait") {
    const TableJob job([](int rank, uint32_t step) {
        return varied(rank, step) + (rank == 3 && is_among(step, {7, 12, 30}) ? 300.0 : 0);
    });
    const std::vector<SlowCause> causes = job.causes_by(find_slow_ranks);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().of_class == CauseClass::kPauses);
    CHECK(causes.front().ranks == std::vector<int>{3});
    CHECK(!causes.front().since_step);
    CHECK(causes.front().cost_ns == doctest::Approx(3 * 300 * kTableMs / kTableSteps).epsilon(0.02));

    const TableJob one_shorter([](int rank, uint32_t step) {
        return varied(rank, step) + (rank != 3 ? 0 : is_among(step, {7, 12}) ? 300 : step == 30 ? 25 : 0);
    });
    CHECK(one_shorter.causes_by(find_slow_ranks).size() == 1);
    const TableJob a_quarter_of_a_step(
        [](int rank, uint32_t step) { return varied(rank, step) + (rank == 3 && step % 5 == 2 ? 0.25 * kWorkMs : 0); });
    CHECK(a_quarter_of_a_step.causes_by(find_slow_ranks).size() == 1);
    const TableJob two([](int rank, uint32_t step) {
        return varied(rank, step) + (rank == 3 && is_among(step, {7, 12}) ? 300.0 : 0);
    });
    CHECK(two.causes_by(find_slow_ranks).empty());
    const TableJob short_ones([](int rank, uint32_t step) {
        return varied(rank, step) + (rank == 3 && is_among(step, {7, 12, 30}) ? 20.0 : 0);
    });
    CHECK(short_ones.causes_by(find_slow_ranks).empty());
}

TEST_CASE("pauses: what comes in most steps is none, and few steps do not tell what is seldom") {
    const TableJob most([](int rank, uint32_t step) {
        return varied(rank, step) + (rank == 3 && step % 2 == 0 ? 30.0 + 15 * (step % 7) : 0);
    });
    for (const SlowCause& cause : most.causes_by(find_slow_ranks)) {
        CHECK(cause.of_class != CauseClass::kPauses);
    }
    const analyzer::ShapeLimits limits{.length_ns = 100, .seen_ns = 500};
    CHECK(shape_of_long_pauses({90, 80, 0, 70, 0}, limits).pattern == analyzer::LatePattern::kNone);
    CHECK(shape_of_long_pauses({90, 80, 0, 0, 70, 0, 0, 0, 0, 0}, limits).pattern == analyzer::LatePattern::kIrregular);

    const auto work_ms = [](int rank, uint32_t step) {
        return varied(rank, step) + (rank == static_cast<int>(step) && step > 3 ? 300.0 : 0);
    };
    CHECK(TableJob(work_ms, true, 7).causes_by(find_pauses_of_ranks).empty());
    CHECK(TableJob(work_ms, true, 14).causes_by(find_pauses_of_ranks).size() == 1);
}

// As a job shows that marks no steps, copies for a second in each of 30, and is asked after a quarter of a minute.
TEST_CASE("pauses: the start of a job is no pause of ranks that nobody else is like") {
    TableJob job([](int, uint32_t step) { return step == 0 ? 4 * kWorkMs : kWorkMs; });
    std::iota(job.graph.roles.begin(), job.graph.roles.end(), 0);  // stages of a pipeline
    CHECK(job.causes_by(find_pauses_of_ranks).empty());
}

TEST_CASE("slow ranks: where hosts have two ranks, a slow host is one cause") {
    TableJob job([](int rank, uint32_t) { return kWorkMs + (rank == 2 ? 24.0 : rank == 3 ? 20 : 0); }, false);
    for (analyzer::Process& process : job.run.processes) {
        process.host = "node-" + std::to_string(process.rank / 2);
    }
    const std::vector<SlowCause> causes = job.causes_by(find_slow_ranks);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().of_class == CauseClass::kSlowHost);
    CHECK(causes.front().ranks == std::vector<int>{2, 3});
}

TEST_CASE("slow ranks: few steps are enough where each of them takes so much longer") {
    const auto slow_in = [](uint32_t steps, double ms) {
        return TableJob([ms](int rank, uint32_t step) { return varied(rank, step) + (rank == 3 ? ms : 0); }, true,
                        steps)
            .causes_by(find_slow_ranks);
    };
    const std::vector<SlowCause> causes = slow_in(7, 110);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().ranks == std::vector<int>{3});
    CHECK(slow_in(5, 110).empty());
    CHECK(slow_in(7, 15).empty());
}

TEST_CASE("pauses: beside a slow GPU those of another rank are as long as they are beside a step without it") {
    const TableJob job([](int rank, uint32_t step) {
        const double paused_ms = rank == 3 && is_among(step, {7, 12}) ? 150 : rank == 3 && step == 30 ? 35 : 0;
        return varied(rank, step) * (rank == 6 ? 2 : 1) + paused_ms;
    });
    const std::vector<SlowCause> causes = job.causes_by(find_slow_ranks);
    REQUIRE(causes.size() == 2);
    CHECK(causes.front().ranks == std::vector<int>{6});
    CHECK(causes.back().of_class == CauseClass::kPauses);
    CHECK(causes.back().ranks == std::vector<int>{3});
}

TEST_CASE("pauses: those of a few ranks at different steps are no rank's own") {
    const TableJob job([](int rank, uint32_t step) {
        const bool first = rank == 3 && is_among(step, {7, 12});
        return varied(rank, step) + (first || (rank == 5 && step == 30) ? 300.0 : 0);
    });
    const std::vector<SlowCause> causes = job.causes_by(find_pauses_of_ranks);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().of_class == CauseClass::kGarbageCollection);
    CHECK(causes.front().ranks == std::vector<int>{3, 5});
    CHECK(job.causes_by(find_slow_ranks).empty());
}

TEST_CASE("pauses: where all ranks pause at once, who takes longest does not pause by itself") {
    const TableJob job([](int rank, uint32_t step) {
        const int longest = is_among(step, {9, 25}) ? 3 : is_among(step, {17, 33}) ? 5 : -1;
        return varied(rank, step) + (longest < 0 ? 0 : rank == longest ? 160 : 100);
    });
    CHECK(job.causes_by(find_pauses_of_ranks).empty());
}

TEST_CASE("pauses: long steps of each rank's own that meet by chance are no pauses of all") {
    const TableJob job(
        [](int rank, uint32_t step) {  // a quarter of each rank's steps; in three of 40 most of them meet
            const bool meets = is_among(step, {7, 21, 33}) && rank < 5;
            return varied(rank, step) + (meets || (step + static_cast<uint32_t>(rank)) % 5 == 0 ? 40.0 : 0);
        });
    CHECK(job.causes_by(find_pauses_of_all).empty());
}

TEST_CASE("uneven work: that a rank works longer than its peers is told where chance does not explain it") {
    const auto slow_beside_uneven = [](double times) {
        std::mt19937 random(7);
        std::lognormal_distribution<double> factor(0, 0.3);
        std::array<std::array<double, kTableSteps>, kTableRanks> factors{};
        for (auto& of_rank : factors) {
            for (double& one : of_rank) {
                one = factor(random) * (&of_rank == &factors[2] ? times : 1);
            }
        }
        // Two parts of each step.
        TableJob job([&](int rank, uint32_t half) { return 30 * factors[static_cast<size_t>(rank)][half / 2]; }, false,
                     2 * kTableSteps);
        for (analyzer::StepNode& node : job.graph.nodes) {
            node.slot = node.step % 2;
            node.step /= 2;
        }
        job.graph.steps = kTableSteps;
        job.graph.carried_ns.assign(kTableRanks * kTableSteps, 0);
        job.graph.step_ns = replay(job.graph, recorded_durations(job.graph));
        CauseSearch search(job.run, job.graph);
        find_uneven_sequences(search);
        find_slow_ranks(search);
        return search.causes.size();
    };
    CHECK(slow_beside_uneven(1.2) == 1);
    CHECK(slow_beside_uneven(1.6) == 2);
}

TEST_CASE("pauses: all ranks at once, at no distance, are the job's, unless they may wait for who is not on record") {
    TableJob job([](int rank, uint32_t step) {
        return varied(rank, step) + (is_among(step, {7, 12, 30}) ? 200.0 + 20 * rank : 0);
    });
    const std::vector<SlowCause> causes = job.causes_by(find_pauses_of_all);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().of_class == CauseClass::kPauses);
    CHECK(causes.front().ranks.size() == kTableRanks);
    CHECK(causes.front().cost_ns == doctest::Approx(3 * 340 * kTableMs / kTableSteps).epsilon(0.03));
    job.run.missing_ranks = {8};
    CHECK(job.causes_by(find_pauses_of_all).empty());
}

TEST_CASE("pauses: where the hosts are in time, it is another rank in each step that has more work") {
    const WorkMs work_ms = [](int rank, uint32_t step) {
        return varied(rank, step) * (rank == static_cast<int>(step * 5 % 9) ? 1.4 : 1);
    };
    const std::vector<SlowCause> causes = TableJob(work_ms, false).causes_by(find_pauses_of_ranks);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().of_class == CauseClass::kUnevenSequences);
    CHECK(causes.front().ranks.size() == kTableRanks);
    CHECK(causes.front().cost_ns == doctest::Approx(0.4 * kWorkMs * kTableMs * 8 / 9).epsilon(0.1));

    const std::vector<SlowCause> of_hosts = TableJob(work_ms, true).causes_by(find_pauses_of_ranks);
    REQUIRE(of_hosts.size() == 1);
    CHECK(of_hosts.front().of_class == CauseClass::kGarbageCollection);
}

TEST_CASE("pauses: what all GPUs take longer for in every fourth or fifth step is work") {
    const WorkMs work_ms = [](int rank, uint32_t step) {
        return varied(rank, step) + (is_among(step, {4, 9, 13, 18, 22, 27, 31, 36}) ? 200 : 0);
    };
    CHECK(TableJob(work_ms, true).causes_by(find_pauses_of_all).size() == 1);
    CHECK(TableJob(work_ms, false).causes_by(find_pauses_of_all).empty());
}

TEST_CASE("pauses: a rank that pauses among others that have a little too much by chance pauses alone") {
    const TableJob job([](int rank, uint32_t step) {
        return varied(rank, step) + (rank == 3 && is_among(step, {7, 12, 19, 23, 30, 36}) ? 300.0 : 0) +
               (rank != 3 && step == static_cast<uint32_t>(5 + 4 * rank) ? 30.0 : 0);
    });
    CHECK(job.causes_by(find_pauses_of_ranks).empty());
    const std::vector<SlowCause> causes = job.causes_by(find_slow_ranks);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().of_class == CauseClass::kPauses);
    CHECK(causes.front().ranks == std::vector<int>{3});
}

TEST_CASE("pauses: where GPUs are not watched, hosts tell whose they are") {
    // The others' moments are filled in: they seem to pause, too.
    TableJob job([](int rank, uint32_t step) { return varied(rank, step) + (is_among(step, {7, 12, 30}) ? 200 : 0); });
    for (uint32_t n = 0; n < job.graph.nodes.size(); ++n) {
        job.graph.nodes[n].host_late = n / kTableSteps == 3;
    }
    CHECK(job.causes_by(find_pauses_of_all).size() == 1);
    job.graph.sample = 3;
    CHECK(job.causes_by(find_pauses_of_all).empty());
    const std::vector<SlowCause> causes = job.causes_by(find_pauses_of_hosts);
    REQUIRE(causes.empty());  // all other ranks are as late
    const TableJob one([](int rank, uint32_t step) {
        return varied(rank, step) + (rank == 3 && is_among(step, {7, 12, 30}) ? 200.0 : 0);
    });
    REQUIRE(one.causes_by(find_pauses_of_hosts).size() == 1);
    CHECK(one.causes_by(find_pauses_of_hosts).front().ranks == std::vector<int>{3});
    CHECK(one.causes_by([](CauseSearch& search) {
                 find_slow_ranks(search);
                 find_pauses_of_hosts(search);
             })
              .size() == 1);  // it is told once
}

TEST_CASE("causes: what a told one takes is not left for those that are looked for behind it") {
    const TableJob job([](int rank, uint32_t step) {
        return varied(rank, step) * (1 + 0.5 * ((step * 7 + static_cast<uint32_t>(rank) * 3) % 5));
    });
    CauseSearch search(job.run, job.graph);
    analyzer::RankSteps amounts_ns(search.ranks(), search.steps());
    amounts_ns.for_each([&](size_t r, size_t s, double& ns) {
        ns = s < kTableSteps ? std::max(0.0, search.left_ns.at(r, s) - kWorkMs * kTableMs) : 0;
    });
    REQUIRE(search.add({}, amounts_ns));
    for (size_t n = 0; n < job.graph.nodes.size(); ++n) {
        CHECK(search.left().own_ns[n] <= 1.01 * kWorkMs * kTableMs);
    }
}

TEST_CASE("everyone: what all ranks work longer for in some steps alone is no change") {
    const WorkMs since = [](int rank, uint32_t step) { return varied(rank, step) * (step < 10 ? 1 : 1.2); };
    REQUIRE(TableJob(since).causes_by(find_everyone).size() == 1);
    const WorkMs now_and_then = [](int rank, uint32_t step) { return varied(rank, step) * (step % 8 < 4 ? 1 : 1.2); };
    CHECK(TableJob(now_and_then, true, 31).causes_by(find_everyone).empty());
}

TEST_CASE("everyone: steps that are as long as before are no change, whatever part of them is work") {
    TableJob job([](int rank, uint32_t step) { return varied(rank, step) * (step < 10 ? 1 : 1.2); });
    for (analyzer::StepNode& node : job.graph.nodes) {
        node.run_ns += static_cast<float>(node.step < 10 ? 0.2 * kWorkMs * kTableMs : 0);
    }
    CHECK(job.causes_by(find_everyone).empty());
}

TEST_CASE("everyone: only the ranks of one kind work longer from some step on, or the calls with those without steps") {
    TableJob of_a_kind([](int rank, uint32_t step) {
        return varied(rank, step) * (rank < 6 ? 0.5 : step < 10 ? 1 : 1.2);
    });
    for (const uint32_t rank : {6, 7}) {
        of_a_kind.graph.roles[rank] = 1;
    }
    const std::vector<SlowCause> some = of_a_kind.causes_by(find_everyone);
    REQUIRE(some.size() == 1);
    CHECK(some.front().ranks == std::vector<int>{6, 7});
    CHECK(some.front().since_step == 10);

    TableJob with_others(varied);
    StepGraph& graph = with_others.graph;
    with_others.run.processes.emplace_back().rank = kTableRanks;
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
        graph.outside[graph.pieces[n]] = {{kTableRanks, 0}};
        graph.nodes[n].run_ns += static_cast<float>(graph.nodes[n].step < 10 ? 0 : 0.2 * kWorkMs * kTableMs);
    }
    graph.step_ns = replay(graph, recorded_durations(graph));
    const std::vector<SlowCause> others = with_others.causes_by(find_everyone);
    REQUIRE(others.size() == 1);
    CHECK(others.front().ranks == std::vector<int>{kTableRanks});
    CHECK(others.front().cost_ns == doctest::Approx(0.75 * 0.2 * kWorkMs * kTableMs).epsilon(0.05));

    graph.outside.clear();
    CHECK(with_others.causes_by(find_everyone).empty());
}

TEST_CASE("pauses: steps that are as long as the others are no pauses of all ranks, whatever part of them is work") {
    const auto pauses = [](uint32_t step) { return step == 5 || step == 12 || step == 20 || step == 33; };
    TableJob job([&](int rank, uint32_t step) { return varied(rank, step) + (pauses(step) ? 0.8 * kWorkMs : 0); });
    CHECK(job.causes_by(find_pauses_of_all).size() == 1);
    for (analyzer::StepNode& node : job.graph.nodes) {
        node.run_ns += static_cast<float>(pauses(node.step) ? 0 : 0.8 * kWorkMs * kTableMs);
    }
    CHECK(job.causes_by(find_pauses_of_all).empty());
}

TEST_CASE("pauses: work in steps that are as long as the others is no pause of single ranks") {
    const auto pauses = [](int rank, uint32_t step) { return (step + 5 * static_cast<uint32_t>(rank)) % 20 == 3; };
    TableJob job([&](int rank, uint32_t step) { return varied(rank, step) + (pauses(rank, step) ? 0.5 * kWorkMs : 0); },
                 false);
    CHECK(job.causes_by(find_pauses_of_ranks).size() == 1);
    for (analyzer::StepNode& node : job.graph.nodes) {
        bool any = false;
        for (int rank = 0; rank < kTableRanks; ++rank) {
            any |= pauses(rank, node.step);
        }
        node.run_ns += static_cast<float>(any ? 0 : 0.5 * kWorkMs * kTableMs);
    }
    CHECK(job.causes_by(find_pauses_of_ranks).empty());
}

TEST_CASE("stages: medians of few steps that vary are not said to differ, the same difference of many steps is") {
    // Ranks 4 to 7 are the last stage, and work 9 ms longer. All work is up to 20 ms more or less, in each step anew.
    const auto stages = [](uint32_t steps) {
        const auto work_ms = [](int rank, uint32_t step) {
            return kWorkMs + (rank < 4 ? 0 : 9) + 10 * (static_cast<int>(step * 7 % 5) - 2);
        };
        TableJob job(work_ms, false, steps);
        for (analyzer::Process& process : job.run.processes) {
            process.texts = {"pp", "0", "1"};
            process.labels = {{0, process.rank < 4 ? 1 : 2}};
        }
        job.run.world_size = kTableRanks;
        job.run.layout = std::make_shared<const analyzer::Layout>(analyzer::layout_of(job.run));
        return job.causes_by(analyzer::find_uneven_stages);
    };
    CHECK(stages(7).empty());
    const std::vector<SlowCause> causes = stages(2000);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().stage == 1);
}

TEST_CASE("hosts: one that is busy for longer is slow where its GPU keeps up, though it is seen a look later") {
    TableJob job([](int rank, uint32_t step) { return varied(rank, step) * (rank == 3 ? 2 : 1); }, false);
    for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
        analyzer::Process& process = job.run.processes[rank];
        const auto work_ns = static_cast<int64_t>(kWorkMs * kTableMs);
        for (uint32_t step = 0; step < kTableSteps; ++step) {
            analyzer::StepProfile profile;
            profile.step = static_cast<int32_t>(step);
            profile.end_ns = 2 * work_ns;
            profile.sync_ns = rank == 3 ? 0 : work_ns;
            process.steps.push_back(profile);
            job.graph.nodes[job.graph.begin[rank] + step].keeps_up = rank == 3;
        }
    }
    const std::vector<SlowCause> causes = job.causes_by(find_slow_ranks);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().of_class == CauseClass::kSlowRankHost);
    for (analyzer::StepNode& node : job.graph.nodes) {
        node.keeps_up = false;
    }
    CHECK(job.causes_by(find_slow_ranks).front().of_class == CauseClass::kSlowRankGpu);
}

TEST_CASE("a rank that hands its GPU more work than its peers has more work, and no slow GPU") {
    for (const uint32_t launches_of_others : {20U, 12U, 0U}) {
        CAPTURE(launches_of_others);
        TableJob job([](int rank, uint32_t) { return rank == 5 ? 1.5 * kWorkMs : kWorkMs; }, false);
        for (titan::analyzer::Process& process : job.run.processes) {
            process.sees.host_calls = true;
            for (uint32_t step = 0; step < kTableSteps; ++step) {
                titan::analyzer::StepProfile& profile = process.steps.emplace_back();
                profile.step = static_cast<int32_t>(step);
                profile.launches = process.rank == 5 ? 20 : launches_of_others;
            }
        }
        const SlowCause cause = job.causes_by(find_slow_ranks).front();
        CHECK(cause.ranks == std::vector<int>{5});
        CHECK(cause.of_class == (launches_of_others == 20 ? CauseClass::kSlowRankGpu : CauseClass::kMoreWork));
        CHECK(cause.others_idle == (launches_of_others == 0));
    }
}

TEST_CASE("slow ranks: how often others are late counts from where the rank is late itself") {
    const auto held_up_ms = [](int rank, uint32_t step) {
        const bool often = step / 3 % 5 == static_cast<uint32_t>(rank) % 5;
        return rank == 3 && step * 7 % 10 < 3 ? 15.0 : often ? 4.0 : 0;
    };
    const TableJob job([&](int rank, uint32_t step) { return varied(rank, step) + held_up_ms(rank, step); });
    const std::vector<SlowCause> causes = job.causes_by(find_slow_ranks);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().ranks == std::vector<int>{3});
    const TableJob others(
        [&](int rank, uint32_t step) { return varied(rank, step) + (rank == 3 ? 0 : held_up_ms(rank, step)); });
    CHECK(others.causes_by(find_slow_ranks).empty());
}

TEST_CASE("costs: where looks at GPUs are coarse, who seems late by chance does not hide what a cause costs") {
    TableJob job([](int rank, uint32_t step) {
        const uint32_t look = (step * 5 + static_cast<uint32_t>(rank) * 3) % 7 % 3;
        return kWorkMs + 25 * look + (rank == 3 ? 20 : 0);
    });
    const auto cost_ms = [&] {
        const CauseSearch search(job.run, job.graph);
        analyzer::RankSteps amounts_ns(search.ranks(), search.steps());
        for (uint32_t step = 0; step < kTableSteps; ++step) {
            amounts_ns.at(3, step) = 20 * kTableMs;
        }
        return search.cost_ns(search.without(amounts_ns)) / kTableMs;
    };
    CHECK(cost_ms() < 12);
    job.graph.known_ns.assign(kTableRanks, static_cast<int64_t>(50 * kTableMs));
    CHECK(cost_ms() == doctest::Approx(20).epsilon(0.1));
}

// As if each GPU were looked at every `look_ms`, at other moments of each step: all is seen up to so much late.
TableJob seen_at_looks_of(TableJob job, double look_ms) {
    StepGraph& graph = job.graph;
    graph.known_ns.assign(kTableRanks, static_cast<int64_t>(look_ms * kTableMs));
    const auto late_ns = [&](uint32_t n, uint32_t event) {
        return look_ms * kTableMs * static_cast<double>((n * 7919 + event * 104729) % 997) / 997;
    };
    const std::vector<analyzer::StepNode> exact = graph.nodes;
    for (uint32_t step = 0; step < graph.steps; ++step) {
        std::map<uint32_t, std::pair<double, double>> last_ns;  // by meeting: true and seen, both since the step before
        for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
            const uint32_t n = rank * graph.steps + step;
            auto& [last, seen] = last_ns[graph.pieces[n]];
            last = std::max(last, static_cast<double>(exact[n].own_ns));
            seen = std::max(seen, static_cast<double>(exact[n].own_ns) + late_ns(n, 1));
        }
        for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
            const uint32_t n = rank * graph.steps + step;
            const auto& [last, seen] = last_ns.at(graph.pieces[n]);
            graph.nodes[n].own_ns += static_cast<float>(late_ns(n, 1) - (step == 0 ? 0 : late_ns(n - 1, 2)));
            graph.nodes[n].run_ns =
                static_cast<float>(last + static_cast<double>(exact[n].run_ns) + late_ns(n, 2) - seen);
        }
    }
    graph.step_ns = replay(graph, recorded_durations(graph));
    return job;
}

TEST_CASE("costs: looks that lie as far apart as its calls are long do not hide what a slow link costs") {
    const std::vector<SlowCause> causes = seen_at_looks_of(halved({1, 6}), 6).causes_by(find_slow_links);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().cost_ns / kTableMs == doctest::Approx(2.5).epsilon(0.1));  // half of the ranks are in it
}

TEST_CASE("late ranks: who was played and costs no step anything is not late in calls, who a link holds up nowhere") {
    analyzer::SlowCauses slow;
    slow.step_ns = 100 * kTableMs;
    slow.ranks = {0, 1, 2};
    slow.causes.resize(2);
    slow.causes[0].of_class = CauseClass::kSlowRankGpu;
    slow.causes[0].ranks = {1};
    slow.causes[1].of_class = CauseClass::kSlowLink;
    slow.causes[1].ranks = {2, 3};
    slow.causes[1].step_ns = slow.step_ns;
    slow.causes[1].cost_ns = 15 * kTableMs;
    const auto late_ones = [&](bool in_steps, double lost_ms) {
        analyzer::Timing timing;
        timing.axes.emplace_back().steps = in_steps;
        timing.axes.front().keys.assign(50, 0);
        timing.axes.front().length_ns = 10 * kTableMs;
        for (int rank = 0; rank < 4; ++rank) {
            timing.ranks.emplace_back().rank = rank;
            timing.ranks.back().lost_ns = 50 * lost_ms * kTableMs;
            timing.ranks.back().shape.typical_ns = lost_ms * kTableMs;
            timing.ranks.back().shape.pattern = analyzer::LatePattern::kPersistent;
        }
        forget_lateness_without_cost(slow, timing);
        std::vector<int> late;
        for (const analyzer::RankTiming& rank : timing.ranks) {
            if (rank.shape.pattern != analyzer::LatePattern::kNone) {
                late.push_back(rank.rank);
            }
        }
        return late;
    };
    CHECK(late_ones(false, 2) == std::vector<int>{1, 3});  // one has a cause of its own, the other was not played
    CHECK(late_ones(true, 2) == std::vector<int>{0, 1, 3});
    CHECK(late_ones(true, 40) == std::vector<int>{0, 1, 2, 3});  // by more than the link explains
    slow.step_ns = 1000 * kTableMs;
    CHECK(late_ones(false, 2) == std::vector<int>{1});  // what one call loses is no share of a step
}

TEST_CASE("data: hosts wait for it in each step, also where their GPUs then work for longer than that") {
    TableJob job([](int, uint32_t) { return kWorkMs; }, false);
    for (analyzer::StepNode& node : job.graph.nodes) {
        node.behind_ns = 0.4F * node.own_ns;
    }
    for (analyzer::Process& process : job.run.processes) {
        process.texts = {"", "data_loading"};
        for (int32_t step = 0; step < static_cast<int32_t>(kTableSteps); ++step) {
            process.step_spans.push_back({static_cast<int64_t>(0.3 * kWorkMs * kTableMs), 0, 1});
            analyzer::StepProfile& profile = process.steps.emplace_back();
            profile.step = step;
            profile.first_span = static_cast<uint32_t>(step);
            profile.span_count = 1;
        }
    }
    const std::vector<SlowCause> causes =
        job.causes_by([](CauseSearch& search) { find_host_parts(search, analyzer::HowOften::kAny); });
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().of_class == CauseClass::kDataLoading);
    CHECK(causes.front().cost_ns == doctest::Approx(0.3 * kWorkMs * kTableMs).epsilon(0.02));
}
