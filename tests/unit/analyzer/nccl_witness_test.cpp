// NCCL's RAS output and debug logs, in the words of NCCL 2.24 to 2.32; with dumps beside them, and alone.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "load_run.h"
#include "played.h"
#include "temporary_directory.h"
#include "witnesses.h"

using namespace titan::test;
using namespace titan::analyzer;

namespace {

std::vector<Testimony> nccl_says(const std::string& text) { return said_in(text, "ras.txt"); }

std::string json_rank(int rank, int pid, int all_reduces, int async_error = 0) {
    return R"({"rank":)" + std::to_string(rank) + R"(,"host":"10.0.0.7","pid":)" + std::to_string(pid) +
           R"(,"cuda_dev":0,"nvml_dev":0,"status":{"init_state":0,"async_error":)" + std::to_string(async_error) +
           R"(,"finalize_called":false,"destroy_flag":false,"abort_flag":false},"collective_counts":{"AllReduce":)" +
           std::to_string(all_reduces) + R"(,"Broadcast":3}})";
}

std::string ras_json(const std::string& ranks, const std::string& missing, int size) {
    return R"({"nccl_version":"2.29.1","timestamp":"2026-11-22 08:00:00",)"
           R"("communicators":[{"hash":"0xae94","secondary_hash":"0xb7:0xb8","size":)" +
           std::to_string(size) + R"(,"ranks":[)" + ranks + R"(],"missing_ranks":[)" + missing + R"(]}],"ras":{}})";
}

std::string missing_rank(int rank, int pid, bool dead) {
    return R"({"rank":)" + std::to_string(rank) + R"(,"host":"10.0.0.9","pid":)" + std::to_string(pid) +
           R"(,"status":{"unresponsive":true,"considered_dead":)" + (dead ? "true" : "false") + "}}";
}

const std::string kRasText =
    "NCCL version 2.29.1 compiled with CUDA 13.0\n\nJob summary\n===========\n\n"
    "Communicators... (0.00s)\n=============\n\n"
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
    "    0         1         4       7-8        32        32   RUNNING  INCOMPLETE\n"
    "    1         4         4         1         8        32   RUNNING  MISMATCH\n\n"
    "Errors\n======\n\n"
    "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
    "  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n"
    "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n"
    "  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213\n\n"
    "Warnings\n========\n\n"
    "#1-2 (27a079b828ff1a75) MISMATCH\n"
    "  Communicator ranks have different AllReduce operation counts\n"
    "  7 ranks have launched up to operation 6650\n"
    "  Rank 2 has launched up to operation 6649 -- GPU 2 managed by process 483074 on node 172.16.64.210\n";

const std::string kNcclLog =
    "[rank3]: node-3:4711:4790 [3] NCCL INFO ncclCommInitRankConfig comm 0x55d0 rank 3 nranks 8 cudaDev 3 nvmlDev 3 "
    "busId 3b000 commId 0x99 - Init COMPLETE\n"
    "node-3:4711:4790 [3] NCCL INFO ncclCommSplit comm 0x55e0 rank 1 nranks 2 cudaDev 3 nvmlDev 3 busId 3b000 parent "
    "0x55d0 - Init COMPLETE\n"
    "[2026-11-22 08:00:00] node-3:4711:4799 [3] misc/socket.cc:58 (socketProgress) NCCL WARN socketProgress: "
    "Connection "
    "closed by remote peer node-4<43210>\n"
    "node-3:4711:4790 [3] NCCL INFO comm 0x55d0 rank 3 nranks 8 cudaDev 3 busId 3b000 - Abort COMPLETE\n"
    "node-3:4712:4791 [4] NCCL INFO ncclCommInitRankConfig comm 0x77d0 rank 4 nranks 8 cudaDev 4 nvmlDev 4 busId 4b000 "
    "commId 0x99 - Init COMPLETE\n";

struct WitnessPlace : TemporaryDirectory {
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path + "/" + name) << text;
        // After the runs of these tests, whose time is their own: what is older is of another job.
        timespec times[2] = {{2'000'000'000, 0}, {2'000'000'000, 0}};
        ::utimensat(AT_FDCWD, (path + "/" + name).c_str(), times, 0);
        return path + "/" + name;
    }
};

Run load_all_of(std::vector<std::string> paths) {
    LoadOptions options;
    options.paths = std::move(paths);
    options.witnesses_alone = true;
    auto run = load_run(options);
    REQUIRE(run);
    return std::move(*run);
}

}  // namespace

TEST_CASE("RAS as JSON tells of missing ranks, errors and those that lag") {
    const auto said = nccl_says(ras_json(
        json_rank(0, 11, 42) + "," + json_rank(1, 12, 42) + "," + json_rank(2, 13, 41, 6) + "," + json_rank(3, 14, 42),
        missing_rank(4, 15, true) + "," + missing_rank(5, 16, false), 6));
    REQUIRE(said.size() == 4);
    CHECK(said[0].considered_dead);
    CHECK(said[0].claim == Claim::kSilent);
    CHECK(said[0].text ==
          "rank 4 of 6 (communicator 0xae94, pid 15 on 10.0.0.9) is considered dead: RAS cannot reach it");
    CHECK(said[1].text == "rank 5 of 6 (communicator 0xae94, pid 16 on 10.0.0.9) does not answer");
    CHECK_FALSE(said[1].considered_dead);
    CHECK(any_line_has({said[2].text},
                       "rank 2 of 6 (communicator 0xae94, pid 13 on 10.0.0.7) has the asynchronous error 6"));
    CHECK(any_line_has({said[3].text}, "has launched 41 AllReduce, 3 others 42"));
}

TEST_CASE("RAS as text tells the same") {
    const auto said = nccl_says(kRasText);
    REQUIRE(said.size() == 3);
    CHECK(said[0].text == "process 3487984 on 172.16.64.213 is considered dead: RAS cannot reach it");
    CHECK(said[0].pid == 3487984);
    CHECK(said[1].comm_rank == 21);
    CHECK(said[1].comm_size == 32);
    CHECK(said[2].comm_size == 8);
    CHECK(
        said[2].text ==
        "rank 2 of 8 (communicator 0x27a079b828ff1a75, pid 483074 on 172.16.64.210) has launched up to operation 6649; "
        "7 ranks have launched up to operation 6650");
    const auto event =
        nccl_says("[2025-12-19 13:07:07] PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU 1\n");
    REQUIRE(event.size() == 1);
    CHECK(event[0].considered_dead);
    CHECK(event[0].pid == 1524345);
    const auto older = nccl_says(
        "Job summary\nCommunicators...\n#0-0 (cf26) INCOMPLETE\n  Missing communicator data from 2 "
        "ranks\n  The missing ranks: 21,23\n");
    REQUIRE(older.size() == 2);
    CHECK(older[1].comm_rank == 23);
}

TEST_CASE("NCCL's log tells who lost a peer, aborts, and is quiet") {
    const auto said = nccl_says(kNcclLog);
    REQUIRE(said.size() == 3);
    CHECK(said[0].host == "node-3");
    CHECK(said[0].pid == 4711);
    CHECK(said[0].comm_rank == 3);
    CHECK(said[0].comm_size == 8);
    CHECK(said[0].lost_a_peer);
    CHECK(any_line_has({said[0].text}, "Connection closed by remote peer node-4<43210>"));
    CHECK(any_line_has({said[1].text}, "Abort COMPLETE"));
    CHECK(said[2].comm_rank == 4);
    CHECK(said[2].text == "pid 4712 on node-3 logs no warning and no abort");
}

TEST_CASE("odd words of NCCL do no harm") {
    for (const std::string& text :
         {std::string(
              R"({"communicators":[7,{"size":-3,"ranks":[{"rank":"x"},[]],"missing_ranks":{}}],"secondary_hash":1})"),
          std::string(R"({"communicators":{},"secondary_hash":[[[[[[[[[[[[[[]]]]]]]]]]]]]]})"),
          std::string(R"({"communicators":[{"secondary_hash":"0x1")"), kRasText.substr(0, kRasText.size() / 2),
          std::string("Job summary\nCommunicators...\n#\n#9999999999-0 (\n  Rank 99999999999 -- \n  Rank\n  The "
                      "missing rank: \n"
                      "DEAD\n  Process  on node \n"),
          std::string(
              "::: NCCL WARN \nh:1:2 NCCL INFO comm 0x rank\n:1:1 NCCL WARN x\nh:-1:2 NCCL WARN x\n NCCL WARN ")}) {
        for (const Testimony& said : nccl_says(text)) {
            CHECK(said.rank == -1);
        }
    }
    CHECK(nccl_says(R"({"communicators":[{"secondary_hash":"0x1")").front().text ==
          "its JSON is cut off or damaged, or too large: not read");
}

TEST_CASE("witnesses of NCCL alone give a hedged finding, or say what they cannot tell") {
    const WitnessPlace place;
    const std::string dead = place.write("a.json", ras_json(json_rank(0, 11, 42), missing_rank(1, 15, true), 2));
    LoadOptions records;
    records.paths = {dead};
    CHECK_FALSE(load_run(records));  // what lists calls has nothing to list
    Diagnosis diagnosis = diagnose(load_all_of({dead}));
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].ranks == std::vector<int>{1});
    CHECK(diagnosis.findings[0].confidence == Confidence::kLikely);
    CHECK(any_line_has(texts_of(diagnosis.findings[0].evidence), "NCCL RAS says (a.json): rank 1 of 2"));
    const std::string mute = place.write("b.json", ras_json(json_rank(0, 11, 42), missing_rank(1, 15, false), 2));
    diagnosis = diagnose(load_all_of({mute}));
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].confidence == Confidence::kPossible);
    const Run logged = load_all_of({place.write("c.log", kNcclLog)});
    diagnosis = diagnose(logged);
    CHECK(diagnosis.findings.empty());
    CHECK(diagnosis.cannot_tell.find("Connection closed by remote peer") != std::string::npos);
    CHECK(text_report(logged, diagnosis, {}).find("no dump and no ring, only 3 statements of NCCL") !=
          std::string::npos);
    CHECK(json_report(logged, diagnosis).find("cannot_tell") != std::string::npos);
    std::string two = kNcclLog.substr(0, kNcclLog.find("node-3:4711:4790 [3] NCCL INFO ncclCommSplit"));
    two.replace(two.find("nranks 8"), 8, "nranks 4");
    two += "node-3:4711:4799 [3] NCCL WARN socketProgress: Connection closed by remote peer node-4<43210>\n";
    for (const char* other : {"0", "2"}) {
        two += std::string("node-3:480") + other + ":1 [0] NCCL INFO Init comm 0x1 rank " + other +
               " nranks 4 - Init COMPLETE\n" + "node-3:480" + other +
               ":1 [0] NCCL WARN socketProgress: Connection closed by remote peer node-4<1>\n";
    }
    diagnosis = diagnose(load_all_of({place.write("d.log", two)}));
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].ranks == std::vector<int>{1});
    CHECK(diagnosis.findings[0].confidence == Confidence::kPossible);
}

TEST_CASE("RAS as JSON of a large job is read whole, though of other logs only the ends are") {
    const WitnessPlace place;
    std::string large = ras_json(json_rank(0, 11, 42), missing_rank(1, 15, true), 2);
    large.insert(large.find("\"size\""), std::string(size_t{6} << 20, ' '));
    large.insert(large.size() - 1, std::string(size_t{4} << 20, ' '));
    const Diagnosis diagnosis = diagnose(load_all_of({place.write("large.json", large)}));
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].ranks == std::vector<int>{1});
}

TEST_CASE("a rank that RAS considers dead makes a verdict about another one less sure") {
    const WitnessPlace place;
    Scenario job = job_with_a_sleeper(4, 1);
    job.write(place.path + "/dumps", {3});  // rank 3 left no dump
    const auto head = [&] { return diagnose(load_all_of({place.path + "/dumps"})).findings.front(); };
    const Finding before = head();
    CHECK(before.ranks == std::vector<int>{1});
    place.write("dumps/ncclras.json", ras_json("", missing_rank(3, 99999, true), 4));
    const Finding after = head();
    CHECK(after.ranks == before.ranks);
    CHECK(before.confidence > after.confidence);
    CHECK(after.confidence == Confidence::kPossible);
    CHECK(any_line_has(texts_of(after.evidence), "rank 3 of 4"));
    // Another job's: that pid is rank 0's, which has a record of another number.
    place.write("dumps/ncclras.json", ras_json("", missing_rank(1, 99999, true), 4));
    CHECK(head().confidence == before.confidence);
}
