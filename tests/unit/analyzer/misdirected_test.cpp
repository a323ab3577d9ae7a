// A send or receive with the wrong peer: its own peer never heard of it, and the usual one waits for the missing half.
#include <doctest/doctest.h>

#include <string>

#include "played.h"

using namespace titan::test;

namespace {

struct Shape {
    bool steps;      // step markers
    bool in_groups;  // each message in a group of its own
};

// Each step: rank 0 sends to 1 and 2 to 3, then an all_reduce of all.
void write_pairs(Scenario& job, int steps, const Shape& shape) {
    job.every_rank([&](int rank, Program& program) {
        for (int step = 0; step < steps; ++step) {
            if (shape.steps) {
                program.step(step);
            }
            if (shape.in_groups) {
                program.group_start();
            }
            rank % 2 == 0 ? program.send("world", rank + 1) : program.recv("world", rank - 1);
            if (shape.in_groups) {
                program.group_end();
            }
            program.sync().all_reduce("world").sync();
        }
    });
}

titan::synth::Action& nth_pair_call(Program& program, size_t n) {
    for (auto& action : program.actions) {
        const bool pair = action.op == titan::format::OpKind::kSend || action.op == titan::format::OpKind::kRecv;
        if (action.kind == titan::synth::Action::kCall && pair && n-- == 0) {
            return action;
        }
    }
    throw std::out_of_range("no such call");
}

Scenario pairs_job(bool gpu, const Shape& shape, int steps = 40) {
    ScenarioOptions options;
    options.gpu_progress = gpu;
    Scenario job(4, options);
    write_pairs(job, steps, shape);
    return job;
}

}  // namespace

TEST_CASE("a first send to another rank than always is told of the sender, with and without steps and GPU") {
    for (const bool steps : {true, false}) {
        for (const bool gpu : {true, false}) {
            for (const bool in_groups : {true, false}) {
                CAPTURE(steps);
                CAPTURE(gpu);
                CAPTURE(in_groups);
                Scenario job = pairs_job(gpu, {steps, in_groups});
                nth_pair_call(job.program(0), 30).peer = 2;
                const Played played = play(job);
                REQUIRE(played.diagnosis.findings.size() == 1);
                CHECK(played.head().kind == FindingKind::kP2pUnmatched);
                CHECK(played.head().ranks == ranks({0}));
                CHECK(played.head().victims == ranks({1, 2, 3}));
                CHECK(played.head().confidence == Confidence::kLikely);
            }
        }
    }
}

TEST_CASE("a first receive from another rank than always is told of the receiver") {
    for (const bool steps : {true, false}) {
        Scenario job = pairs_job(true, {steps, false});
        nth_pair_call(job.program(3), 30).peer = 0;
        const Played played = play(job);
        REQUIRE(played.diagnosis.findings.size() == 1);
        CHECK(played.head().kind == FindingKind::kP2pUnmatched);
        CHECK(played.head().ranks == ranks({3}));
    }
}

TEST_CASE("in the second step nothing earlier is known yet, but the pair is new and the usual peer waits") {
    Scenario job = pairs_job(true, {true, false});
    nth_pair_call(job.program(0), 3).peer = 2;
    const Played played = play(job);
    REQUIRE(!played.healthy());
    CHECK(played.head().kind == FindingKind::kP2pUnmatched);
    CHECK(played.head().ranks == ranks({0}));
}

TEST_CASE("a new pair whose other side is kept from coming by something else accuses nobody of the pair") {
    for (const int sleeper : {1, 2, 3}) {
        CAPTURE(sleeper);
        Scenario job = pairs_job(true, {true, false});
        // A new exchange of 0 and 2 before the step's own messages; somebody sleeps in program code.
        job.program(0).insert_before("world", 60, Program().send("world", 2).sync());
        job.program(2).insert_before("world", 60, Program().recv("world", 0).sync());
        job.program(sleeper).insert_before("world", sleeper == 2 ? 60 : 59, Program().sleep());
        const Played played = play(job);
        REQUIRE(!played.healthy());
        CHECK(played.head().ranks == std::vector<int>{sleeper});
    }
}
