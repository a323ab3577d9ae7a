// CUDA graphs: launches that are missing, captures that nobody launched.
#include <doctest/doctest.h>

#include "played.h"

using namespace titan::test;
using titan::format::GpuProgressMethod;
using titan::format::OpKind;

namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool mentions(const Finding& finding, const std::string& text) {
    return says(finding.summary, text) || std::any_of(finding.evidence.begin(), finding.evidence.end(),
                                                      [&](const std::string& line) { return says(line, text); });
}

ScenarioOptions with_marks() {
    ScenarioOptions options;
    options.method = GpuProgressMethod::kWrites;
    return options;
}

// One eager step, then a graph of three collectives that is launched in every step, and an eager call now and then.
void write_replays(Scenario& job, int steps, int skipping = -1, int skipped_step = -1, int checkpoint = 100) {
    job.every_rank([&](int rank, Program& program) {
        program.step(0).all_reduce("world", 64).sync();
        program.capture(5).all_reduce("world", 64).all_gather("world", 32).all_reduce("world", 128).end_capture();
        for (int step = 1; step < steps; ++step) {
            program.step(step);
            if (rank != skipping || step != skipped_step) {
                program.replay(5);
            }
            program.sync();
            if (step == checkpoint) {
                program.broadcast("world", 0, 16).sync();
            }
        }
    });
}

}  // namespace

TEST_CASE("a job that replays its steps is healthy, and its calls have numbers") {
    Scenario job(4, with_marks());
    write_replays(job, 6, -1, -1, 3);
    const Played played = play(job);
    CHECK(played.healthy());
    const auto& process = played.run.processes[0];
    CHECK(process.members[0].issued == 1 + 5 * 3 + 1);
    CHECK(process.entries[1].captured);
    CHECK(process.entries[4].replay == 1);
    CHECK(process.entries[4].graph == 5);
}

TEST_CASE("a rank that stops launching the graph: the replay is named, and the collective inside it") {
    Scenario job(4, with_marks());
    write_replays(job, 6);
    Program sleep;
    sleep.sleep();
    auto& actions = job.program(3).actions;
    actions.insert(actions.begin() + 15, sleep.actions.front());
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({3}));
    CHECK(says(
        played.head().summary,
        "rank 3 never launched replay 3 of graph 5, which holds all_reduce #7 on world (1st of 3 collectives in it)"));
    CHECK(mentions(played.head(),
                   "rank 3: the newest launch of a graph with collectives is replay 2 of graph 5 in step 2"));
}

TEST_CASE("a launch that was left out is named where the next eager call meets it") {
    Scenario job(4, with_marks());
    write_replays(job, 6, 2, 3, 4);
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kOpMismatch);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(says(
        played.head().summary,
        "rank 2 called broadcast (float32 x 16, root 0 of the communicator) #10 on world where ranks 0-1,3 launched "
        "replay 4 of graph 5, which holds all_reduce #10 on world (1st of 3 collectives in it)"));
    CHECK(mentions(played.head(), "skipped a call in step 3"));
}

TEST_CASE("with calls behind it, a launch that was left out is told as such") {
    Scenario job(4, with_marks());
    job.every_rank([](int rank, Program& program) {
        program.capture(5).all_reduce("world", 64).all_gather("world", 32).end_capture();
        for (int step = 0; step < 4; ++step) {
            if (rank != 1 || step != 2) {
                program.replay(5);
            }
            program.broadcast("world", 0, 16).broadcast("world", 0, 17);
        }
        program.sync();
    });
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().ranks == ranks({1}));
    CHECK(says(played.head().summary,
               "rank 1 never launched replay 3 of graph 5, which holds all_reduce #8 on world (1st of 2 "
               "collectives in it): its next call, broadcast, meets it there"));
}

TEST_CASE("a launch that was left out and met by nothing else shows as a rank that is one replay behind") {
    Scenario job(4, with_marks());
    write_replays(job, 6, 2, 3);
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(says(played.head().summary, "never launched replay 5 of graph 5, which holds all_reduce #13 on world"));
    CHECK(mentions(played.head(), "skipped a call in step 3"));
}

TEST_CASE("a call that one rank captured and never launched, where the others ran it eagerly") {
    Scenario job(4, with_marks());
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        if (rank == 1) {
            program.capture(2).all_gather("world", 500).all_reduce("world").end_capture().sync().sleep();
        } else {
            program.all_gather("world", 500).sync();
        }
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kCaptureMismatch);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(played.head().victims == ranks({0, 2, 3}));
    CHECK(says(played.head().summary,
               "rank 1 captured all_gather #1 on world into graph 2 and never launched that graph, "
               "where ranks 0,2-3 ran it eagerly"));
    CHECK(mentions(played.head(), "it holds 2 collectives"));
}

TEST_CASE("a captured call that is met by the rank's next call is told as a capture, not as a skip") {
    Scenario job(4, with_marks());
    job.every_rank([](int rank, Program& program) {
        for (int step = 0; step < 5; ++step) {
            const bool captures = rank == 1 && step == 3;
            captures ? program.capture(2).reduce_scatter("world", 500).end_capture()
                     : program.reduce_scatter("world", 500);
            program.all_gather("world").sync();
        }
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kCaptureMismatch);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(says(played.head().summary, "rank 1 captured reduce_scatter #6 on world into graph 2 and never launched"));
}

TEST_CASE("a graph whose last call meets a mismatch hangs as a whole: its other calls are victims") {
    Scenario job(4, with_marks());
    job.communicator("tp:0", {0, 1});
    job.communicator("tp:1", {2, 3});
    job.every_rank([](int rank, Program& program) {
        const std::string tp = rank < 2 ? "tp:0" : "tp:1";
        program.capture(5).all_reduce(tp, 64).all_reduce("world", 1).end_capture();
        for (int step = 0; step < 6; ++step) {
            if (rank != 2 || step != 3) {
                program.step(step).replay(5).sync();
            }
        }
        program.broadcast("world", 0, 16).sync();
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(played.head().kind != FindingKind::kStuckInFlight);
}

TEST_CASE("where most ranks captured the call, the one that ran it is the odd one") {
    Scenario job(4, with_marks());
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        rank == 1 ? program.all_gather("world", 500).sync()
                  : program.capture(2).all_gather("world", 500).end_capture().sleep();
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kCaptureMismatch);
    CHECK(played.head().ranks == ranks({1}));
}

TEST_CASE("captures of something else, or that were launched since, are no capture mismatch") {
    Scenario job(4, with_marks());
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        program.capture(2).all_gather("world", 500).end_capture().replay(2).sync();
        program.capture(3).all_gather("world", 77).end_capture();
        rank == 1 ? program.sleep() : program.all_gather("world", 500).sync();
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({1}));
}

TEST_CASE("inside a graph launch that started, the device does not tell which call hangs, and that is said") {
    Scenario job(3, with_marks());
    write_replays(job, 3);
    job.program(1).nth_call("world", 2).never_finishes = true;
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kStuckInFlight);
    CHECK(mentions(played.head(), "which of its collectives runs is not known"));
}
