// Verdicts over Flight Recorder files: what the recorder could not see makes them weaker, never differently certain.
#include <doctest/doctest.h>

#include "diagnose.h"
#include "fr_job.h"

using namespace titan;
using analyzer::Confidence;
using analyzer::Diagnosis;
using analyzer::Finding;
using analyzer::FindingKind;
using test::FrJob;
using test::FrState;

namespace {

const std::vector<int> kRank0{0};

Diagnosis diagnose(const FrJob& job) { return analyzer::diagnose(job.run()); }

// Two tp pairs and the world, `steps` steps of four tp calls and one of the world.
FrJob tensor_parallel_job(int steps) {
    FrJob job(4);
    job.group("1", "TENSOR_MODEL_PARALLEL_GROUP", {0, 1});
    job.group("2", "TENSOR_MODEL_PARALLEL_GROUP", {2, 3});
    for (int step = 0; step < steps; ++step) {
        for (int layer = 0; layer < 4; ++layer) {
            job.all("1", "all_gather");
            job.all("2", "all_gather");
        }
        job.all("world", "all_reduce");
    }
    return job;
}

TEST_CASE("a rank that raised and wrote its file at once does not hide that the others wait") {
    FrJob job(4);
    for (int i = 0; i < 5; ++i) {
        job.all("world", "all_reduce");
    }
    job.all("world", "all_gather", FrState::kPending);
    job.write_file_at_ms(2, 1'500);  // the others: at 700 s
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{2});
    CHECK(diagnosis.findings.front().confidence != Confidence::kCertain);
    CHECK(diagnosis.findings.front().summary.text().find("all_gather") != std::string::npos);
}

TEST_CASE("a rank whose starts were noted with the ends is blocked where others show that a call has started") {
    FrJob job(4);
    job.note_starts_with_ends();
    for (int i = 0; i < 5; ++i) {
        job.all("world", "all_reduce");
    }
    for (const int rank : {0, 1, 2, 3}) {
        job.call(rank, "world", "all_reduce", rank == 1 ? FrState::kPending : FrState::kStarted);
    }
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE_FALSE(diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().kind == FindingKind::kGpuQueueBlocked);
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{1});
}

TEST_CASE(
    "where starts are noted with the ends only, no queue is said to be blocked, and who left no file is suspected") {
    FrJob job(4);
    job.note_starts_with_ends();
    for (int i = 0; i < 5; ++i) {
        job.all("world", "all_reduce");
    }
    for (const int rank : {0, 2, 3}) {
        job.call(rank, "world", "all_reduce", FrState::kPending);
    }
    job.leave_out_file(1);
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().kind == FindingKind::kRankNotArrived);
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{1});
    CHECK(diagnosis.findings.front().confidence != Confidence::kCertain);
}

TEST_CASE("files a minute apart accuse nobody of having left") {
    FrJob job(4);
    for (int i = 0; i < 5; ++i) {
        job.all("world", "all_reduce");
    }
    job.call(2, "world", "all_gather", FrState::kPending);
    for (const int rank : {0, 1, 3}) {
        job.call(rank, "world", "all_gather");
        job.pass_ms(rank, 60'000);
        job.call(rank, "world", "all_reduce", FrState::kPending);
        job.write_file_at_ms(rank, 61'200);
    }
    job.write_file_at_ms(2, 1'100);
    CHECK(diagnose(job).findings.empty());
}

TEST_CASE("that all issued a call is no proof that all GPUs came to it") {
    FrJob untimed(4);
    FrJob timed(4);
    for (FrJob* job : {&untimed, &timed}) {
        for (int i = 0; i < 5; ++i) {
            job->all("world", "all_reduce");
        }
    }
    untimed.all("world", "all_gather", FrState::kPending);
    timed.all("world", "all_gather", FrState::kStarted);
    const Diagnosis unsure = diagnose(untimed);
    REQUIRE(unsure.findings.size() == 1);
    CHECK(unsure.findings.front().kind == FindingKind::kStuckInFlight);
    CHECK(unsure.findings.front().confidence == Confidence::kLikely);
    CHECK(unsure.findings.front().would_confirm.front().text().find("TORCH_NCCL_ENABLE_TIMING") != std::string::npos);
    const Diagnosis sure = diagnose(timed);
    REQUIRE(sure.findings.size() == 1);
    CHECK(sure.findings.front().confidence == Confidence::kCertain);
}

TEST_CASE("where unfinished calls are overwritten, what is left only stands in line") {
    FrJob job = tensor_parallel_job(6);
    for (int step = 0; step < 2; ++step) {
        for (int layer = 0; layer < 4; ++layer) {
            job.all("1", "all_gather", FrState::kPending);
            job.all("2", "all_gather", FrState::kPending);
        }
        job.all("world", "all_reduce", FrState::kPending);
    }
    for (int rank = 0; rank < 4; ++rank) {
        job.forget(rank, 6 * 5 + 2);  // what it hangs in is gone
    }
    for (const Finding& finding : diagnose(job).findings) {
        CHECK(finding.confidence == Confidence::kPossible);
    }
}

TEST_CASE("one rank that left a call out is one against the others, whatever numbers meet") {
    FrJob job = tensor_parallel_job(6);
    for (int layer = 0; layer < 4; ++layer) {
        job.all("1", "all_gather");
        job.all("2", "all_gather");
    }
    // Rank 0 leaves the all_reduce of this step out and goes on; the next one is its first with that number.
    for (const int rank : {1, 2, 3}) {
        job.call(rank, "world", "all_reduce", FrState::kPending);
    }
    for (int layer = 0; layer < 4; ++layer) {
        job.call(0, "1", "all_gather", FrState::kPending);
    }
    job.call(0, "world", "all_reduce", FrState::kPending);
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().ranks == kRank0);
    CHECK(diagnosis.findings.front().confidence != Confidence::kCertain);
    for (const Finding& finding : diagnosis.findings) {
        CHECK(finding.ranks == kRank0);
    }
}

TEST_CASE("of two orders the one of the many is right, also where only two ranks are in both groups") {
    FrJob job = tensor_parallel_job(6);
    for (int layer = 0; layer < 3; ++layer) {
        job.all("1", "all_gather");
        job.all("2", "all_gather");
    }
    job.call(1, "world", "all_reduce", FrState::kPending);
    job.call(1, "1", "all_gather", FrState::kPending);
    job.call(0, "1", "all_gather", FrState::kPending);
    job.call(0, "world", "all_reduce", FrState::kPending);
    for (const int rank : {2, 3}) {
        job.call(rank, "2", "all_gather");
        job.call(rank, "world", "all_reduce", FrState::kPending);
    }
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().kind == FindingKind::kOrderInversion);
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{1});
}

TEST_CASE("a send to another peer than ever accuses the sender, not who never heard of it") {
    FrJob job(4);
    job.group("1", "PIPELINE_MODEL_PARALLEL_GROUP", {0, 1, 2, 3});
    const auto hop = [&](int from, int to, FrState state) {
        job.send(from, "1", to, state);
        job.receive(to, "1", from, state);
    };
    for (int i = 0; i < 12; ++i) {
        hop(0, 1, FrState::kDone);
        hop(1, 2, FrState::kDone);
        hop(2, 3, FrState::kDone);
    }
    job.send(0, "1", 2, FrState::kPending);
    job.receive(1, "1", 0, FrState::kPending);
    job.receive(2, "1", 1, FrState::kPending);
    job.receive(3, "1", 2, FrState::kPending);
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().kind == FindingKind::kP2pUnmatched);
    CHECK(diagnosis.findings.front().ranks == kRank0);
}

TEST_CASE("a rank without a file is suspected less than one whose file proves that it is missing") {
    FrJob job(4);
    job.group("1", "TENSOR_MODEL_PARALLEL_GROUP", {0, 1});
    job.group("2", "TENSOR_MODEL_PARALLEL_GROUP", {2, 3});
    for (int i = 0; i < 5; ++i) {
        job.all("1", "all_gather");
        job.all("2", "all_gather");
    }
    job.call(1, "1", "all_gather", FrState::kPending);
    job.pass_ms(2, -50);
    job.call(2, "2", "all_gather", FrState::kPending);
    job.leave_out_file(3);
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(diagnosis.findings.size() == 2);
    CHECK(diagnosis.findings[0].ranks == kRank0);
    CHECK(diagnosis.findings[1].ranks == std::vector<int>{3});
    CHECK(diagnosis.findings[1].confidence == Confidence::kPossible);
}

TEST_CASE("ranks that all fell idle at once, missing in unrelated groups, are one finding") {
    FrJob job(8);
    for (int pair = 0; pair < 4; ++pair) {
        job.group(fmt::format("{}", pair + 1), "TENSOR_MODEL_PARALLEL_GROUP", {2 * pair, 2 * pair + 1});
    }
    for (int i = 0; i < 5; ++i) {
        for (int pair = 0; pair < 4; ++pair) {
            job.all(fmt::format("{}", pair + 1), "all_gather");
        }
    }
    // Ranks 1, 3, 5 and 7 enter the creation of a group, which leaves no entry.
    for (int pair = 0; pair < 4; ++pair) {
        job.call(2 * pair, fmt::format("{}", pair + 1), "all_gather", FrState::kPending);
    }
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{1, 3, 5, 7});
    CHECK(diagnosis.findings.front().confidence != Confidence::kCertain);
}

// A pipeline of four, `replicas` times: per step four microbatches forward and back, then one call of all.
class PipelineJob {
  public:
    explicit PipelineJob(int replicas) : replicas_(replicas), job(4 * replicas) {
        for (int replica = 0; replica < replicas; ++replica) {
            job.group(pipe(replica), "PIPELINE_MODEL_PARALLEL_GROUP",
                      {rank(replica, 0), rank(replica, 1), rank(replica, 2), rank(replica, 3)});
        }
    }

    void forward(int replica, int stage, FrState state = FrState::kDone) {
        if (stage > 0) {
            job.receive(rank(replica, stage), pipe(replica), rank(replica, stage - 1), state);
        }
        if (stage < 3) {
            job.send(rank(replica, stage), pipe(replica), rank(replica, stage + 1), state);
        }
    }
    void backward(int replica, int stage, FrState state = FrState::kDone) {
        if (stage < 3) {
            job.receive(rank(replica, stage), pipe(replica), rank(replica, stage + 1), state);
        }
        if (stage > 0) {
            job.send(rank(replica, stage), pipe(replica), rank(replica, stage - 1), state);
        }
    }
    void step(FrState end = FrState::kDone) {
        for (int replica = 0; replica < replicas_; ++replica) {
            for (int stage = 0; stage < 4; ++stage) {
                for (int microbatch = 0; microbatch < 4; ++microbatch) {
                    forward(replica, stage);
                    backward(replica, stage);
                }
            }
        }
        for (int one = 0; end == FrState::kDone && one < 4 * replicas_; ++one) {
            job.call(one, "world", "all_reduce");
        }
    }
    int rank(int replica, int stage) const { return stage * replicas_ + replica; }
    static std::string pipe(int replica) { return std::to_string(replica + 1); }

  private:
    int replicas_;

  public:
    FrJob job;
};

TEST_CASE("a pipeline stage that left a call out is in a later step by its messages") {
    PipelineJob pipeline(2);
    pipeline.step();
    pipeline.step();
    pipeline.step(FrState::kPending);  // without the call at its end
    for (int replica = 0; replica < 2; ++replica) {
        for (int stage = 0; stage < 3; ++stage) {
            pipeline.job.call(pipeline.rank(replica, stage), "world", "all_reduce", FrState::kPending);
        }
        pipeline.forward(replica, 3, FrState::kPending);
    }
    const Diagnosis diagnosis = diagnose(pipeline.job);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{6, 7});
    CHECK(diagnosis.findings.front().kind == FindingKind::kRankNotArrived);
    CHECK(diagnosis.findings.front().confidence != Confidence::kCertain);
}

TEST_CASE("a call that is on record was not skipped, however long the gap before it") {
    // Four sends one after the other, then, over the end of the step, a long way to the next.
    FrJob job(4);
    job.group("1", "PIPELINE_MODEL_PARALLEL_GROUP", {0, 1});
    job.group("2", "TENSOR_MODEL_PARALLEL_GROUP", {0, 2});
    for (int i = 0; i < 5; ++i) {
        job.call(0, "2", "all_reduce");
        job.call(2, "2", "all_reduce");
        job.send(0, "1", 1);
        job.receive(1, "1", 0);
    }
    for (int i = 0; i < 4; ++i) {
        job.call(0, "2", "all_reduce", FrState::kPending);
    }
    job.send(0, "1", 1, FrState::kPending);
    job.receive(1, "1", 0, FrState::kPending);
    for (const Finding& finding : diagnose(job).findings) {
        CHECK(finding.ranks == std::vector<int>{2});  // it never came to the all_reduce
        CHECK(finding.summary.text().find("skipped") == std::string::npos);
    }
}

TEST_CASE("of two that wait for each other, the one that parts from the ranks of its role is named") {
    PipelineJob pipeline(4);
    pipeline.step();
    pipeline.step();
    for (int replica = 0; replica < 4; ++replica) {
        for (int stage = 0; stage < 4; ++stage) {
            pipeline.forward(replica, stage);
        }
    }
    // Stage 1 of replica 2 sends its gradient before it has received one; stage 2 sends to it meanwhile.
    const int odd = pipeline.rank(2, 1);
    const int next = pipeline.rank(2, 2);
    pipeline.job.send(odd, PipelineJob::pipe(2), next, FrState::kPending);
    pipeline.job.receive(next, PipelineJob::pipe(2), pipeline.rank(2, 3));
    pipeline.job.send(next, PipelineJob::pipe(2), odd, FrState::kPending);
    for (const int replica : {0, 1, 3}) {
        for (int stage = 0; stage < 4; ++stage) {
            pipeline.backward(replica, stage);
        }
    }
    const Diagnosis diagnosis = diagnose(pipeline.job);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{odd});
    CHECK(diagnosis.findings.front().confidence != Confidence::kCertain);
}

TEST_CASE(
    "a rank that wrote its file long before the others is suspected, also where its stream had not come to the call") {
    FrJob job(4);
    for (int i = 0; i < 5; ++i) {
        job.all("world", "all_reduce");
    }
    for (int rank = 0; rank < 4; ++rank) {
        job.call(rank, "world", "all_gather", rank == 2 ? FrState::kPending : FrState::kDone);
        job.call(rank, "world", "reduce_scatter", FrState::kPending);
    }
    job.write_file_at_ms(2, 1'100);  // the others: at 700 s
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{2});
    CHECK(diagnosis.findings.front().confidence != Confidence::kCertain);
    CHECK(diagnosis.findings.front().summary.text().find("may have left since") != std::string::npos);
}

TEST_CASE("a file is no witness of a wait that had hardly begun when it was written") {
    for (const int64_t file_ms : {1'060, 30'000}) {
        FrJob job(4);
        for (int i = 0; i < 5; ++i) {
            job.all("world", "all_reduce");
        }
        for (const int rank : {1, 2, 3}) {
            job.call(rank, "world", "all_gather", FrState::kPending);
        }
        job.write_files_at_ms(42'000);  // somebody asked for them: PyTorch's timeout is far
        job.write_file_at_ms(0, file_ms);
        const Diagnosis diagnosis = diagnose(job);
        REQUIRE(!diagnosis.findings.empty());
        const Finding& finding = diagnosis.findings.front();
        CHECK(finding.ranks == kRank0);
        CHECK(finding.confidence != Confidence::kCertain);
        CHECK((finding.summary.text().find("when its record ended") != std::string::npos) == (file_ms < 2'000));
    }
}

TEST_CASE("a rank is not held in a call from which another member went on to the missing one") {
    // A mesh of 2 x 2; rank 1 does not come to its shard's call, so that rank 0 never comes to the replicas' first one.
    FrJob job(4);
    job.group("1", "mesh_shard", {0, 1});
    job.group("2", "mesh_shard", {2, 3});
    job.group("3", "mesh_replicate", {0, 2});
    job.group("4", "mesh_replicate", {1, 3});
    for (int step = 0; step < 3; ++step) {
        for (const char* group : {"1", "2", "3", "4", "1", "2"}) {
            job.all(group, "all_reduce");
        }
    }
    job.call(0, "1", "all_gather", FrState::kPending);
    job.call(0, "3", "all_reduce", FrState::kPending);
    job.call(0, "1", "reduce_scatter", FrState::kPending);
    job.call(2, "2", "all_gather");
    job.call(3, "2", "all_gather");
    job.call(2, "3", "all_reduce", FrState::kPending);  // the newest of rank 2
    job.call(3, "4", "all_reduce", FrState::kPending);
    job.call(3, "2", "reduce_scatter", FrState::kPending);
    const Diagnosis diagnosis = diagnose(job);
    std::vector<int> named;
    for (const Finding& finding : diagnosis.findings) {
        named.insert(named.end(), finding.ranks.begin(), finding.ranks.end());
        CHECK(finding.confidence != Confidence::kCertain);
    }
    std::sort(named.begin(), named.end());
    CHECK(named == std::vector<int>{1, 2});
}

TEST_CASE("whose calls of two groups come now in this order, now in that, has left none out") {
    // A thread of its own saves checkpoints beside the training; in rank 0 it stands still.
    FrJob job(4);
    job.group("1", "checkpoint", {0, 1, 2, 3});
    for (int step = 0; step < 6; ++step) {
        for (int rank = 0; rank < 4; ++rank) {
            const bool first = (step % 2 == 0) == (rank == 0);
            if (first) {
                job.call(rank, "1", "all_gather");
            }
            job.call(rank, "world", "all_reduce");
            if (!first) {
                job.call(rank, "1", "all_gather");
            }
        }
    }
    for (int rank = 0; rank < 4; ++rank) {
        if (rank != 0) {
            job.call(rank, "1", "all_reduce_barrier", FrState::kPending);
        }
        job.call(rank, "world", "all_reduce");
    }
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings.front().ranks == kRank0);
    CHECK(diagnosis.findings.front().summary.text().find("rank 0 never called barrier") != std::string::npos);
}

TEST_CASE("a rank that is not where the many are is asked for, whatever each of them used to do") {
    // Rank 1's checkpoint thread was once as slow as it is fast now; the training never waits for it.
    FrJob job(4);
    job.group("1", "checkpoint", {0, 1, 2, 3});
    for (int step = 0; step < 6; ++step) {
        for (int rank = 0; rank < 4; ++rank) {
            job.call(rank, "world", "all_reduce");
            job.call(rank, "world", "all_gather");
            job.call(rank, "world", "reduce_scatter");
        }
        job.all("1", "all_gather");
    }
    for (int rank = 0; rank < 4; ++rank) {
        job.call(rank, "world", "all_reduce");
        if (rank != 0) {
            job.call(rank, "1", "all_gather", FrState::kPending);
        }
        job.call(rank, "world", "all_gather");
        job.call(rank, "world", "reduce_scatter");
    }
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().ranks == kRank0);
    CHECK(diagnosis.findings.front().kind == FindingKind::kRankNotArrived);
}

TEST_CASE("of a pair of other size both sides are named, also where the sender is through") {
    // NCCL takes a small message before anybody receives it.
    FrJob job(2);
    job.group("1", "PIPELINE_MODEL_PARALLEL_GROUP", {0, 1});
    for (int i = 0; i < 4; ++i) {
        job.send(0, "1", 1);
        job.receive(1, "1", 0);
    }
    job.send(0, "1", 1, FrState::kDone, 32);
    job.receive(1, "1", 0, FrState::kPending, 64);
    const Diagnosis diagnosis = diagnose(job);
    REQUIRE(!diagnosis.findings.empty());
    const Finding& finding = diagnosis.findings.front();
    CHECK(finding.kind == FindingKind::kSizeMismatch);
    CHECK(finding.ranks == std::vector<int>{0, 1});
    CHECK(finding.evidence.size() >= 2);
    CHECK(finding.confidence == Confidence::kPossible);
}

// Sends ("s1": to rank 1) and receives of one rank, one after the other.
void exchange(FrJob& job, int rank, const std::string& calls, FrState state = FrState::kDone) {
    for (size_t at = 0; at < calls.size(); at += 2) {
        const int peer = calls[at + 1] - '0';
        if (calls[at] == 's') {
            job.send(rank, "1", peer, state);
        } else {
            job.receive(rank, "1", peer, state);
        }
    }
}

std::string times(int count, const std::string& calls) {
    std::string text;
    for (int i = 0; i < count; ++i) {
        text += calls;
    }
    return text;
}

TEST_CASE("of a stage that left a receive out and one that ended its step as ever, the first is named") {
    for (const int steps : {1, 2}) {
        FrJob job(3);
        job.group("1", "PIPELINE_MODEL_PARALLEL_GROUP", {0, 1, 2});
        for (int step = 0; step < steps; ++step) {
            exchange(job, 0, "s1s1" + times(6, "s1r1") + "r1r1");
            exchange(job, 1, "r0s2r0" + times(6, "s2r2r0s0") + "s2r2s0r2s0");
            exchange(job, 2, "r1" + times(7, "r1s1") + "s1");
        }
        exchange(job, 0, "s1s1s1r1");
        exchange(job, 1, "r0s2r0s2r0s0");  // a receive from rank 2 always came after the second send
        exchange(job, 1, "s2r2", FrState::kPending);
        exchange(job, 2, "r1r1");
        exchange(job, 2, "s1", FrState::kPending);
        const Diagnosis diagnosis = diagnose(job);
        REQUIRE(!diagnosis.findings.empty());
        // After one step only, nothing but the end of that step stands out, and it is as it should be.
        CHECK(diagnosis.findings.front().ranks == (steps == 1 ? std::vector<int>{1, 2} : std::vector<int>{1}));
        CHECK(diagnosis.findings.front().confidence != Confidence::kCertain);
    }
}

}  // namespace
