// What cannot have ended follows from what all ranks have issued and in which order, whether or not somebody watched.
#include <doctest/doctest.h>

#include "diagnose.h"
#include "played.h"
#include "uncertainty.h"

using namespace titan::test;

namespace {

ScenarioOptions watched(bool gpu_progress) {
    ScenarioOptions options;
    options.gpu_progress = gpu_progress;
    if (gpu_progress) {
        options.method = titan::format::GpuProgressMethod::kWrites;
    }
    return options;
}

// Sends to all others and receives from them, in one group: what an all_to_all is for NCCL.
void exchange(Program& program, const std::string& communicator, int rank, int size, uint64_t stream) {
    program.group_start();
    for (int peer = 0; peer < size; ++peer) {
        if (peer != rank) {
            program.send(communicator, peer).on_stream(stream).recv(communicator, peer).on_stream(stream);
        }
    }
    program.group_end();
}

// An exchange, then a reduction that waits for it by an event; `odd` the other way round.
void exchange_and_reduce(Program& program, int rank, bool odd) {
    if (odd) {
        program.all_reduce("world").on_stream(2).record(8, 2).wait(8, 1);
        exchange(program, "ep", rank, 4, 1);
        program.sync(1);
    } else {
        exchange(program, "ep", rank, 4, 1);
        program.record(7, 1).wait(7, 2).all_reduce("world").on_stream(2).sync(2);
    }
}

}  // namespace

TEST_CASE("an exchange and a reduction in opposite orders wait for each other, and the order of the few is wrong") {
    for (const bool gpu_progress : {true, false}) {
        CAPTURE(gpu_progress);
        Scenario job(4, watched(gpu_progress));
        job.communicator("ep", {0, 1, 2, 3});
        job.every_rank([](int rank, Program& program) {
            for (int step = 0; step < 3; ++step) {
                exchange_and_reduce(program, rank, false);
            }
            exchange_and_reduce(program, rank, rank == 2);
        });
        const Played played = play(job);
        REQUIRE(!played.healthy());
        CHECK(played.head().kind == FindingKind::kOrderInversion);
        CHECK(played.head().ranks == ranks({2}));
    }
}

TEST_CASE("unseen, the oldest pair whose sides differ in size is what all else waits for") {
    Scenario job(4, watched(false));
    job.communicator("pp:0", {0, 2});
    job.communicator("pp:1", {1, 3});
    job.every_rank([](int rank, Program& program) {
        for (int step = 0; step < 3; ++step) {
            const std::string pipe = rank % 2 == 0 ? "pp:0" : "pp:1";
            rank < 2 ? program.send(pipe, 1, 64) : program.recv(pipe, 0, rank == 3 && step == 2 ? 32 : 64);
            program.on_stream(1).record(7, 1).wait(7, 2).all_reduce("world").on_stream(2).sync(2);
        }
    });
    job.program(1).nth_call("pp:1", 2).never_finishes = true;
    job.program(3).nth_call("pp:1", 2).never_finishes = true;
    const Played played = play(job);
    REQUIRE(!played.healthy());
    CHECK(played.head().kind == FindingKind::kSizeMismatch);
    CHECK(played.head().ranks == ranks({1, 3}));
}

TEST_CASE("nameless communicators at the same distances vote together on an order") {
    Scenario job(8, watched(true));
    job.every_rank([&](int rank, Program& program) {
        const std::string pair = "pair" + std::string(1, static_cast<char>('a' + rank % 4));
        if (rank < 4) {
            job.communicator(pair, {rank, rank + 4});
        }
        for (int step = 0; step < 3; ++step) {
            if (rank == 6 && step == 2) {
                program.all_reduce("world").on_stream(2).record(8, 2).wait(8, 1).all_reduce(pair).on_stream(1).sync(1);
            } else {
                program.all_reduce(pair).on_stream(1).record(7, 1).wait(7, 2).all_reduce("world").on_stream(2).sync(2);
            }
        }
    });
    job.play();
    Run run = run_of(job);
    for (auto& communicator : run.communicators) {
        communicator.name.clear();
    }
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().kind == FindingKind::kOrderInversion);
    CHECK(diagnosis.findings.front().ranks == ranks({6}));
}

TEST_CASE("unseen, hosts that wait for their GPUs after calls of several groups are one finding of all of them") {
    Scenario job(4, watched(false));
    job.communicator("dp:0", {0, 2});
    job.communicator("dp:1", {1, 3});
    job.every_rank([](int rank, Program& program) {
        for (int step = 0; step < 3; ++step) {
            program.all_reduce("world").on_stream(2).all_reduce(rank % 2 == 0 ? "dp:0" : "dp:1").on_stream(1).sync(1);
        }
    });
    for (int rank = 0; rank < 4; ++rank) {
        job.program(rank).nth_call(rank % 2 == 0 ? "dp:0" : "dp:1", 2).never_finishes = true;
    }
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kStuckInFlight);
    CHECK(played.head().confidence == Confidence::kPossible);
    CHECK(played.head().ranks == ranks({0, 1, 2, 3}));
}

TEST_CASE("arguments that are overwritten are not called equal for certain") {
    Scenario job(4, watched(true));
    for (int rank = 0; rank < 4; ++rank) {
        job.program(rank).all_reduce("world").sync().all_reduce("world").sync();
        job.program(rank).nth_call("world", 1).never_finishes = true;
    }
    job.play();
    for (const bool lost : {false, true}) {
        Run run = run_of(job);
        run.processes[1].entries.back().arguments_lost = lost;
        const Diagnosis diagnosis = titan::analyzer::diagnose(run);
        REQUIRE(!diagnosis.findings.empty());
        const Finding& head = diagnosis.findings.front();
        CAPTURE(head.summary);
        CHECK(head.kind == FindingKind::kStuckInFlight);
        CHECK(head.confidence == (lost ? Confidence::kLikely : Confidence::kCertain));
        CHECK((head.summary.find("equal as far as recorded") != std::string::npos) == lost);
    }
}

TEST_CASE(
    "a rank alone in a creation that nobody comes to is named, where others wait for the call it always made there") {
    Scenario job(4);
    job.communicator("pair", {1, 3}, true);
    job.every_rank([](int rank, Program& program) {
        for (int step = 0; step < 5; ++step) {
            rank % 2 == 0 ? program.send("world", rank + 1).sync() : program.recv("world", rank - 1).sync();
            if (rank == 1 && step == 4) {
                program.init("pair");
            }
            rank % 2 == 1 ? program.send("world", rank - 1).sync() : program.recv("world", rank + 1).sync();
            program.all_reduce("world").sync();
        }
    });
    const Played played = play(job);
    REQUIRE(!played.healthy());
    CHECK(played.head().kind == FindingKind::kP2pUnmatched);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(played.head().confidence == Confidence::kPossible);
}

TEST_CASE("what lasts no longer than the dumps are apart is no hang unless a watchdog says so") {
    for (const bool watchdog : {false, true}) {
        CAPTURE(watchdog);
        ScenarioOptions options;
        options.hang_s = 3;
        options.dump_skew_s = 2;
        Scenario job(4, options);
        job.every_rank([](int rank, Program& program) {
            program.all_reduce("world").sync().all_reduce("world").sync();
            if (rank == 0) {
                program.sleep();
            }
            program.all_reduce("world").sync();
        });
        const Played played = play(job, {}, watchdog ? "timeout" : "signal");
        CHECK(played.healthy() == !watchdog);
    }
}

TEST_CASE("unseen, a host that waits no longer than its program ever paused shows no hang") {
    for (const double hang_s : {2.0, 60.0}) {
        CAPTURE(hang_s);
        ScenarioOptions options = watched(false);
        options.round_s = 1;  // every call takes its seconds
        options.hang_s = hang_s;
        Scenario job(2, options);
        job.every_rank([](int, Program& program) {
            for (int step = 0; step < 4; ++step) {
                program.all_reduce("world").sync();
            }
        });
        job.program(1).nth_call("world", 3).never_finishes = true;
        const Played played = play(job, {}, "signal");
        CHECK(played.healthy() == (hang_s < 10));
    }
}

TEST_CASE("one rank's exchange too many is its own, not the fault of all who went on without it") {
    for (const bool gpu_progress : {true, false}) {
        CAPTURE(gpu_progress);
        Scenario job(4, watched(gpu_progress));
        job.communicator("ep", {0, 1, 2, 3});
        job.every_rank([](int rank, Program& program) {
            for (int step = 0; step < 4; ++step) {
                exchange(program, "ep", rank, 4, 1);
                if (rank == 3 && step == 3) {
                    exchange(program, "ep", rank, 4, 1);
                }
                program.record(7, 1).wait(7, 2).all_reduce("world").on_stream(2).sync(2);
            }
        });
        const Played played = play(job);
        REQUIRE(!played.healthy());
        CHECK(played.head().ranks == ranks({3}));
        for (const Finding& finding : played.diagnosis.findings) {
            CHECK(finding.confidence != Confidence::kCertain);
        }
    }
}

TEST_CASE("which send of an exchange hangs is not on record: one kernel carries all of them") {
    for (const bool in_exchange : {true, false}) {
        CAPTURE(in_exchange);
        Scenario job(4, watched(true));
        job.communicator("ep", {0, 1, 2, 3});
        job.every_rank([&](int rank, Program& program) {
            if (in_exchange) {
                exchange(program, "ep", rank, 4, 1);
            } else if (rank < 2) {
                rank == 0 ? program.send("ep", 1).on_stream(1) : program.recv("ep", 0).on_stream(1);
            }
        });
        job.play();
        Run run = run_of(job);
        titan::analyzer::link(run);
        titan::analyzer::WaitNode node;
        node.kind = titan::analyzer::WaitKind::kPointToPoint;
        node.communicator = 0;
        const titan::analyzer::Entry& sent = run.processes[0].entries.front();
        titan::analyzer::Waiter& waiter = node.waiting.emplace_back();
        waiter.member = {0, sent.row};
        waiter.entry = &sent;
        Finding finding;
        finding.confidence = Confidence::kCertain;
        titan::analyzer::doubt_stuck(run, node, finding);
        CHECK((finding.confidence == Confidence::kCertain) == !in_exchange);
    }
}

TEST_CASE("work that does not end may be slow, until a watchdog calls it a hang or half a minute is over") {
    for (const std::string reason : {"signal", "timeout"}) {
        for (const int64_t waited_ns : {2'000'000'000LL, 40'000'000'000LL}) {
            CAPTURE(reason);
            CAPTURE(waited_ns);
            Scenario job(2, watched(true));
            job.every_rank([](int, Program& program) { program.all_reduce("world"); });
            job.play();
            const Run run = run_of(job, {}, reason);
            titan::analyzer::WaitNode node;
            node.waiting.emplace_back().age_ns = waited_ns;
            Finding finding;
            finding.confidence = Confidence::kCertain;
            titan::analyzer::doubt_short_wait(run, node, finding);
            CHECK((finding.confidence == Confidence::kLikely) == (reason == "signal" && waited_ns < 30'000'000'000LL));
        }
    }
}

TEST_CASE("who waits alone and has skipped a call of all is no witness against the one it waits for") {
    Scenario job(6, watched(true));
    job.communicator("tp", {4, 5});
    job.every_rank([](int rank, Program& program) {
        for (int step = 0; step < 4; ++step) {
            program.step(step).all_reduce("world").sync();
            if (rank >= 4) {
                program.all_gather("tp").sync();
            }
        }
        rank == 5 ? program.step(4).all_reduce("tp").sync() : program.step(4).all_reduce("world").sync();
    });
    const Played played = play(job);
    REQUIRE(!played.healthy());
    CHECK(played.head().ranks == ranks({5}));
    for (const Finding& finding : played.diagnosis.findings) {
        CHECK((finding.ranks == ranks({5}) || finding.confidence != Confidence::kCertain));
    }
}

TEST_CASE("where no CUDA call was seen, a rank with an unfinished call is not said to stand in its own code") {
    ScenarioOptions options = watched(true);
    options.cuda_calls = false;
    Scenario job(4, options);
    job.communicator("tp", {0, 1});
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world");
        if (rank == 0) {
            program.all_reduce("tp").on_stream(1);
        }
        program.sleep();  // a wait for the GPU that nobody saw
    });
    job.program(2).nth_call("world", 0).never_finishes = true;
    const Played played = play(job);
    REQUIRE(!played.healthy());
    for (const Finding& finding : played.diagnosis.findings) {
        CHECK(finding.kind != FindingKind::kRankNotArrived);
    }
}
