// Cases that real traces of the simulated job showed first.
#include <doctest/doctest.h>

#include "played.h"

using namespace titan::test;
using titan::format::CallState;

TEST_CASE("pending calls of other streams behind a cause are victims, not a second cause") {
    // tp, then dp on another stream: the second waits by an event that nobody recorded.
    Scenario job(4);
    for (const char* name : {"tp:0", "tp:1"}) {
        job.communicator(name, name[3] == '0' ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
    }
    job.every_rank([](int rank, Program& program) {
        program.all_reduce(rank < 2 ? "tp:0" : "tp:1", 64).on_stream(1).all_reduce("world", 128).on_stream(2).sync(2);
    });
    job.program(1).nth_call("tp:0", 0).count = 32;
    for (int rank = 0; rank < 4; ++rank) {
        job.program(rank).nth_call("world", 0).never_finishes = true;
    }
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kSizeMismatch);
    CHECK(played.communicator() == "tp:0");
}

TEST_CASE(
    "beside a crash, a kernel that had just been started and a call that a rank had not come to yet are no hangs") {
    for (const bool on_the_way : {false, true}) {
        CAPTURE(on_the_way);
        ScenarioOptions options;
        options.method = titan::format::GpuProgressMethod::kWrites;
        options.hang_s = 0.05;
        Scenario job(4, options);
        job.communicator("tp", {2, 3});
        job.every_rank([&](int rank, Program& program) {
            program.all_reduce("world").sync();
            if (rank == 2) {
                on_the_way ? program.sleep() : program.hanging_kernel("_Z4gemmPf");
            }
            if (rank >= 2) {
                program.all_reduce("tp").sync();
            }
            if (rank == 0) {
                program.crash();
            }
            program.all_reduce("world").sync();
        });
        const Played played = play(job, {}, "crash");
        REQUIRE(played.diagnosis.findings.size() == 1);
        CHECK(played.head().kind == FindingKind::kRankDead);
        CHECK(played.head().ranks == ranks({0}));
    }
}

TEST_CASE(
    "with the device's marks and no stream work, the first stream that was not reached is the cause of all others") {
    // As in a real dump: every later call of every rank is on another stream and waits by events that nobody recorded.
    ScenarioOptions options;
    options.method = titan::format::GpuProgressMethod::kWrites;
    options.cuda_calls = false;
    Scenario job(4, options);
    job.communicator("tp", {2, 3});
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        if (rank == 3) {
            program.hanging_kernel("_Z4spinv", 1);
        }
        if (rank >= 2) {
            program.all_reduce("tp").on_stream(1).record(7, 1).wait(7, 2);
        }
        program.group_start();
        rank < 2 ? program.send("world", rank + 2) : program.recv("world", rank - 2);
        program.on_stream(2);
        rank < 2 ? program.recv("world", rank + 2) : program.send("world", rank - 2);
        program.on_stream(2).group_end().record(8, 2).wait(8, 3).all_reduce("world").on_stream(3).sync(3);
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kGpuQueueBlocked);
    CHECK(played.head().ranks == ranks({3}));
    CHECK(played.communicator() == "tp");
    CHECK(played.head().victims == ranks({0, 1, 2}));
}

TEST_CASE("a dead rank saw no more completions: it is missing in the next call, not in the last") {
    Scenario job(4);
    titan::synth::write_training(job, 5);
    Program end;
    end.sync().die();
    job.program(2).insert_before("world", 3, end);
    job.play();
    for (uint64_t ticket = 5; ticket < job.ring(2).next_ticket(); ++ticket) {
        job.ring(2).call(ticket).state = CallState::kPending;
        job.ring(2).call(ticket).gpu_finished_ticks = 0;
    }
    for (uint32_t row = 0; row < 3; ++row) {
        job.ring(2).communicator(row).finished = 0;
    }
    const Run run = run_of(job);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE_FALSE(diagnosis.findings.empty());
    CHECK(diagnosis.findings[0].kind == FindingKind::kRankDead);
    CHECK(diagnosis.findings[0].ranks == ranks({2}));
    CHECK(run.communicators[diagnosis.findings[0].communicator].name == "world");
    CHECK(diagnosis.findings[0].sequence == 3);
}
