// The parts of a graph of steps: what a node waited for, when calls ran that nobody saw, whose step a host's time is.
#include <doctest/doctest.h>

#include "cause_search.h"
#include "node_chains.h"
#include "replay.h"
#include "step_work.h"
#include "unseen_launches.h"

namespace {

using namespace titan;
using analyzer::RawNode;
using analyzer::StepGraph;

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kSteps = 30;

struct Nodes {
    StepGraph graph;
    std::vector<RawNode> raw;
    std::vector<std::vector<uint32_t>> came;

    void begin_rank() {
        graph.processes.push_back(static_cast<uint32_t>(graph.processes.size()));
        graph.roles.push_back(0);
        graph.begin.push_back(static_cast<uint32_t>(raw.size()));
        graph.steps = kSteps;
        graph.known_ns.push_back(100'000);
    }
    void add(uint32_t step, uint32_t slot, format::OpKind kind, int64_t entered_ns, int64_t arrived_ns,
             int64_t ended_ns) {
        analyzer::StepNode node;
        node.step = step;
        node.slot = slot;
        graph.nodes.push_back(node);
        raw.push_back({entered_ns, arrived_ns, ended_ns, step, 1, kind});
        graph.piece_begin.push_back(0);
    }
    void chain() {
        graph.begin.push_back(static_cast<uint32_t>(raw.size()));
        graph.piece_begin.push_back(0);
        chain_nodes(raw, came, graph);
    }
};

// Gathers that the host hands over long before the computation comes to them, and sums of gradients beside the backward
// pass, to which the last rank comes long after the others.
Nodes sharded_job() {
    Nodes job;
    for (int rank = 0; rank < 8; ++rank) {
        job.begin_rank();
        const int64_t work_ns = rank == 7 ? 60 * kMs : 25 * kMs;
        for (uint32_t step = 0; step < kSteps; ++step) {
            const int64_t begin_ns = 1000 * kMs + int64_t{step} * 300 * kMs;
            for (uint32_t part = 0; part < 3; ++part) {
                const int64_t gathered_ns = begin_ns + int64_t{part + 1} * 3 * kMs;
                job.add(step, 2 * part, format::OpKind::kAllGather, begin_ns, gathered_ns - 3 * kMs, gathered_ns);
                // The stream of the sums does one after the other: each rank comes to it when the last one has.
                const int64_t came_ns = begin_ns + int64_t{part + 1} * work_ns;
                const int64_t before_ns = part == 0 ? 0 : begin_ns + int64_t{part} * 60 * kMs + 5 * kMs;
                job.add(step, 2 * part + 1, format::OpKind::kReduceScatter, begin_ns, std::max(came_ns, before_ns),
                        begin_ns + int64_t{part + 1} * 60 * kMs + 5 * kMs);
            }
        }
    }
    job.chain();
    return job;
}

// A trainer of 10 ms steps, to whom two generators (processes 1 and 2) send, and who sends new weights to these and to
// two more: by how much each comes later than the trainer.
StepGraph trained_by_generators(const std::vector<double>& late_ms) {
    StepGraph graph;
    graph.processes = graph.roles = {0};
    graph.begin = {0};
    graph.steps = kSteps;
    graph.step_ns = 10 * kMs;
    graph.began_ns = graph.tail_ns = {0};
    graph.known_ns = {0};
    graph.carried_ns.assign(kSteps, 0);
    graph.routes = {{0, 1, 0, format::OpKind::kRecv, 0}, {0, -1, -1, format::OpKind::kBroadcast, 0}};
    for (uint32_t n = 0; n < 2 * kSteps; ++n) {
        const bool sends = n % 2 == 0;
        analyzer::StepNode node;
        node.own_ns = 1 * kMs;
        node.run_ns = 4 * kMs;
        node.step = n / 2;
        node.slot = n % 2;
        node.before = n == 0 ? format::kNoIndex : n - 1;
        node.after_end = n != 0;
        graph.nodes.push_back(node);
        graph.order.push_back(n);
        graph.piece_begin.push_back(n);
        graph.pieces.push_back(n);
        graph.meeting_size.push_back(1);
        graph.meeting_route.push_back(sends ? 0 : 1);
        for (uint32_t process = 1; process <= (sends ? 2u : 4u); ++process) {
            graph.outside[n].push_back({process, late_ms[process - 1] * kMs});
        }
    }
    graph.piece_begin.push_back(2 * kSteps);
    graph.begin.push_back(2 * kSteps);
    graph.last = {2 * kSteps - 1};
    return graph;
}

std::vector<analyzer::SlowCause> other_jobs_of(const StepGraph& graph) {
    analyzer::Run run;
    for (int rank = 0; rank < 5; ++rank) {
        run.processes.emplace_back().rank = rank;
    }
    analyzer::CauseSearch search(run, graph);
    find_other_jobs(search);
    return search.causes;
}

}  // namespace

TEST_CASE("replay: generators are compared with those that send as they do, not with those that only get weights") {
    CHECK(other_jobs_of(trained_by_generators({3, 3, 0.5, 0.5})).empty());
    const auto causes = other_jobs_of(trained_by_generators({3, 0.5, 0.5, 0.5}));
    REQUIRE(causes.size() == 1);
    CHECK(causes.front().ranks == std::vector<int>{1});
}

TEST_CASE("replay: a call waits for none that the program makes behind it") {
    const Nodes job = sharded_job();
    for (uint32_t n = 0; n < job.raw.size(); ++n) {
        const uint32_t before = job.graph.nodes[n].before;
        CHECK((before == format::kNoIndex || before < n || job.raw[before].step <= job.raw[n].step));
        if (job.graph.nodes[n].slot == 0 && job.graph.nodes[n].step != 0) {
            CHECK(before < n);
        }
    }
}

TEST_CASE("replay: of calls that are watched in every third step it is known when they ran in the others") {
    Nodes job;
    job.begin_rank();
    constexpr uint32_t kCalls = 4;
    std::vector<int64_t> came_ns;
    analyzer::StepMoments moments(1);
    int64_t begin_ns = 1000 * kMs;
    for (uint32_t step = 0; step < kSteps; ++step) {
        moments[0].push_back(begin_ns);
        const int64_t every_ns = step == 20 ? 45 * kMs : 30 * kMs;  // all of that step takes longer
        for (uint32_t call = 0; call < kCalls; ++call) {
            came_ns.push_back(begin_ns + int64_t{call + 1} * every_ns - 2 * kMs);
            const bool watched = (step * kCalls + call) % 3 == 0;
            job.add(step, call, format::OpKind::kAllReduce, begin_ns, watched ? came_ns.back() : 0,
                    watched ? came_ns.back() + 2 * kMs : 0);
        }
        begin_ns += kCalls * every_ns;
    }
    moments[0].push_back(begin_ns);
    job.graph.begin.push_back(static_cast<uint32_t>(job.raw.size()));
    job.graph.piece_begin.push_back(0);
    REQUIRE(fill_unseen(moments, job.graph, job.raw));
    // Behind the last call that is watched in the long step nothing tells how long the others take there.
    const auto is_known = [&](uint32_t n) { return n / kCalls != 20 || n % kCalls < 2; };
    for (uint32_t n = 0; n < job.raw.size(); ++n) {
        CAPTURE(n);
        CHECK((!is_known(n) || std::abs(job.raw[n].arrived_ns - came_ns[n]) < 2 * kMs));
        CHECK(job.raw[n].ended_ns >= job.raw[n].arrived_ns);
    }
    // Where each step has the same calls watched, nobody knows of the others.
    for (RawNode& node : job.raw) {
        const bool watched = &node - job.raw.data() == 0 || node.step == 1;
        node.arrived_ns = watched ? node.arrived_ns : 0;
        node.ended_ns = watched ? node.ended_ns : 0;
    }
    CHECK(!fill_unseen(moments, job.graph, job.raw));
}

TEST_CASE("replay: time behind a step's calls counts to the next step") {
    Nodes job;
    job.begin_rank();
    for (uint32_t step = 0; step < kSteps; ++step) {
        job.add(step, 0, format::OpKind::kAllReduce, 0, 0, 0);
        job.graph.nodes.back().own_ns = 10.0F * kMs;
    }
    job.graph.begin.push_back(static_cast<uint32_t>(job.raw.size()));
    job.graph.tail_ns = {7.0 * kMs};
    job.graph.carried_ns.assign(kSteps, 0);
    job.graph.carried_ns[3] = 5.0F * kMs;
    analyzer::Run run;
    run.processes.resize(1);
    analyzer::Process& process = run.processes[0];
    process.sees.host_calls = true;
    for (uint32_t step = 0; step < kSteps; ++step) {
        analyzer::StepProfile profile;
        profile.step = static_cast<int32_t>(step);
        profile.begin_ns = step * 100 * kMs;
        profile.end_ns = profile.begin_ns + 100 * kMs;
        profile.memory_ns = 4 * kMs;
        process.steps.push_back(profile);
    }
    const analyzer::StepWork work = step_work(run, job.graph);
    CHECK(work.work_ns.at(0, 3) == doctest::Approx(10.0 * kMs));
    CHECK(work.work_ns.at(0, kSteps) == doctest::Approx(7.0 * kMs));
    const analyzer::RankSteps& memory = work.of(analyzer::HostPart::kAllocator);
    CHECK(memory.at(0, 3) == doctest::Approx(0));
    CHECK(memory.at(0, 4) == doctest::Approx(8.0 * kMs));
}
