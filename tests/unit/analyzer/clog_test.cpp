// Logs of torchcomms' ClogHook.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "of_this_run.h"
#include "witnesses.h"

using namespace titan::analyzer;

namespace {

const std::string kHead =
    "V|1|base_timestamp=1795336072.500\n"
    "new_comm|comm=tp|rank=1|world_size=2\n"
    "new_comm|comm=world|rank=3|world_size=8\n"
    "C1|sig|all_reduce|in_count=1024|out_count=1024|dtype=f32|red_op=sum|async_op=f|comm=world\n"
    "C2|sig|send|in_count=16|out_count=0|dtype=bf16|peer=0|async_op=t|comm=tp\n"
    "C3|sig|all_to_all_v_single|in_splits=3,1|out_splits=2,2|dtype=i64|async_op=f|comm=tp\n";

std::vector<std::string> log_says(const std::string& lines) {
    std::vector<std::string> texts;
    for (const Testimony& said : titan::test::said_in(kHead + lines, "clog_3.log")) {
        CHECK(said.witness == "torchcomms");
        texts.push_back(said.text);
    }
    return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("the oldest call on each communicator that has not ended is told first") {
    CHECK(log_says("C1|Q|work_id=1|+0.100\nC1|S|+0.110\nC1|E|+0.120\n"
                   "C1|Q|work_id=2|+0.200\nC1|S|+0.210\n"
                   "C2|Q|work_id=3|+0.220\nC2|S|+0.230\nC2|E|+0.240\nC2|W|+0.250\n"
                   "C1|Q|work_id=4|+0.300\n") ==
          Texts{"rank 3 of 8: all_reduce (1,024 f32, sum) on world, its call 2 there, enqueued 200 ms after the log "
                "began, has started and not ended",
                "rank 3 of 8: its last call is send (16 bf16, peer 0) on tp, its call 1 there, enqueued 220 ms after "
                "the log began; all have ended"});
    CHECK(log_says("C3|Q|work_id=1|+61.000\nC1|Q|work_id=2|+62.000\nC1|S|+62.500\nC1|E|+63.000\n").front() ==
          "rank 3 of 8: all_to_all_v_single (in_splits 3,1, out_splits 2,2) on tp, its call 1 there, enqueued "
          "61.0 s after the log began, has not started");
}

TEST_CASE("without ends in the log only the last call is told") {
    CHECK(log_says("C1|Q|work_id=1|+0.100\nC1|Q|work_id=2|+0.200\n") ==
          Texts{"rank 3 of 8: its last call is all_reduce (1,024 f32, sum) on world, its call 2 there, enqueued 200 ms "
                "after the log began; ends are not logged (events=[\"ALL\"] logs them)"});
}

TEST_CASE("a replay that has not ended, captured calls, warnings") {
    CHECK(log_says("G7|C1|Q|work_id=1|+0.1\nG7|C1|S|+0.1\nG7|C1|E|+0.1\n"
                   "G7|R1|C1|S|+0.2\nG7|R1|C1|E|+0.2\nG7|R2|C1|S|+0.3\nG7|R2|C2|S|+0.3\nG7|R2|C1|E|+0.4\n"
                   "WARN|comm=world|leaked work_id=9|corr_id=1|pending_events=E\n") ==
          Texts{"rank 3 of 8: replay 2 of graph 7 has started 2 of its calls and ended 1",
                "rank 3 of 8: WARN comm=world|leaked work_id=9|corr_id=1|pending_events=E"});
}

TEST_CASE("what is damaged or not known does no harm") {
    CHECK(log_says("").empty());
    CHECK(log_says("C1|Q|work_id=1|+0.1\nC1|S|+0.2\nC1|").size() == 1);  // killed while it wrote
    CHECK(log_says("C9|Q|work_id=1|+0.1\nC1|Q\nC1|Q|work_id=-1|+1\nC1|Q|work_id=2|1\nC1|Q|work_id=2|+-1\nC1|E|+1\n"
                   "C99999999999999999999|sig|x\nC|sig|\nG|R|C|S\nnew_comm|rank=9|world_size=2\n||||\n|\n")
              .empty());
    // The middle of a long log is left out: which calls there ended is not known.
    const Texts cut = log_says("C1|Q|work_id=1|+0.1\nC1|S|+0.1\nC1|Q|work_id=900000|+9.0\n");
    REQUIRE(cut.size() == 1);
    CHECK(cut[0] ==
          "rank 3 of 8: its last call is all_reduce (1,024 f32, sum) on world, its call 2 there, enqueued 9.0 "
          "s after the log began");
    const auto newer = titan::test::said_in("V|2|base_timestamp=1.0\nC1|Q|work_id=1|+0.1\n");
    REQUIRE(newer.size() == 1);
    CHECK(newer[0].claim == Claim::kUnread);
    CHECK(newer[0].text == "its version 2 is not known: not read");
}

TEST_CASE("whose log it is, by the largest communicator; one of an earlier job is left out") {
    Run run;
    run.world_size = 8;
    Process process;
    process.rank = 0;
    process.world_size = 8;
    process.texts.emplace_back();
    run.processes.push_back(process);
    const auto said = titan::test::said_in(kHead + "C1|Q|work_id=1|+0.1\nC1|S|+0.2\n");
    run.testimony = said;
    keep_of_this_run(run);
    REQUIRE(run.testimony.size() == 1);
    CHECK(run.testimony[0].rank == 3);
    run.processes[0].started_ns = 1'795'336'080'000'000'000;
    run.testimony = said;
    keep_of_this_run(run);
    CHECK(run.testimony.empty());
    CHECK(run.warnings.size() == 1);
}
