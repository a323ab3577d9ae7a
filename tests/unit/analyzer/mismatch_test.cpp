#include <doctest/doctest.h>

#include "host/words.h"
#include "played.h"

using namespace titan::test;
using titan::format::Datatype;
using titan::format::OpKind;
using titan::format::Reduction;
using titan::synth::Action;

namespace {

// Four ranks, distinct sizes, one synchronisation per step.
Scenario simple_job(int ranks, int steps = 6) {
    Scenario job(ranks);
    job.every_rank([&](int, Program& program) {
        for (int step = 0; step < steps; ++step) {
            program.step(step).broadcast("world", 0, 64).all_reduce("world", 1000).all_gather("world", 500).sync();
        }
    });
    return job;
}

bool mentions(const Finding& finding, const std::string& text) {
    if (finding.summary.find(text) != std::string::npos) {
        return true;
    }
    for (const std::string& line : finding.evidence) {
        if (line.find(text) != std::string::npos) {
            return true;
        }
    }
    return false;
}

}  // namespace

TEST_CASE("a healthy job has no finding") {
    Scenario job = simple_job(4);
    CHECK(play(job).healthy());
}

TEST_CASE("one rank that calls another operation is named by the majority, also when it is rank 0") {
    for (const int culprit : {0, 2, 3}) {
        Scenario job = simple_job(4);
        job.program(culprit).nth_call("world", 7).op = OpKind::kAllGather;
        const Played played = play(job);
        REQUIRE_FALSE(played.healthy());
        CHECK(played.head().kind == FindingKind::kOpMismatch);
        CHECK(played.head().ranks == std::vector<int>{culprit});
        CHECK(played.head().sequence == 7);
        CHECK(played.head().op == "all_reduce");
        CHECK(played.communicator() == "world");
        CHECK(played.head().confidence == Confidence::kCertain);
        CHECK(played.head().victims.size() == 3);
        CHECK(played.diagnosis.findings.size() == 1);
    }
}

TEST_CASE("who waits with what is told for each side of a mismatch") {
    Scenario job = simple_job(4);
    job.program(2).nth_call("world", 7).count = 1;
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().summary.find("with 1 element,") != std::string::npos);
    CHECK(mentions(played.head(),
                   "ranks 0-1,3 wait in all_reduce #7 on world (float32 x 1,000, sum), "
                   "rank 2 waits in all_reduce #7 on world (float32 x 1, sum)"));
}

TEST_CASE("size, datatype and root mismatches have their own kinds") {
    const auto kind_of = [](auto&& change, size_t at) {
        Scenario job = simple_job(5);
        change(job.program(3).nth_call("world", at));
        const Played played = play(job);
        REQUIRE_FALSE(played.healthy());
        CHECK(played.head().ranks == ranks({3}));
        CHECK(played.head().sequence == at);
        return played.head().kind;
    };
    CHECK(kind_of([](Action& call) { call.count = 999; }, 4) == FindingKind::kSizeMismatch);
    CHECK(kind_of([](Action& call) { call.datatype = Datatype::kBfloat16; }, 4) == FindingKind::kDtypeMismatch);
    CHECK(kind_of([](Action& call) { call.datatype = Datatype::kBfloat16, call.count = 2000; }, 4) ==
          FindingKind::kDtypeMismatch);
    CHECK(kind_of([](Action& call) { call.peer = 2; }, 6) == FindingKind::kRootMismatch);
}

TEST_CASE("another reduction does not hang, and is found all the same") {
    Scenario job = simple_job(4);
    job.program(1).nth_call("world", 4).reduction = Reduction::kMax;
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kRedopMismatch);
    CHECK(played.head().ranks == ranks({1}));
    CHECK_FALSE(played.head().hangs);
    CHECK(mentions(played.head(), "results are wrong"));
}

TEST_CASE("the same silent mismatch in every step is one finding") {
    Scenario job = simple_job(4);
    for (int step = 0; step < 6; ++step) {
        job.program(2).nth_call("world", static_cast<size_t>(step) * 3 + 1).reduction = Reduction::kAvg;
    }
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().sequence == 1);
    CHECK(mentions(played.head(), "5 more times"));
}

TEST_CASE("premultiplied sums are equal whatever their factor; against a sum they are not") {
    Scenario job = simple_job(3);
    for (int rank = 0; rank < 3; ++rank) {
        job.program(rank).nth_call("world", 1).reduction = Reduction::kPremulSum;
    }
    CHECK(play(job).healthy());
}

TEST_CASE("a skipped call is one finding that says skipped, not a hundred mismatches") {
    Scenario job = simple_job(4);
    job.program(2).skip("world", 7);
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kOpMismatch);
    CHECK(played.head().sequence == 7);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(mentions(played.head(), "skipped all_reduce #7"));
}

TEST_CASE("an extra call is told from a skipped one when calls run ahead") {
    Scenario job(4);
    job.every_rank([](int, Program& program) {
        for (int step = 0; step < 4; ++step) {
            for (uint64_t i = 1; i <= 5; ++i) {
                program.all_reduce("world", 100 * i + static_cast<uint64_t>(step));
            }
        }
        program.sync();
    });
    job.program(1).insert_before("world", 8, Program().all_reduce("world", 7));
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kSizeMismatch);
    CHECK(played.head().sequence == 8);
    CHECK(mentions(played.head(), "issued an extra all_reduce #8"));
}

TEST_CASE("step markers tell an extra call from a skipped one where a step repeats") {
    Scenario job(4);
    job.every_rank([&](int, Program& program) {
        for (int step = 0; step < 8; ++step) {
            program.step(step).all_reduce("world", 2632).all_reduce("world", 1).sync();
        }
    });
    job.program(1).insert_before("world", 11, Program().all_reduce("world", 2632));
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(mentions(played.head(), "issued an extra all_reduce #11"));
    CHECK(played.head().confidence == Confidence::kCertain);
}

// Found with PyTorch's DDP: a bucket and a flag in each step, no markers.
TEST_CASE("where a step repeats, a skipped call and an extra one are not told apart") {
    for (const bool marked : {false, true}) {
        CAPTURE(marked);
        Scenario job(4);
        job.every_rank([&](int, Program& program) {
            for (int step = 0; step < 8; ++step) {
                if (marked) {
                    program.step(step);
                }
                program.all_reduce("world", 2632).all_reduce("world", 1).sync();
            }
        });
        job.program(1).skip("world", 11);
        const Played played = play(job);
        REQUIRE_FALSE(played.healthy());
        CHECK(played.head().kind == FindingKind::kSizeMismatch);
        CHECK(played.head().ranks == std::vector<int>{1});
        CHECK(mentions(played.head(), "skipped all_reduce #11"));
        CHECK(mentions(played.head(), "or made one all_reduce too many") != marked);
        CHECK((played.head().confidence == Confidence::kCertain) == marked);
        CHECK(played.head().would_confirm.empty() == marked);
    }
}

TEST_CASE("one against one with no history is undecidable, and both are named") {
    Scenario job(2);
    job.program(0).all_reduce("world", 10).sync();
    job.program(1).all_reduce("world", 20).sync();
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kSizeMismatch);
    CHECK(played.head().ranks == ranks({0, 1}));
    CHECK(played.head().confidence == Confidence::kPossible);
    CHECK(mentions(played.head(), "undecidable"));
}

TEST_CASE("two against two with no history is undecidable") {
    Scenario job(4);
    job.every_rank([](int rank, Program& program) { program.all_reduce("world", rank < 2 ? 10 : 20).sync(); });
    const Played played = play(job);
    CHECK(played.head().ranks == ranks({0, 1, 2, 3}));
    CHECK(mentions(played.head(), "undecidable"));
}

TEST_CASE("a tie is broken by what was always done in that place") {
    Scenario job = simple_job(2, 8);
    job.program(0).nth_call("world", 13).count = 5;
    const Played played = play(job);
    CHECK(played.head().ranks == ranks({0}));
    CHECK(played.head().confidence == Confidence::kLikely);
    CHECK(mentions(played.head(), "always done"));
}

TEST_CASE("a tie is broken by communicators of the same role") {
    Scenario job(6);
    for (int pair = 0; pair < 3; ++pair) {
        job.communicator("tp:" + std::to_string(pair), {2 * pair, 2 * pair + 1});
    }
    job.every_rank([](int rank, Program& program) { program.all_reduce("tp:" + std::to_string(rank / 2), 10).sync(); });
    job.program(3).nth_call("tp:1", 0).count = 11;
    const Played played = play(job);
    CHECK(played.head().ranks == ranks({3}));
    CHECK(mentions(played.head(), "same role"));
}

TEST_CASE("of three blocs the largest is right") {
    Scenario job(5);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world", rank == 1 ? 1 : rank == 4 ? 4 : 9).sync();
    });
    const Played played = play(job);
    std::vector<int> accused;
    for (const Finding& finding : played.diagnosis.findings) {
        accused.insert(accused.end(), finding.ranks.begin(), finding.ranks.end());
    }
    std::sort(accused.begin(), accused.end());
    CHECK(accused == ranks({1, 4}));
}

TEST_CASE("a shift in a communicator that also reaches others is one finding") {
    Scenario job(8);
    titan::synth::write_training(job, 5);
    job.program(3).skip("dp:1", 7);
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kSizeMismatch);
    CHECK(played.communicator() == "dp:1");
    CHECK(played.head().sequence == 7);
    CHECK(played.head().ranks == ranks({3}));
    CHECK(mentions(played.head(), "skipped"));
    CHECK(played.diagnosis.findings.size() == 1);
    CHECK(played.head().victims.size() == 7);
}

TEST_CASE("ranks, durations, names") {
    using namespace titan;
    CHECK(rank_ranges({5, 0, 1, 2, 7, 6}) == "0-2,5-7");
    CHECK(ranks_text({3}) == "rank 3");
    CHECK(duration_text(4'100'000'000) == "4.1 s");
    CHECK(duration_text(350'000'000) == "350 ms");
    CHECK(duration_text(125'000'000'000) == "2 min 05 s");
    CHECK(grouped_digits(1234567) == "1,234,567");
    CHECK(printable("a\033[31mb\xff") == "a?[31mb?");
    CHECK(printable("sch\xc3\xb6n") == "sch\xc3\xb6n");
}
