// Several causes in one job, or several ranks that may be it.
#include <doctest/doctest.h>

#include "diagnose.h"
#include "link_run.h"
#include "played.h"

using namespace titan::test;
using titan::analyzer::Liveness;
using titan::analyzer::Process;

TEST_CASE("a rank that stands still before a call that is queued behind the cause is named, too") {
    // Nobody waits in what rank 1 has not called: rank 3 hangs in an earlier call, because rank 0 holds up rank 1's
    // stream.
    for (const bool second : {true, false}) {
        CAPTURE(second);
        Scenario job(4);
        job.communicator("shard:0", {0, 1});
        job.communicator("shard:1", {2, 3});
        job.communicator("replica:0", {0, 2});
        job.communicator("replica:1", {1, 3});
        job.every_rank([](int rank, Program& program) {
            const std::string shard = rank < 2 ? "shard:0" : "shard:1";
            const std::string replica = rank % 2 == 0 ? "replica:0" : "replica:1";
            program.all_reduce(replica).kernel("_Z4gemmPf").sync();
            program.all_reduce(shard).all_reduce(replica).all_reduce(replica).sync();
        });
        job.program(0).insert_before("shard:0", 0, Program().sleep());
        if (second) {
            job.program(1).insert_before("replica:1", 2, Program().sleep());
        }
        const Played played = play(job);
        REQUIRE(played.diagnosis.findings.size() == (second ? 2 : 1));
        CHECK(played.head().ranks == ranks({0}));
        CHECK(played.head().confidence == Confidence::kCertain);
        if (second) {
            const Finding& other = played.diagnosis.findings[1];
            CHECK(other.kind == FindingKind::kRankNotArrived);
            CHECK(other.ranks == ranks({1}));
            CHECK(other.confidence == Confidence::kLikely);
            CHECK(other.sequence == 2);
        }
    }
}

TEST_CASE("two independent causes are two findings") {
    Scenario job(8);
    job.communicator("a", {0, 1, 2, 3});
    job.communicator("b", {4, 5, 6, 7});
    job.every_rank([](int rank, Program& program) {
        const char* name = rank < 4 ? "a" : "b";
        program.all_reduce(name).all_reduce(name).sync();
    });
    job.program(1).insert_before("a", 1, Program().sleep());
    job.program(6).insert_before("b", 0, Program().die());
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 2);
    std::set<FindingKind> kinds{played.diagnosis.findings[0].kind, played.diagnosis.findings[1].kind};
    CHECK(kinds == std::set<FindingKind>{FindingKind::kRankDead, FindingKind::kRankNotArrived});
}

TEST_CASE("three independent causes in separate communicators are three findings, of two in one chain only the end") {
    Scenario job(9);
    job.communicator("a", {0, 1, 2});
    job.communicator("b", {3, 4, 5});
    job.communicator("c", {6, 7, 8});
    job.every_rank([](int rank, Program& program) {
        const char* name = rank < 3 ? "a" : rank < 6 ? "b" : "c";
        program.all_reduce(name).sync();
        if (rank == 1) {
            program.sleep();
        } else if (rank == 4) {
            program.die();
        } else if (rank == 7) {
            program.all_gather(name).sync();
        }
        program.all_reduce(name).sync();
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 3);
    std::set<std::pair<FindingKind, std::vector<int>>> found;
    for (const Finding& finding : played.diagnosis.findings) {
        found.insert({finding.kind, finding.ranks});
    }
    CHECK(found.contains({FindingKind::kRankNotArrived, {1}}));
    CHECK(found.contains({FindingKind::kRankDead, {4}}));
    CHECK(found.contains({FindingKind::kOpMismatch, {7}}));

    Scenario chain(4);
    chain.communicator("ab", {0, 1});
    chain.communicator("bc", {1, 2});
    chain.communicator("cd", {2, 3});
    chain.program(0).all_reduce("ab").sync();
    chain.program(1).all_reduce("bc").sync().all_reduce("ab").sync();
    chain.program(2).all_reduce("cd").sync().all_reduce("bc").sync();
    chain.program(3).sleep();
    const Played one = play(chain);
    REQUIRE(one.diagnosis.findings.size() == 1);
    CHECK(one.head().ranks == ranks({3}));
    CHECK(one.head().victims == ranks({0, 1, 2}));
}

TEST_CASE("a rank that was killed in a call with one that ended is not for certain the first") {
    Scenario job(2);
    for (int rank = 0; rank < 2; ++rank) {
        job.program(rank).all_reduce("world").sync();
    }
    job.program(1).send("world", 0);
    job.play();
    Run run = run_of(job);
    for (Process& process : run.processes) {
        process.liveness = process.rank == 0 ? Liveness::kExited : Liveness::kKilled;
        process.now_ns = process.ending.seen_ns = process.last_activity_ns() + 100'000'000;
    }
    titan::analyzer::link(run);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    const auto death = std::find_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                                    [](const Finding& finding) { return finding.kind == FindingKind::kRankDead; });
    REQUIRE(death != diagnosis.findings.end());
    CHECK(death->ranks == ranks({1}));
    CHECK(death->confidence == Confidence::kLikely);
}
