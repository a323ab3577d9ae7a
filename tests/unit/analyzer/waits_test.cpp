#include <doctest/doctest.h>

#include "diagnose.h"
#include "played.h"
#include "report.h"

using namespace titan::test;
using titan::format::OpKind;
using titan::synth::write_training;

namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Program only(Program& (Program::*what)()) {
    Program program;
    (program.*what)();
    return program;
}

// Ranks 0 and 1 to 3 are in two creations of four members, which wait for each other.
Diagnosis two_creations(const std::string& name) {
    Scenario job(4);
    job.communicator("first", {0, 1, 2, 3}, true);
    job.communicator("second", {0, 1, 2, 3}, true);
    job.every_rank([](int rank, Program& program) { program.init(rank == 0 ? "first" : "second"); });
    job.play();
    Run run = run_of(job);
    for (titan::analyzer::Communicator& communicator : run.communicators) {
        communicator.name = communicator.name == "world" ? "world" : name;
    }
    return titan::analyzer::diagnose(run);
}

}  // namespace

TEST_CASE("a rank asleep in program code is named, with the call that the others wait in") {
    for (const bool progress : {true, false}) {
        ScenarioOptions options;
        options.gpu_progress = progress;
        Scenario job(8, options);
        write_training(job, 6);
        job.program(3).insert_before("dp:1", 10, only(&Program::sleep));
        const Played played = play(job);
        REQUIRE(played.diagnosis.findings.size() == 1);
        CHECK(played.head().kind == FindingKind::kRankNotArrived);
        CHECK(played.head().ranks == ranks({3}));
        CHECK(played.communicator() == "dp:1");
        CHECK(played.head().sequence == 10);
        CHECK(played.head().op == "all_reduce");
        CHECK(played.head().victims == ranks({0, 1, 2, 4, 5, 6, 7}));
        CHECK(says(played.head().rank_state.at(3), "in program code, span backward, step 3"));
        CHECK(says(played.head().rank_state.at(3), "before the dump"));
        CHECK(says(played.head().rank_state.at(1), "inside cudaStreamSynchronize for 20."));
    }
}

TEST_CASE("a healthy snapshot in mid-flight is no alarm, whoever dumped first") {
    for (const double skew : {0.0, 0.05}) {
        ScenarioOptions options;
        options.hang_s = 0.2;
        options.dump_skew_s = skew;
        Scenario job(8, options);
        write_training(job, 6);
        job.program(3).insert_before("dp:1", 10, only(&Program::sleep));  // only late, not lost
        CHECK(play(job, {}, "signal").healthy());
    }
}

TEST_CASE("a hang can be called after any time that the user wants") {
    ScenarioOptions options;
    options.hang_s = 0.2;
    Scenario job(4, options);
    write_training(job, 3);
    job.program(2).insert_before("world", 1, only(&Program::sleep));
    titan::analyzer::DiagnoseOptions diagnose_options;
    diagnose_options.hang_after_s = 0.1;
    CHECK_FALSE(play(job, {}, "signal", diagnose_options).healthy());
}

TEST_CASE("a killed rank is dead, a crashed one says its signal") {
    for (const bool crash : {false, true}) {
        Scenario job(8);
        write_training(job, 6);
        Program end;
        end.sync();
        crash ? end.crash() : end.die();
        job.program(5).insert_before("world", 4, end);
        const Played played = play(job);
        REQUIRE(played.diagnosis.findings.size() == 1);
        CHECK(played.head().kind == FindingKind::kRankDead);
        CHECK(played.head().ranks == ranks({5}));
        CHECK(played.communicator() == "world");
        CHECK(played.head().sequence == 4);
        CHECK(played.head().confidence == Confidence::kCertain);
        CHECK(says(played.head().rank_state.at(5),
                   crash ? "crashed (SIGSEGV" : "dead (pid 1005 gone); last recorded: all_reduce #14 on dp:1"));
    }
}

TEST_CASE("a rank that died inside the collective is dead, though it had arrived") {
    Scenario job(4);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world");
        if (rank == 1) {
            program.all_reduce("world").die();
        } else if (rank == 2) {
            program.all_reduce("world").sync();
        } else {
            program.all_reduce("world").sync();
        }
    });
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kRankDead);
    CHECK(played.head().ranks == ranks({1}));
}

TEST_CASE("a rank that exited early has not arrived, and says why") {
    Scenario job(4);
    write_training(job, 4);
    job.program(2).insert_before("world", 2, only(&Program::exit));
    const Played played = play(job);
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(says(played.head().summary, "exited"));
}

TEST_CASE("the chain of waits is followed to its end") {
    // Rank 0 sleeps; its tp peer waits for it; that one's dp group waits for the peer.
    Scenario job(8);
    write_training(job, 5);
    job.program(0).insert_before("tp:0", 3, only(&Program::sleep));
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({0}));
    CHECK(played.head().victims == ranks({1, 2, 3, 4, 5, 6, 7}));
}

TEST_CASE("orders of two communicators that wait for each other are an inversion by the few") {
    Scenario job(4);
    job.communicator("x", {0, 1, 2, 3});
    job.communicator("y", {0, 1, 2, 3});
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("x").all_reduce("y").sync();
        rank == 2 ? program.all_reduce("y").all_reduce("x") : program.all_reduce("x").all_reduce("y");
        program.sync();
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kOrderInversion);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(played.head().victims == ranks({0, 1, 3}));
    CHECK(says(played.head().summary, "which waits in"));
}

TEST_CASE("an inversion between two ranks is told by history, else both are named") {
    const auto job_with = [](int steps) {
        Scenario job(2);
        job.communicator("x", {0, 1});
        job.communicator("y", {0, 1});
        job.every_rank([&](int rank, Program& program) {
            for (int step = 0; step < steps; ++step) {
                program.all_reduce("x").sync().all_reduce("y").sync();
            }
            rank == 1 ? program.all_reduce("y").sync().all_reduce("x") : program.all_reduce("x").sync().all_reduce("y");
            program.sync();
        });
        return job;
    };
    Scenario young = job_with(0);
    const Played undecided = play(young);
    CHECK(undecided.head().kind == FindingKind::kOrderInversion);
    CHECK(undecided.head().ranks == ranks({0, 1}));
    Scenario old = job_with(6);
    const Played decided = play(old);
    CHECK(decided.head().kind == FindingKind::kOrderInversion);
    CHECK(decided.head().ranks == ranks({1}));
}

TEST_CASE("a call that was skipped on the way to the next step is no inversion") {
    // All calls look alike, so the sequences match: rank 1 is simply one call behind when the others wait for the last.
    Scenario job(4);
    job.communicator("tp", {0, 1, 2, 3});
    job.every_rank([](int, Program& program) {
        for (int step = 0; step < 5; ++step) {
            program.step(step).all_reduce("tp").sync().all_reduce("world").all_reduce("world").sync();
        }
    });
    job.program(1).skip("world", 5);
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(played.communicator() == "world");
    CHECK(played.head().sequence == 5);
    CHECK(says(played.head().summary, "skipped all_reduce #5 on world and went on to step 3"));
}

TEST_CASE("one call behind is said, with the step in which it was skipped") {
    Scenario job(4);
    job.every_rank([](int, Program& program) {
        for (int step = 0; step < 5; ++step) {
            program.step(step).all_reduce("world").all_reduce("world").all_reduce("world");
        }
        program.sync();
    });
    job.program(3).skip("world", 7);
    job.program(3).sleep();
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().sequence == 14);
    bool behind = false;
    bool step = false;
    for (const std::string& line : played.head().evidence) {
        behind |= says(line, "one call behind");
        step |= says(line, "skipped a call in step 2");
    }
    CHECK(behind);
    CHECK(step);
}

TEST_CASE("who is the odd one of two is not certain in the first call that one of them makes on a communicator") {
    Scenario job(4);
    job.communicator("even", {0, 2});
    job.communicator("odd", {1, 3});
    job.communicator("pair", {2, 3});
    job.every_rank([&](int rank, Program& program) {
        for (int step = 0; step < 6; ++step) {
            program.step(step).all_reduce(rank % 2 == 0 ? "even" : "odd").sync();
        }
    });
    job.program(2).insert_before("even", 3, Program().all_reduce("pair").sync());
    const Played played = play(job);
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({3}));
    CHECK(played.head().confidence == Confidence::kLikely);
    REQUIRE_FALSE(played.head().would_confirm.empty());
    CHECK(says(played.head().would_confirm.front(), "rank 2 may have made a call too many"));
}

TEST_CASE("a send without its receive names the rank that owes it") {
    Scenario job(4);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        if (rank == 0) {
            program.send("world", 1).send("world", 1).sync();
        } else if (rank == 1) {
            program.recv("world", 0).sync().sleep();
        }
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kP2pUnmatched);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(played.head().victims == ranks({0}));
    CHECK(played.head().sequence == 1);
    CHECK(played.head().op == "send");
}

TEST_CASE("sends in a ring are a cycle; in groups they are fine") {
    for (const bool grouped : {false, true}) {
        Scenario job(3);
        job.every_rank([&](int rank, Program& program) {
            if (grouped) {
                program.group_start();
            }
            program.send("world", (rank + 1) % 3).recv("world", (rank + 2) % 3);
            if (grouped) {
                program.group_end();
            }
            program.sync();
        });
        const Played played = play(job);
        CHECK(played.healthy() == grouped);
        if (!grouped) {
            CHECK(played.head().kind == FindingKind::kP2pCycle);
            CHECK(played.head().ranks == ranks({0, 1, 2}));
        }
    }
}

TEST_CASE("a cycle of sends is not certain where the rings forgot what was done before") {
    for (const bool wrapped : {false, true}) {
        CAPTURE(wrapped);
        ScenarioOptions options;
        options.collectives = wrapped ? 8 : 64;
        Scenario job(3, options);
        job.every_rank([](int rank, Program& program) {
            for (int i = 0; i < 12; ++i) {
                program.all_reduce("world").sync();
            }
            program.send("world", (rank + 1) % 3).recv("world", (rank + 2) % 3).sync();
        });
        const Played played = play(job);
        CHECK(played.head().kind == FindingKind::kP2pCycle);
        CHECK(played.head().ranks == ranks({0, 1, 2}));
        CHECK(played.head().confidence == (wrapped ? Confidence::kLikely : Confidence::kCertain));
    }
}

TEST_CASE("the two sides of a point-to-point call with other sizes") {
    Scenario job(2);
    job.program(0).send("world", 1, 10).sync();
    job.program(1).recv("world", 0, 20).sync();
    const Played played = play(job);
    CHECK(played.head().kind == FindingKind::kSizeMismatch);
    CHECK(played.head().ranks == ranks({0, 1}));
    CHECK(played.head().op == "send");
}

TEST_CASE("a group that is never ended keeps its calls from being launched") {
    Scenario job(4);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        if (rank == 2) {
            program.group_start().all_reduce("world").sleep();
        } else {
            program.group_start().all_reduce("world").group_end().sync();
        }
    });
    const Played played = play(job);
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(says(played.head().summary, "inside ncclGroupStart and never called ncclGroupEnd"));
}

TEST_CASE("a call that failed on one rank is what the others wait for") {
    Scenario job(4);
    job.every_rank([](int, Program& program) { program.all_reduce("world").all_reduce("world").sync(); });
    job.program(1).nth_call("world", 1).fails = true;
    const Played played = play(job);
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(says(played.head().summary, "error"));
}

TEST_CASE("all arrived and nobody finishes: stuck in flight") {
    Scenario job(4);
    write_training(job, 3);
    job.program(2).nth_call("world", 1).never_finishes = true;
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kStuckInFlight);
    CHECK(played.communicator() == "world");
    CHECK(played.head().sequence == 1);
    CHECK(played.head().confidence == Confidence::kCertain);
}

TEST_CASE("without device progress, stuck in flight is only possible") {
    ScenarioOptions options;
    options.gpu_progress = false;
    Scenario job(4, options);
    write_training(job, 3);
    job.program(2).nth_call("world", 1).never_finishes = true;
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kStuckInFlight);
    CHECK(played.head().confidence == Confidence::kPossible);
}

TEST_CASE("members that finished and members that did not are told apart") {
    Scenario job(4);
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.program(0).nth_call("world", 0).never_finishes = true;
    job.play();
    for (const int rank : {0, 3}) {
        job.ring(rank).call(0).state = titan::format::CallState::kFinished;
        job.ring(rank).communicator(0).finished = 1;
    }
    const Run run = run_of(job);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].kind == FindingKind::kStuckInFlight);
    CHECK(diagnosis.findings[0].ranks == ranks({1, 2}));
}

TEST_CASE("creation of a communicator that a member never enters") {
    Scenario job(4);
    job.communicator("late", {0, 1, 2, 3}, true);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        rank == 3 ? program.sleep() : program.init("late");
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kCommInitStuck);
    CHECK(played.head().ranks == ranks({3}));
    CHECK(played.head().victims == ranks({0, 1, 2}));
    CHECK(played.communicator() == "late");
}

TEST_CASE("one communicator that its ranks make from different unique ids is no inversion of orders") {
    const Diagnosis diagnosis = two_creations("0");
    REQUIRE(diagnosis.findings.size() == 1);
    const Finding& head = diagnosis.findings[0];
    CHECK(head.kind == FindingKind::kCommInitStuck);
    CHECK(head.confidence == Confidence::kLikely);
    CHECK(head.ranks == ranks({1, 2, 3}));  // rank 0 makes the id, as a rule
    CHECK(head.victims == ranks({0}));
    CHECK(head.summary.find("rank 0 with one ncclUniqueId, ranks 1-3 with another") != std::string::npos);
}

TEST_CASE("creations without names that wait for each other may be one: their order is not certain") {
    const Diagnosis diagnosis = two_creations("");
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].kind == FindingKind::kOrderInversion);
    CHECK(diagnosis.findings[0].confidence == Confidence::kLikely);
}

TEST_CASE("a split that a member of the parent never enters") {
    Scenario job(4);
    job.split_of("world", "left", {0, 1});
    job.split_of("world", "right", {2, 3});
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        rank == 1 ? program.sleep() : program.split(rank < 2 ? "left" : "right");
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kCommInitStuck);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(played.communicator() == "world");
}

TEST_CASE("a rank in a collective while the others split is told as such") {
    Scenario job(4);
    job.split_of("world", "all", {0, 1, 2, 3});
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        rank == 1 ? program.all_reduce("world").sync() : program.split("all");
    });
    const Played played = play(job);
    CHECK_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kOrderInversion);
    CHECK(played.head().ranks == ranks({1}));
}

TEST_CASE("the rank without a dump is the suspect when all others arrived") {
    Scenario job(4);
    write_training(job, 4);
    job.program(2).insert_before("world", 2, only(&Program::die));
    const Played played = play(job, {2});
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(played.head().confidence != Confidence::kCertain);
    CHECK(played.run.missing_ranks == ranks({2}));
    bool warned = false;
    for (const auto& warning : played.diagnosis.warnings) {
        warned |= warning.kind == "missing_dump" && warning.ranks == ranks({2});
    }
    CHECK(warned);
}

TEST_CASE("a rank without a dump is not blamed when a known one is missing, but the claim is weaker") {
    Scenario job(6);
    write_training(job, 4);
    job.program(2).insert_before("world", 2, only(&Program::sleep));
    const Played played = play(job, {4});
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(played.head().confidence == Confidence::kLikely);
}

TEST_CASE("a ring that wrapped long ago still gives the verdict, and says what is overwritten") {
    ScenarioOptions options;
    options.collectives = 16;
    Scenario job(4, options);
    write_training(job, 40);
    job.program(1).insert_before("world", 30, only(&Program::sleep));
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(played.head().sequence == 30);
    bool warned = false;
    for (const auto& warning : played.diagnosis.warnings) {
        warned |= warning.kind == "lost_entries" && says(warning.summary, "overwritten");
    }
    CHECK(warned);
}

TEST_CASE("a job that the scheduler ended as a whole is analyzed in its last moment") {
    Scenario job(4);
    write_training(job, 4);
    job.program(2).insert_before("world", 2, only(&Program::sleep));
    job.play();
    Run run = run_of(job);
    for (auto& process : run.processes) {
        process.liveness = titan::analyzer::Liveness::kKilled;
    }
    titan::analyzer::link(run);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE_FALSE(diagnosis.findings.empty());
    CHECK(diagnosis.findings[0].kind == FindingKind::kRankNotArrived);
    CHECK(diagnosis.findings[0].ranks == ranks({2}));
}

TEST_CASE("streams of one rank are concurrent: other streams are not blamed") {
    Scenario job(2);
    job.communicator("x", {0, 1});
    job.every_rank([](int rank, Program& program) {
        // Opposite orders on two streams: allowed, both finish.
        if (rank == 0) {
            program.all_reduce("x").on_stream(1).all_reduce("world").on_stream(2);
        } else {
            program.all_reduce("world").on_stream(2).all_reduce("x").on_stream(1);
        }
        program.sync(1).sync(2);
    });
    CHECK(play(job).healthy());
}

TEST_CASE("a cycle is drawn step by step, and a long one by its ends") {
    for (const int size : {3, 20}) {
        Scenario job(size);
        job.every_rank([&](int rank, Program& program) {
            program.send("world", (rank + 1) % size).recv("world", (rank + size - 1) % size).sync();
        });
        const Played played = play(job);
        REQUIRE(played.head().kind == FindingKind::kP2pCycle);
        const auto& cycle = played.head().cycle;
        REQUIRE(cycle.size() == static_cast<size_t>(size));
        for (size_t i = 0; i < cycle.size(); ++i) {
            CHECK(cycle[i].waits_for == cycle[(i + 1) % cycle.size()].rank);
        }
        CHECK(played.head().summary.size() < 400);
        const std::string text = titan::analyzer::text_report(played.run, played.diagnosis, {});
        CHECK(says(text, "-> back to rank " + std::to_string(cycle.front().rank)));
        CHECK(says(text, "12 more ...") == (size == 20));
    }
}

TEST_CASE("a rank that never created its communicator is named by the line that the others lie on") {
    Scenario job(8);
    job.communicator("odd", {1, 3, 5, 7}, true);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        if (rank == 5) {
            program.sleep();
        } else if (rank % 2 == 1) {
            program.init("odd");
        }
        program.all_reduce("world").sync();
    });
    job.play();
    for (const std::set<int>& without : {std::set<int>{}, std::set<int>{2}}) {
        const Run run = run_of(job, without);
        const Diagnosis diagnosis = titan::analyzer::diagnose(run);
        REQUIRE_FALSE(diagnosis.findings.empty());
        CHECK(diagnosis.findings[0].kind == FindingKind::kCommInitStuck);
        CHECK(diagnosis.findings[0].ranks == ranks({5}));
    }
}

TEST_CASE("a call that was left out before the next step is told by the step of the call that has its number") {
    Scenario job(4);
    write_training(job, 6, 3, false);
    job.program(2).skip("world", 3);
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(says(played.head().summary, "skipped all_gather #3 on world"));
}

TEST_CASE("what the ring forgot is no evidence: calls ahead that are overwritten are not blamed on kernels") {
    ScenarioOptions options;
    options.collectives = 16;
    options.method = titan::format::GpuProgressMethod::kWrites;
    Scenario job(4, options);
    job.every_rank([](int rank, Program& program) {
        if (rank == 0) {
            program.die();
        }
        program.all_reduce("world");
        for (int i = 0; i < 40; ++i) {
            program.kernel("_Z4gemmPf").all_reduce("world");
        }
        program.sync();
    });
    const Played played = play(job, {0});
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind != FindingKind::kGpuQueueBlocked);
    CHECK(played.head().confidence != Confidence::kCertain);
    CHECK_FALSE(played.head().would_confirm.empty());
}
