// What recognisers make of a job that is given as a table: how long each rank works by itself in each step.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "cause_search.h"
#include "late_ranks.h"
#include "layout.h"
#include "patterns.h"

namespace {

using namespace titan;
using analyzer::CauseClass;
using analyzer::CauseSearch;
using analyzer::find_everyone;
using analyzer::find_pauses_of_all;
using analyzer::find_pauses_of_hosts;
using analyzer::find_pauses_of_ranks;
using analyzer::find_slow_links;
using analyzer::find_slow_ranks;
using analyzer::SlowCause;
using analyzer::StepGraph;

constexpr double kTableMs = 1e6;
constexpr int kTableRanks = 8;
constexpr uint32_t kTableSteps = 40;
constexpr double kWorkMs = 50;
constexpr double kRunMs = 2;

using WorkMs = std::function<double(int rank, uint32_t step)>;

// A job whose ranks work, and then meet in one all_reduce per step.
struct TableJob {
    explicit TableJob(const WorkMs& work_ms, bool hosts_are_late = true, uint32_t steps = kTableSteps) {
        graph.steps = steps;
        graph.step_ns = (kWorkMs + kRunMs) * kTableMs;
        graph.roles.assign(kTableRanks, 0);
        graph.began_ns.assign(kTableRanks, 0);
        graph.tail_ns.assign(kTableRanks, 0);
        graph.known_ns.assign(kTableRanks, 1000);
        graph.carried_ns.assign(kTableRanks * steps, 0);
        graph.meeting_size.assign(steps, kTableRanks);
        graph.meeting_route.assign(steps, 0);
        graph.routes = {{0, -1, -1, format::OpKind::kAllReduce, 20}};
        for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
            run.processes.emplace_back().rank = static_cast<int>(rank);
            run.processes.back().host = "node-0";
            graph.processes.push_back(rank);
            graph.begin.push_back(rank * steps);
            graph.last.push_back((rank + 1) * steps - 1);
            for (uint32_t step = 0; step < steps; ++step) {
                const uint32_t n = rank * steps + step;
                analyzer::StepNode node;
                node.own_ns = static_cast<float>(work_ms(static_cast<int>(rank), step) * kTableMs);
                node.run_ns = kRunMs * kTableMs;
                node.has_end = true;
                node.step = step;
                node.before = step == 0 ? format::kNoIndex : n - 1;
                node.after_end = step != 0;
                node.host_late = hosts_are_late && static_cast<double>(node.own_ns) > kWorkMs * kTableMs;
                graph.nodes.push_back(node);
                graph.piece_begin.push_back(n);
                graph.pieces.push_back(step);
            }
        }
        graph.begin.push_back(kTableRanks * steps);
        graph.piece_begin.push_back(kTableRanks * steps);
        for (uint32_t step = 0; step < steps; ++step) {
            for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
                graph.order.push_back(rank * steps + step);
            }
        }
        graph.step_ns = replay(graph, recorded_durations(graph));
    }

    std::vector<SlowCause> causes_by(void (*find)(CauseSearch&)) const {
        CauseSearch search(run, graph);
        find(search);
        return search.causes;
    }

    analyzer::Run run;
    StepGraph graph;
};

// The same with an exchange in place of the all_reduce, in groups of equal size: each rank sends to each other one of
// its group and receives from it, two messages in a meeting. `run_ms`: of the messages between two ranks.
TableJob exchanging(const std::function<double(int rank, int other)>& run_ms, int groups = 1) {
    TableJob job([](int, uint32_t) { return kWorkMs; });
    StepGraph& graph = job.graph;
    const int size = kTableRanks / groups;
    graph.piece_begin.clear();
    graph.pieces.clear();
    graph.meeting_size.clear();
    graph.meeting_route.clear();
    graph.routes.clear();
    std::map<std::pair<int, int>, uint32_t> places;
    for (int low = 0; low < kTableRanks; ++low) {
        for (int high = low + 1; high < kTableRanks && high / size == low / size; ++high) {
            places[{low, high}] = static_cast<uint32_t>(graph.routes.size());
            graph.routes.push_back(
                {static_cast<uint32_t>(low / size), low % size, high % size, format::OpKind::kSend, 20});
        }
    }
    const auto pairs = static_cast<uint32_t>(graph.routes.size());
    for (uint32_t step = 0; step < kTableSteps; ++step) {
        for (uint32_t pair = 0; pair < pairs; ++pair) {
            graph.meeting_size.push_back(2);
            graph.meeting_route.push_back(pair);
        }
    }
    job.run.communicators.resize(static_cast<size_t>(groups));
    for (int rank = 0; rank < kTableRanks; ++rank) {
        analyzer::Communicator& group = job.run.communicators[static_cast<size_t>(rank / size)];
        group.size = size;
        group.members.push_back({static_cast<uint32_t>(rank), 0});
        analyzer::Member& member = job.run.processes[static_cast<size_t>(rank)].members.emplace_back();
        member.rank = rank % size;
        member.global_rank = rank;
        for (uint32_t step = 0; step < kTableSteps; ++step) {
            double longest_ms = 0;
            graph.piece_begin.push_back(static_cast<uint32_t>(graph.pieces.size()));
            for (int other = rank / size * size; other < (rank / size + 1) * size; ++other) {
                if (other != rank) {
                    graph.pieces.push_back(step * pairs + places[{std::min(rank, other), std::max(rank, other)}]);
                    longest_ms = std::max(longest_ms, run_ms(rank, other));
                }
            }
            graph.nodes[graph.begin[static_cast<size_t>(rank)] + step].run_ns =
                static_cast<float>(longest_ms * kTableMs);
        }
    }
    graph.piece_begin.push_back(static_cast<uint32_t>(graph.pieces.size()));
    graph.step_ns = replay(graph, recorded_durations(graph));
    return job;
}

// The same in two groups of four ranks: so long the all_reduce of each takes.
TableJob halved(const std::array<double, 2>& run_ms) {
    TableJob job([](int, uint32_t) { return kWorkMs; });
    StepGraph& graph = job.graph;
    graph.routes.push_back(graph.routes.front());
    graph.routes.back().communicator = 1;
    graph.meeting_size.assign(size_t{2} * kTableSteps, kTableRanks / 2);
    graph.meeting_route.clear();
    for (uint32_t step = 0; step < kTableSteps; ++step) {
        graph.meeting_route.insert(graph.meeting_route.end(), {0, 1});
    }
    job.run.communicators.resize(2);
    for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
        const uint32_t group = rank / (kTableRanks / 2);
        job.run.communicators[group].size = kTableRanks / 2;
        job.run.communicators[group].members.push_back({rank, 0});
        job.run.processes[rank].members.emplace_back().global_rank = static_cast<int>(rank);
        for (uint32_t step = 0; step < kTableSteps; ++step) {
            const uint32_t n = graph.begin[rank] + step;
            graph.pieces[n] = 2 * step + group;
            graph.nodes[n].run_ns = static_cast<float>(run_ms[group] * kTableMs);
        }
    }
    graph.step_ns = replay(graph, recorded_durations(graph));
    return job;
}

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

TEST_CASE("links: one slow pair of an all-to-all shows on the two ranks whose exchanges take long") {
    const auto run_ms = [](int rank, int other) { return std::min(rank, other) == 0 && rank + other == 7 ? 9.0 : 1.5; };
    const std::vector<SlowCause> causes = exchanging(run_ms).causes_by(find_slow_links);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().of_class == CauseClass::kSlowLink);
    CHECK(causes.front().ranks == std::vector<int>{0, 7});
    CHECK(causes.front().hosts.empty());  // other ranks of that host are as fast as ever
    CHECK(causes.front().cost_ns == doctest::Approx(7.5 * kTableMs).epsilon(0.02));
    CHECK(exchanging([](int, int) { return 1.5; }).causes_by(find_slow_links).empty());
}

TEST_CASE("links: of two groups the one whose calls take twice as long is slow") {
    const std::vector<SlowCause> causes = halved({5, 16}).causes_by(find_slow_links);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().ranks == std::vector<int>{4, 5, 6, 7});
    CHECK(causes.front().cost_ns == doctest::Approx(11 * kTableMs / 2).epsilon(0.02));  // half of the ranks wait
    CHECK(halved({5, 8}).causes_by(find_slow_links).empty());
    // That its last calls are fast does not make it fast before.
    TableJob recovers = halved({5, 16});
    for (analyzer::StepNode& node : recovers.graph.nodes) {
        node.run_ns = node.step + 2 < kTableSteps ? node.run_ns : static_cast<float>(6 * kTableMs);
    }
    const std::vector<SlowCause> recovered = recovers.causes_by(find_slow_links);
    REQUIRE(recovered.size() == 1);
    CHECK(recovered.front().cost_ns > 4 * kTableMs);
}

TEST_CASE("links: where one rank is slow to exchange, so is its whole group, beside the other group") {
    const auto run_ms = [](int rank, int other) { return rank == 4 || other == 4 ? 9.0 : 2.0; };
    const std::vector<SlowCause> causes = exchanging(run_ms, 2).causes_by(find_slow_links);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().ranks == std::vector<int>{4, 5, 6, 7});
    CHECK(exchanging([](int, int) { return 2.0; }, 2).causes_by(find_slow_links).empty());
}

TEST_CASE("links: many calls tell a difference below the distance between two looks, few do not") {
    // Calls end at a look, which each comes at another time after the call had begun.
    const auto seen_at_looks = [](TableJob job) {
        job.graph.known_ns.assign(kTableRanks, static_cast<int64_t>(2 * kTableMs));
        for (size_t n = 0; n < job.graph.nodes.size(); ++n) {
            analyzer::StepNode& node = job.graph.nodes[n];
            const double began_ms = 2 * (0.5 + (node.step + 2 * (n / kTableSteps)) % 8) / 8;
            node.run_ns = static_cast<float>(2 * kTableMs * std::floor((node.run_ns / kTableMs + began_ms) / 2));
        }
        return job;
    };
    const std::vector<SlowCause> causes = seen_at_looks(halved({1, 3})).causes_by(find_slow_links);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().ranks == std::vector<int>{4, 5, 6, 7});
    CHECK(seen_at_looks(halved({1, 1.6})).causes_by(find_slow_links).empty());
}

TEST_CASE("links: all exchanges of a group together tell what those of one rank do not") {
    const auto exchanges = [](double slow_ms) {
        TableJob job = exchanging([=](int rank, int) { return rank < 4 ? slow_ms : 4; }, 2);
        job.graph.known_ns.assign(kTableRanks, static_cast<int64_t>(10 * kTableMs));
        return job.causes_by(find_slow_links);
    };
    CHECK(exchanges(8).empty());
    const std::vector<SlowCause> causes = exchanges(10);
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().ranks == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("links: messages of a size that comes for the first time are no slower than others before") {
    TableJob job = exchanging([](int, int) { return 3.0; });
    StepGraph& graph = job.graph;
    const auto pairs = static_cast<uint32_t>(graph.routes.size());
    for (uint32_t pair = 0; pair < pairs; ++pair) {
        analyzer::StepRoute larger = graph.routes[pair];
        ++larger.size_bits;
        graph.routes.push_back(larger);
    }
    for (uint32_t meeting = 5 * pairs; meeting < graph.meeting_route.size(); ++meeting) {
        graph.meeting_route[meeting] += pairs;
    }
    CHECK(job.causes_by(find_slow_links).empty());
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
