// What PyTorch's watchdogs log, in the words of its versions, and what is made of it without any record.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "diagnose.h"
#include "played.h"
#include "torch_watchdog.h"
#include "witnesses.h"

using namespace titan;
using namespace titan::test;
using analyzer::Diagnosis;
using analyzer::EndOrder;
using analyzer::Finding;
using analyzer::Testimony;

namespace {

std::string timeout(int rank, int number, const char* op, const char* group = "[PG ID 0 PG GUID 0(default_pg) Rank {}]",
                    int minute = 4) {
    return fmt::format(
        "[rank{0}]:[E810 03:{4:02}:11.061727749 ProcessGroupNCCL.cpp:683] [Rank {0}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=80, NumelOut=80, Timeout(ms)=600000) ran for "
        "600016 milliseconds before timing out.\n"
        "[rank{0}]:[E810 03:{4:02}:11.063313477 ProcessGroupNCCL.cpp:2241] {3}  failure detected by watchdog at work "
        "sequence id: {1} PG status: last enqueued work: {5}, last completed work: {6}\n",
        rank, number, op, fmt::format(fmt::runtime(group), rank), minute, number + 1, number - 1);
}

// What a rank logs whose own calls did not time out.
std::string told_by_others(int rank, int enqueued, int completed) {
    return fmt::format(
        "[rank{0}]:[E810 03:04:12.1 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Received a "
        "dump signal due to a collective timeout from  rank 1 and we will try our best to dump the debug info. Last "
        "enqueued NCCL work: {1}, last completed NCCL work: {2}.This is most likely caused by incorrect usages\n",
        rank, enqueued, completed);
}

Diagnosis diagnosis_of(const std::string& log) {
    analyzer::Run run;
    run.testimony = said_in(log);
    analyzer::settle_ends_by_watchdogs(run.testimony);
    return analyzer::diagnose(run, {});
}

Finding head_of(const std::string& log) {
    const Diagnosis diagnosis = diagnosis_of(log);
    REQUIRE(diagnosis.findings.size() == 1);
    CAPTURE(diagnosis.findings[0].summary.text());
    CHECK(diagnosis.findings[0].confidence != analyzer::Confidence::kCertain);
    return diagnosis.findings[0];
}

std::string ended_first(int rank, int status, const char* time = "2026-08-10_03:05:11") {
    return fmt::format(
        "Root Cause (first observed failure):\n[0]:\n  time      : {}\n  host      : node-3\n  rank      : {} "
        "(local_rank: 0)\n  exitcode  : {} (pid: 4711)\n  error_file: <N/A>\n  traceback : x\n======\n",
        time, rank, status);
}

}  // namespace

TEST_CASE("watchdogs of all versions tell the call, its group and how far the rank is") {
    struct Words {
        const char* log;
        const char* text;
    };
    constexpr Words kVersions[] = {
        {"[E ProcessGroupNCCL.cpp:587] [Rank 3] Watchdog caught collective operation timeout: "
         "WorkNCCL(OpType=ALLREDUCE, "
         "TensorShape=[10], Timeout(ms)=1800000) ran for 1804000 milliseconds before timing out.\n",
         "rank 3: ALLREDUCE timed out after 30 min 04 s"},
        {"[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
         "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600000 milliseconds before timing "
         "out.\n",
         "rank 3: ALLREDUCE #7 timed out after 10 min 00 s"},
        {"[rank1]:[E1003 18:37:01.832146912 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation "
         "timeout: WorkNCCL(SeqNum=6463, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800017 "
         "milliseconds before timing out.\n"
         "[rank1]:[E1003 18:37:01.833575187 ProcessGroupNCCL.cpp:1664] [PG 0 (default_pg) Rank 1] Exception (either an "
         "error or timeout) detected by watchdog at work: 6463, last enqueued NCCL work: 6463, last completed NCCL "
         "work: "
         "6462.\n",
         "rank 1: ALLREDUCE #6463 on default_pg timed out after 30 min 00 s; its newest call is #6463"},
        {"(WorkerDict pid=34) 100%|###| [rank2]:[E1109 16:13:20.222288244 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog "
         "caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=_REDUCE_SCATTER_BASE, NumelIn=6, NumelOut=8, "
         "Timeout(ms)=600000) ran for 600038 milliseconds before timing out.\n"
         "[rank2]:[E1109 16:13:20.222705810 ProcessGroupNCCL.cpp:1785] [PG ID 1 PG GUID 15(tp) Rank 0] Exception "
         "(either "
         "an error or timeout) detected by watchdog at work: 5, last enqueued NCCL work: 7, last completed NCCL work: "
         "4.\n",
         "rank 2: _REDUCE_SCATTER_BASE #5 on tp timed out after 10 min 00 s; its newest call is #7"},
        {"[rank4]:[E1127 11:52:20.36 ProcessGroupNCCL.cpp:638] [TC][rank=4][name=0] Aborting process on rank 4 due to "
         "timeout - timeout watchdog detected operation timeout\n",
         "rank 4: a call on the group of all timed out, and the watchdog ends the process"},
        {"[rank5]:[F1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 5] ProcessGroupNCCL's watchdog got "
         "stuck for 600 seconds without making progress in monitoring enqueued collectives.\n",
         "rank 5: its watchdog got stuck for 600 s: a call of CUDA or NCCL does not return, or another thread holds "
         "the "
         "GIL"},
        {"[rank6]:[E1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 6] Process group watchdog thread "
         "terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version "
         "2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
         "prematurely.\nLast error:\nNET/IB : Got completion from peer 10.0.0.5<41234> with status=12\nException "
         "raised "
         "from checkForNCCLErrorsInternal\n",
         "rank 6: NCCL lost a peer or the network: NET/IB : Got completion from peer 10.0.0.5<41234> with status=12"},
    };
    for (const Words& version : kVersions) {
        CAPTURE(version.log);
        const std::vector<Testimony> said = said_in(version.log);
        REQUIRE(said.size() == 1);
        CHECK(said[0].text == version.text);
    }
}

TEST_CASE("who left a call out by its own count is named") {
    std::string log = timeout(1, 78, "BROADCAST") + timeout(3, 78, "BROADCAST");
    log += told_by_others(0, 77, 77) + told_by_others(2, 79, 77);
    const Finding head = head_of(log);
    CHECK(head.kind == analyzer::FindingKind::kRankNotArrived);
    CHECK(head.ranks == ranks({0}));
    CHECK(head.victims == ranks({1, 3}));
    CHECK(head.summary.text().find("rank 0 never called BROADCAST #78 on default_pg") != std::string::npos);
    CHECK(head.confidence == analyzer::Confidence::kLikely);
}

TEST_CASE("a timeout without the line that names its group is of the group in which the same call timed out") {
    const std::string whole = timeout(1, 78, "BROADCAST");
    const std::string other = timeout(3, 78, "BROADCAST");
    const Finding head = head_of(whole + other.substr(0, other.find('\n') + 1) + told_by_others(0, 77, 77) +
                                 timeout(2, 78, "BROADCAST"));
    CHECK(head.ranks == ranks({0}));
    CHECK(head.victims == ranks({1, 2, 3}));
}

TEST_CASE("who logs no timeout while all others do is named, and who ended by its own watchdog is not") {
    const std::string log =
        "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/job/train.py\", line 7, in gather\n"
        "[rank0]: RuntimeError: Connection closed by peer\n" +
        timeout(1, 78, "BROADCAST") + timeout(2, 78, "BROADCAST") + ended_first(2, -6);
    const std::vector<Testimony> said = said_in(log);
    const Finding head = head_of(log);
    CHECK(head.ranks == ranks({0}));
    CHECK(head.confidence == analyzer::Confidence::kLikely);
    CHECK(any_line_has(texts_of(head.evidence), "rank 0: RuntimeError: Connection closed by peer, at train.py:7"));
    // One that raised because of that, too: the watchdogs had spoken by then.
    CHECK(head_of(timeout(1, 78, "BROADCAST") + timeout(2, 78, "BROADCAST") + ended_first(0, 1)).ranks == ranks({0}));
    // But who was killed before ended first.
    const Finding killed =
        head_of(timeout(1, 78, "BROADCAST") + timeout(2, 78, "BROADCAST") + ended_first(0, -9, "2026-08-10_02:50:00"));
    CHECK(killed.kind == analyzer::FindingKind::kRankDead);
}

TEST_CASE("watchdogs that wait in different calls tell who is behind, and of which operation") {
    const Finding behind = head_of(timeout(1, 14863, "ALLREDUCE") + timeout(2, 14862, "ALLGATHER"));
    CHECK(behind.ranks == ranks({2}));
    CHECK(behind.summary.text().find("waits in ALLGATHER #14862 and never called ALLREDUCE #14863") !=
          std::string::npos);
    const Finding differ =
        head_of(timeout(0, 9, "ALLREDUCE") + timeout(1, 9, "ALLGATHER") + timeout(2, 9, "ALLREDUCE"));
    CHECK(differ.kind == analyzer::FindingKind::kOpMismatch);
    CHECK(differ.ranks == ranks({1}));
    const Finding alone =
        head_of(timeout(0, 132, "BROADCAST") + told_by_others(1, 135, 134) + told_by_others(2, 135, 134));
    CHECK(alone.ranks == ranks({0}));
    CHECK(alone.confidence == analyzer::Confidence::kPossible);
}

TEST_CASE("of several groups the call that has waited for longest counts") {
    constexpr const char* kTp = "[PG ID 1 PG GUID 4(tp) Rank 0]";
    const Finding head =
        head_of(timeout(0, 5, "ALLREDUCE", kTp) + timeout(2, 50, "BROADCAST", "[PG 0 (default_pg) Rank {}]", 9) +
                timeout(3, 50, "BROADCAST", "[PG 0 (default_pg) Rank {}]", 9) +
                "[rank1]:[E810 03:04:12.1 ProcessGroupNCCL.cpp:1746] " + kTp +
                " Received a dump signal. Last enqueued NCCL work: 4, last completed NCCL work: 4.\n");
    CHECK(head.ranks == ranks({1}));
}

TEST_CASE("where all wait in one call, or all watchdogs are stuck, logs do not tell who it is") {
    const Diagnosis all = diagnosis_of(timeout(0, 7, "ALLREDUCE") + timeout(1, 7, "ALLREDUCE"));
    CHECK(all.findings.empty());
    CHECK(all.cannot_tell.find("rank 1: ALLREDUCE #7") != std::string::npos);
    const auto stuck = [](int rank) {
        return fmt::format("[rank{}]: ProcessGroupNCCL's watchdog got stuck for 600 seconds without progress\n", rank);
    };
    CHECK(diagnosis_of(stuck(0) + stuck(1)).findings.empty());
    const std::string other = "[rank0]: Traceback (most recent call last):\n[rank0]: RuntimeError: boom\n";
    CHECK(head_of(other + stuck(1)).ranks == ranks({1}));
}
