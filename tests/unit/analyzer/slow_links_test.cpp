// Slow links: calls that take longer than their like though nobody came late to them.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "table_job.h"

namespace {

using titan::analyzer::CauseClass;
using namespace titan;
using namespace titan::test;
using analyzer::find_slow_links;

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

}  // namespace

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

TEST_CASE("links: looks that drift past short calls make them no slower than before") {
    // A call of 1.2 ms, seen by looks that are 2 ms apart: for some steps it seems to take nothing, for others 2 ms.
    const auto all_ranks = [](const std::function<double(uint32_t step)>& run_ms) {
        TableJob job([](int, uint32_t) { return kWorkMs / 10; });
        StepGraph& graph = job.graph;
        graph.known_ns.assign(kTableRanks, 2'000'000);
        job.run.communicators.resize(1);
        job.run.communicators.front().size = kTableRanks;
        for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
            job.run.communicators.front().members.push_back({rank, 0});
            job.run.processes[rank].members.emplace_back().global_rank = static_cast<int>(rank);
        }
        for (analyzer::StepNode& node : graph.nodes) {
            node.run_ns = static_cast<float>(run_ms(node.step) * kTableMs);
        }
        graph.step_ns = replay(graph, recorded_durations(graph));
        return job.causes_by(find_slow_links);
    };
    CHECK(all_ranks([](uint32_t step) { return step < 8 || step % 8 < 3 ? 0.2 : 1.4; }).empty());
    CHECK(all_ranks([](uint32_t step) { return step < 8 ? 0.2 + 0.1 * (step % 4) : 1.4; }).size() == 1);
    CHECK(all_ranks([](uint32_t step) { return step < 8 || step % 8 < 3 ? 0.2 : 9.0; }).size() == 1);
}
