// Nothing is seen of the GPU: what is unfinished is inferred from the hosts, and what is certain leads.
#include <doctest/doctest.h>

#include "played.h"

#include "evidence.h"
#include "finders.h"

using namespace titan::test;
using titan::format::Datatype;
using titan::format::Reduction;
using titan::synth::write_training;

namespace {

ScenarioOptions unseen() {
    ScenarioOptions options;
    options.gpu_progress = false;
    return options;
}

}  // namespace

TEST_CASE("a mismatch ahead of everything that waits is the head, and what waits behind it is its victim") {
    for (const bool dtype : {true, false}) {
        for (const bool sync : {true, false}) {
            CAPTURE(dtype);
            CAPTURE(sync);
            Scenario job(8, unseen());
            write_training(job, 6, 3, sync);
            if (!sync) {
                job.every_rank([](int, Program& program) { program.sync(); });
            }
            auto& call = job.program(5).nth_call("dp:1", sync ? 13 : 16);
            call.never_finishes = true;
            (dtype ? call.datatype = Datatype::kBfloat16, 0 : (call.reduction = Reduction::kMax, 0));
            const Played played = play(job);
            REQUIRE(!played.healthy());
            CHECK(played.diagnosis.findings.size() == 1);
            CHECK(played.head().kind == (dtype ? FindingKind::kDtypeMismatch : FindingKind::kRedopMismatch));
            CHECK(played.head().ranks == ranks({5}));
            CHECK(played.head().confidence == Confidence::kCertain);
        }
    }
}

TEST_CASE("a mismatch that leads changes no finding of others, whoever looked before") {
    Scenario job(8, unseen());
    write_training(job, 6);
    auto& call = job.program(5).nth_call("dp:1", 13);
    call.never_finishes = true;
    call.reduction = Reduction::kMax;
    job.play();
    const Run run = run_of(job);
    const titan::analyzer::Evidence evidence(run, {});
    const auto found_behind = [&](std::vector<Finding> findings) {
        titan::analyzer::Explained explained(evidence);
        titan::analyzer::find_disagreements(evidence, explained, findings);
        return findings;
    };
    Finding of_others;
    of_others.hangs = false;
    of_others.confidence = Confidence::kCertain;
    of_others.evidence = {"theirs"};
    const std::vector<Finding> alone = found_behind({});
    const std::vector<Finding> behind = found_behind({of_others});
    REQUIRE(alone.size() == 1);
    REQUIRE(behind.size() == 2);
    CHECK_FALSE(behind[0].hangs);
    CHECK(behind[0].evidence == of_others.evidence);
    CHECK(behind[1].hangs == alone[0].hangs);
    CHECK(behind[1].evidence == alone[0].evidence);
    CHECK(behind[1].victims == alone[0].victims);
}

TEST_CASE("a kernel ahead of the collective is named as possible where the other members handed none over there") {
    Scenario job(4, unseen());
    write_training(job, 6);
    job.program(2).insert_before("world", 4, Program().hanging_kernel("_Z4spinv"));
    const Played played = play(job);
    REQUIRE(!played.healthy());
    CHECK(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kGpuQueueBlocked);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(played.head().confidence == Confidence::kPossible);
    CHECK(played.head().summary.find("kernel spin") != std::string::npos);
}

TEST_CASE("a mismatch that the hosts are known to have survived leads nowhere") {
    Scenario job(8, unseen());
    write_training(job, 6);
    job.program(5).nth_call("dp:1", 4).reduction = Reduction::kMax;
    job.program(0).nth_call("world", 5).never_finishes = true;
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 2);
    CHECK(played.head().kind == FindingKind::kStuckInFlight);
    CHECK_FALSE(played.diagnosis.findings[1].hangs);
}

TEST_CASE("work that every rank hands over, or that has ended before, is nobody's fault") {
    Scenario job(4, unseen());
    job.every_rank([](int rank, Program& program) {
        for (int step = 0; step < 4; ++step) {
            program.step(step).kernel("_Z4gemmPf");
            if (rank == 0) {
                program.kernel("_Z4lossPf");
            }
            program.all_reduce("world").sync();
        }
    });
    job.program(1).nth_call("world", 3).never_finishes = true;
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kStuckInFlight);
}
