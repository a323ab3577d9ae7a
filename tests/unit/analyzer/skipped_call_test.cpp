// A call that was left out looks much like one that is only late, or in another order, or captured, or forgotten by the
// ring.
#include <doctest/doctest.h>

#include "played.h"

using namespace titan::test;

namespace {

constexpr uint64_t kSide = 0x52;

bool says_undecidable(const Finding& finding) {
    return finding.summary.find("undecidable") != std::string::npos ||
           std::any_of(finding.evidence.begin(), finding.evidence.end(),
                       [](const std::string& line) { return line.find("undecidable") != std::string::npos; });
}

// A pipeline of two stages, of two ranks each: activations down, gradients up.
void write_pipeline(Scenario& job, int steps, bool marked) {
    job.communicator("pp:0", {0, 2});
    job.communicator("pp:1", {1, 3});
    job.every_rank([&](int rank, Program& program) {
        const std::string pp = rank % 2 == 0 ? "pp:0" : "pp:1";
        for (int step = 0; step < steps; ++step) {
            if (marked) {
                program.step(step);
            }
            rank < 2 ? program.send(pp, 1).sync().recv(pp, 1) : program.recv(pp, 0).send(pp, 0).sync();
            program.all_reduce("world", 1).sync();
        }
    });
}

// Two tensor parallel pairs in one world; nothing tells the steps.
void write_unmarked(Scenario& job, int steps) {
    job.communicator("tp:0", {0, 1});
    job.communicator("tp:1", {2, 3});
    job.every_rank([&](int rank, Program& program) {
        for (int step = 0; step < steps; ++step) {
            for (int layer = 0; layer < 3; ++layer) {
                program.all_reduce(rank < 2 ? "tp:0" : "tp:1", 4096);
            }
            program.all_reduce("world", 1).sync();
        }
    });
}

}  // namespace

TEST_CASE("a receive that was left out is no cycle of two sends, where the rank always made it there") {
    Scenario job(4);
    write_pipeline(job, 6, true);
    job.program(3).skip("pp:1", 8);  // the receive of step 4
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kP2pUnmatched);
    CHECK(played.head().ranks == ranks({3}));
    CHECK(played.head().confidence == Confidence::kLikely);
    CHECK(says_undecidable(played.head()));
    CHECK(played.head().cycle.size() == 2);
}

TEST_CASE("two sends that nobody ever made there are a cycle for certain") {
    Scenario job(4);
    write_pipeline(job, 6, true);
    job.program(1).insert_before("world", 4, Program().send("pp:1", 1).sync().recv("pp:1", 1));
    job.program(3).insert_before("world", 4, Program().send("pp:1", 0).sync().recv("pp:1", 0));
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kP2pCycle);
    CHECK(played.head().ranks == ranks({1, 3}));
    CHECK(played.head().confidence == Confidence::kCertain);
}

TEST_CASE("two sends without a past: who left out what is undecidable, and both are named") {
    Scenario job(4);
    write_pipeline(job, 2, true);
    job.program(3).skip("pp:1", 0);
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kP2pCycle);
    CHECK(played.head().ranks == ranks({1, 3}));
    CHECK(played.head().confidence == Confidence::kLikely);
    CHECK(says_undecidable(played.head()));
}

TEST_CASE("without step markers a call left out is told from a changed order by how much lies between") {
    for (const bool skips : {true, false}) {
        CAPTURE(skips);
        Scenario job(4);
        write_unmarked(job, 8);
        if (skips) {
            job.program(1).skip("world", 5);
        } else {
            std::swap(job.program(1).nth_call("world", 5), job.program(1).nth_call("tp:0", 17));
        }
        const Played played = play(job);
        REQUIRE_FALSE(played.healthy());
        CHECK(played.head().kind == (skips ? FindingKind::kRankNotArrived : FindingKind::kOrderInversion));
        CHECK(played.head().ranks == ranks({1}));
        CHECK(played.head().confidence == Confidence::kLikely);
    }
}

TEST_CASE("who waits in its next step because it left a call out does not blame the others for not being there") {
    Scenario job(4);
    job.communicator("tp:0", {0, 1});
    job.communicator("tp:1", {2, 3});
    job.communicator("dp:0", {0, 2});
    job.communicator("dp:1", {1, 3});
    job.every_rank([&](int rank, Program& program) {
        for (int step = 0; step < 8; ++step) {
            program.all_reduce(rank < 2 ? "tp:0" : "tp:1", 4096).all_reduce(rank < 2 ? "tp:0" : "tp:1", 8192);
            program.call(rank % 2 == 0 ? "dp:0" : "dp:1", titan::format::OpKind::kReduceScatter).on_stream(kSide);
            program.all_reduce("world", 1).sync().sync(kSide);
        }
    });
    job.program(3).skip("world", 5);
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    for (const Finding& finding : played.diagnosis.findings) {
        CAPTURE(finding.summary);
        CHECK((finding.ranks == ranks({3}) || finding.confidence != Confidence::kCertain));
    }
    CHECK(played.head().ranks == ranks({3}));
}

TEST_CASE("a capture among equal calls is found, though the calls after it took its number") {
    Scenario job(4);
    job.every_rank([](int, Program& program) {
        for (int step = 0; step < 8; ++step) {
            program.all_reduce("world", 64);
        }
        program.sync();
    });
    // The third call goes into a graph that is never launched; six more follow, all alike.
    Program& program = job.program(2);
    program.insert_before("world", 3, Program().end_capture());
    program.insert_before("world", 2, Program().capture(9));
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kCaptureMismatch);
    CHECK(played.head().ranks == ranks({2}));
}

TEST_CASE("rings that lost unfinished calls give one finding, which names all that may be the cause") {
    ScenarioOptions options;
    options.collectives = 16;
    Scenario job(4, options);
    job.communicator("tp:0", {0, 1});
    job.communicator("tp:1", {2, 3});
    job.every_rank([&](int rank, Program& program) {
        for (int call = 0; call < 40; ++call) {
            program.all_reduce(rank < 2 ? "tp:0" : "tp:1", 64).all_reduce("world", 64);
        }
        program.sync();
    });
    for (const int rank : {2, 3}) {
        job.program(rank).nth_call("tp:1", 4).never_finishes = true;
    }
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kStuckInFlight);
    CHECK(played.head().ranks == ranks({0, 1, 2, 3}));
    CHECK(played.head().confidence == Confidence::kPossible);
    CHECK(says_undecidable(played.head()));
    CHECK_FALSE(played.head().would_confirm.empty());
}

TEST_CASE("the first call of a communicator may take as long as its creation") {
    for (const bool long_ago : {false, true}) {
        CAPTURE(long_ago);
        ScenarioOptions options;
        options.hang_s = long_ago ? 12 : 2;
        Scenario job(2, options);
        job.every_rank([](int rank, Program& program) {
            if (rank == 1) {
                program.sleep();
            }
            program.all_reduce("world", 64).sync();
        });
        CHECK(play(job, {}, "signal").healthy() != long_ago);
    }
}

TEST_CASE("a pair's member that never came to the creation is not mistaken for the rank without a dump") {
    Scenario job(8);
    for (int i = 0; i < 4; ++i) {
        job.communicator("dp:" + std::to_string(i), {i, i + 4}, i == 3);
    }
    job.every_rank([](int rank, Program& program) {
        if (rank % 4 == 3) {
            rank == 7 ? program.sleep() : program.init("dp:3");
        }
        program.all_reduce("dp:" + std::to_string(rank % 4)).all_reduce("world").sync();
    });
    const Played played = play(job, {0});
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kCommInitStuck);
    CHECK(played.head().ranks == ranks({7}));
}

TEST_CASE("of several that never came to a creation one may wait for another out of our sight: that is no certainty") {
    for (const bool several : {true, false}) {
        CAPTURE(several);
        Scenario job(4);
        job.communicator("pp", {0, 1, 2, 3}, true);
        job.every_rank([&](int rank, Program& program) {
            program.all_reduce("world").sync();
            rank == 3 || (several && rank == 2) ? program.sleep() : program.init("pp");
            program.all_reduce("pp").sync();
        });
        const Played played = play(job);
        REQUIRE_FALSE(played.healthy());
        CHECK(played.head().kind == FindingKind::kCommInitStuck);
        CHECK(played.head().ranks == (several ? ranks({2, 3}) : ranks({3})));
        CHECK(played.head().confidence == (several ? Confidence::kLikely : Confidence::kCertain));
    }
}
