// What launchers and schedulers wrote, read as they write it.
#include "witness.h"

#include <algorithm>
#include <string>
#include <vector>

#include "diagnose.h"
#include "host_threads.h"
#include "of_this_run.h"
#include "played.h"
#include "thread_position.h"
#include "witnesses.h"

using namespace titan;
using namespace titan::test;
using analyzer::Claim;
using analyzer::EndOrder;
using analyzer::kMaxTestimonies;
using analyzer::Testimony;
using analyzer::WitnessFile;

namespace {

// As PyTorch 2.13's torchrun wrote it.
const std::string kTorchrunLog =
    "W1122 08:27:52.481000 4706 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 4710 closing "
    "signal SIGTERM\n"
    "E1122 08:27:53.101000 4706 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) "
    "local_rank: 2 (pid: 4711) "
    "of binary: /usr/bin/python3\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\n"
    "tests/simgpu/train.py FAILED\n"
    "------------------------------------------------------------\n"
    "Failures:\n"
    "[1]:\n"
    "  time      : 2026-11-22_08:27:53\n"
    "  host      : node-3.example\n"
    "  rank      : 9 (local_rank: 1)\n"
    "  exitcode  : -15 (pid: 4710) (SIGTERM)\n"
    "  error_file: <N/A>\n"
    "  traceback : Signal 15 (SIGTERM) received by PID 4710\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n"
    "[0]:\n"
    "  time      : 2026-11-22_08:27:52\n"
    "  host      : node-3.example\n"
    "  rank      : 10 (local_rank: 2)\n"
    "  exitcode  : -9 (pid: 4711) (SIGKILL)\n"
    "  error_file: <N/A>\n"
    "  traceback : Signal 9 (SIGKILL) received by PID 4711\n"
    "============================================================\n";

}  // namespace

TEST_CASE("torchrun's list of failures tells who failed first and whom torchrun itself ended") {
    const std::vector<Testimony> said = said_in(kTorchrunLog);
    REQUIRE(said.size() == 2);
    CHECK(said[0].rank == 9);
    CHECK(said[0].pid == 4710);
    CHECK(said[0].signal == 15);
    CHECK(said[0].order == EndOrder::kAfterOthers);
    CHECK(said[1].rank == 10);
    CHECK(said[1].host == "node-3.example");
    CHECK(said[1].signal == 9);
    CHECK(said[1].exit_status == -1);
    CHECK(said[1].order == EndOrder::kFirst);
    CHECK(said[1].text ==
          "rank 10 (pid 4711 on node-3.example): killed by SIGKILL at 2026-11-22_08:27:52, first of all");
}

TEST_CASE("a log without a witness' words says nothing") {
    CHECK(said_in("step 1 loss 2.0\nrank : 3\nexitcode : 4\n").empty());
    CHECK(said_in("").empty());
}

TEST_CASE("where torchrun found several ends at one look, nobody was first") {
    std::string text = kTorchrunLog;
    text.replace(text.find("Sending process 4710"), 20, "Sending process 4712");
    text.replace(text.find("exitcode  : -15 (pid: 4710) (SIGTERM)"), 37, "exitcode  : 1 (pid: 4710)            ");
    const std::vector<Testimony> said = said_in(text);
    REQUIRE(said.size() == 2);
    CHECK(said[0].exit_status == 1);
    CHECK(said[0].order == EndOrder::kUnknown);
    CHECK(said[1].order == EndOrder::kUnknown);
}

TEST_CASE("the traceback in torchrun's list ends in the exception") {
    const std::vector<Testimony> said = said_in(
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        "  time      : 2026-11-22_08:27:52\n"
        "  host      : node-3\n"
        "  rank      : 2 (local_rank: 2)\n"
        "  exitcode  : 1 (pid: 4711)\n"
        "  error_file: /tmp/torchelastic_x/none_y/attempt_0/2/error.json\n"
        "  traceback : Traceback (most recent call last):\n"
        "    File \"train.py\", line 7, in main\n"
        "      raise RuntimeError(\"boom\")\n"
        "  RuntimeError: boom\n"
        "  \n"
        "============================================================\n"
        "rank : 7 (local_rank: 7)\n");
    REQUIRE(said.size() == 1);
    CHECK(said[0].rank == 2);
    CHECK(said[0].message == "RuntimeError: boom");
    CHECK(said[0].error_file == "/tmp/torchelastic_x/none_y/attempt_0/2/error.json");
    CHECK(said[0].order == EndOrder::kFirst);
}

TEST_CASE("the traceback that a rank wrote into torchrun's log is quoted, with the program's line") {
    const std::string frames =
        "  File \"/job/train.py\", line 7, in step\n    loss()\n"
        "  File \"/v/lib/python3.11/site-packages/torch/nn/module.py\", line 9, in call\n    f()\n";
    const std::string list =
        "Traceback (most recent call last):\n  File \"/v/bin/torchrun\", line 3, in <module>\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-22_08:27:52\n  host      : node-3\n"
        "  rank      : 2 (local_rank: 0)\n  exitcode  : 1 (pid: 4711)\n  error_file: <N/A>\n"
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n====\n";
    const auto prefixed = [](const std::string& prefix, const std::string& text) {
        std::string all;
        for (size_t begin = 0; begin < text.size();) {
            const size_t end = text.find('\n', begin) + 1;
            all += prefix + text.substr(begin, end - begin);
            begin = end;
        }
        return all;
    };
    const std::string boom = "Traceback (most recent call last):\n" + frames + "RuntimeError: boom\n";
    const std::string chain = "Traceback (most recent call last):\n" + frames +
                              "KeyError: 3\n\nDuring handling of the above exception, another exception occurred:\n\n" +
                              boom;
    for (const std::string& written :
         {prefixed("[rank2]: ", boom), prefixed("[default0]:", boom), prefixed("[default0]:[rank2]: ", chain), boom,
          prefixed("[rank3]: ", "Traceback (most recent call last):\n  x\nValueError: other\n") +
              prefixed("[rank2]: ", boom)}) {
        const std::vector<Testimony> said = said_in(written + list);
        REQUIRE(said.size() == 1);
        CHECK(said[0].message == "RuntimeError: boom");
        CHECK(said[0].text ==
              "rank 2 (pid 4711 on node-3): exited with status 1 at 2026-11-22_08:27:52, RuntimeError: "
              "boom, at train.py:7 in step, first of all");
    }
    // Of other ranks, or of nobody knows whom.
    const std::string other = "Traceback (most recent call last):\n  x\nValueError: other\n";
    for (const std::string& written : {prefixed("[rank3]: ", boom), boom + other, std::string()}) {
        const std::vector<Testimony> said = said_in(written + list);
        REQUIRE(said.size() == 1);
        CHECK(said[0].message.empty());
    }
}

TEST_CASE("an error file tells the exception, its place and its time; its path whose it is") {
    const std::string text =
        R"({"message": {"message": "RuntimeError: boom\nsecond line", "extraInfo": {"py_callstack": )"
        R"("Traceback (most recent call last):\n  File \"/a/torch/__init__.py\", line 357, in wrapper\n)"
        R"(    return f()\n  File \"/job/train.py\", line 7, in main\n    raise\nRuntimeError: boom\n", )"
        R"("timestamp": "1795336072"}}})";
    WitnessFile file;
    file.path = "/logs/none_x/attempt_1/2/error.json";
    file.label = "attempt_1/2/error.json";
    file.text = text;
    const std::vector<Testimony> said = analyzer::testimonies_of(file);
    REQUIRE(said.size() == 1);
    CHECK(said[0].local_rank == 2);
    CHECK(said[0].attempt == 1);
    CHECK(said[0].time_ns == 1'795'336'072'000'000'000);
    CHECK(said[0].message == "RuntimeError: boom");
    CHECK(said[0].text == "RuntimeError: boom, at train.py:7 in main");
    for (const char* broken : {R"({"message": {"message": 3}})", R"({"message": )",
                               R"({"message": {"message": "x", "extraInfo": 3}})", R"({"message": []})"}) {
        file.text = broken;
        CHECK(analyzer::testimonies_of(file).size() <= 1);
    }
}

TEST_CASE("srun names tasks; those that ended after it began to end the step come after") {
    const std::vector<Testimony> said = said_in(
        "step 3 loss 1.0\n"
        "slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: node-3: task 5: Out Of Memory\n"
        "srun: launch/slurm: _step_signal: Terminating StepId=17.0\n"
        "slurmstepd-node-3: error: *** STEP 17.0 ON node-3 CANCELLED AT 2026-11-22T08:27:52 ***\n"
        "srun: error: node-3: tasks 4,6-7: Terminated\n"
        "srun: error: node-4: task 8: Exited with exit code 1\n"
        "srun: error: node-4: task 9: Segmentation fault (core dumped)\n"
        "srun: error: Unable to create step for job 17: Requested nodes are busy\n");
    REQUIRE(said.size() == 7);
    CHECK(said[0].out_of_memory);
    CHECK(said[0].claim == Claim::kNote);
    CHECK(said[1].task == 5);
    CHECK(said[1].host == "node-3");
    CHECK(said[1].out_of_memory);
    CHECK(said[1].order == EndOrder::kFirst);
    CHECK(said[1].text == "task 5 on node-3: killed by SIGKILL: out of memory");
    CHECK(said[2].task == 4);
    CHECK(said[4].task == 7);
    CHECK(said[4].signal == 15);
    CHECK(said[4].order == EndOrder::kAfterOthers);
    CHECK(said[5].exit_status == 1);
    CHECK(said[6].signal == 11);
}

TEST_CASE("a log that was appended to holds several jobs: each is judged by itself") {
    const std::vector<Testimony> steps = said_in(
        "srun: error: vm: task 2: Killed\n"
        "srun: launch/slurm: _step_signal: Terminating StepId=1.0\n"
        "srun: error: vm: tasks 0-1: Terminated\n"
        "srun: Force Terminated StepId=1.0\n"
        "srun: error: vm: task 1: Exited with exit code 3\n"
        "slurmstepd-vm: error: *** STEP 2.0 ON vm CANCELLED AT 2026-11-22T09:31:31 ***\n"
        "srun: error: vm: task 0: Terminated\n");
    REQUIRE(steps.size() == 5);
    CHECK(steps[0].run == "slurm-1.0");
    CHECK(steps[0].order == EndOrder::kFirst);
    CHECK(steps[2].order == EndOrder::kAfterOthers);
    CHECK(steps[3].run == "slurm-2.0");
    CHECK(steps[3].order == EndOrder::kFirst);
    CHECK(steps[3].part != steps[0].part);
    CHECK(steps[4].order == EndOrder::kAfterOthers);
    const std::vector<Testimony> runs = said_in(kTorchrunLog + kTorchrunLog);
    REQUIRE(runs.size() == 4);
    CHECK(runs[1].part != runs[3].part);
    CHECK(runs[3].order == EndOrder::kFirst);
    CHECK(runs[3].wall_s - runs[2].wall_s == -1);
}

TEST_CASE("sacct's parsable output tells how steps ended") {
    const std::vector<Testimony> said = said_in(
        "JobID|JobName|State|ExitCode|NodeList\n"
        "17|train|FAILED|0:9|node-[3-4]\n"
        "17.0|python|OUT_OF_MEMORY|0:125|node-3\n"
        "17.extern|extern|COMPLETED|0:0|node-3\n"
        "17.1|short\n");
    REQUIRE(said.size() == 2);
    CHECK(said[0].text == "17 FAILED, ExitCode 0:9, NodeList node-[3-4]");
    CHECK(said[1].out_of_memory);
}

TEST_CASE("mpirun names the first to fail") {
    const std::vector<Testimony> said = said_in(
        "mpirun noticed that process rank 2 with PID 4711 on node node-3 exited on signal 9 (Killed).\n"
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n"
        "  Process name: [[61422,1],3]\n"
        "  Exit code:    3\n");
    REQUIRE(said.size() == 2);
    CHECK(said[0].rank == 2);
    CHECK(said[0].signal == 9);
    CHECK(said[0].host == "node-3");
    CHECK(said[0].order == EndOrder::kFirst);
    CHECK(said[1].rank == 3);
    CHECK(said[1].exit_status == 3);
}

TEST_CASE("no byte of a witness is trusted") {
    for (const char* text :
         {"Root Cause (first observed failure):\n[0]:\n  rank : 99999999999 (x\n  exitcode : -9999999999 (pid: \n",
          "Root Cause (first observed failure):\n[0]:\n", "srun: error: : task",
          "srun: error: a: tasks 1-999999999: Killed", "srun: error: a: tasks 5-: Killed",
          "srun: error: a: task -3: Killed", "noticed that process rank -1 with PID x on node ",
          "The first process to do so was:\nProcess name: [[1,1],2]\nExit code: 99999999999\n",
          "JobID|State\n|||||\nx|FAILED"}) {
        CHECK(said_in(text).size() <= kMaxTestimonies);
    }
}

namespace {

Testimony ended_first(int rank) {
    Testimony said;
    said.witness = "torchrun";
    said.file = "job.log";
    said.text = "rank 2 (pid 12 on node-3): killed by SIGKILL (killed), first of all";
    said.claim = Claim::kEnded;
    said.order = EndOrder::kFirst;
    said.rank = rank;
    said.signal = 9;
    return said;
}

// All ranks were killed within a moment, and nothing in their records tells whose end was first.
Played all_killed(const std::vector<Testimony>& testimony, int missing = -1) {
    Scenario job(4);
    write_training(job, 4);
    job.play();
    Played played{run_of(job), {}};
    std::erase_if(played.run.processes, [&](const analyzer::Process& process) { return process.rank == missing; });
    for (analyzer::Process& process : played.run.processes) {
        process.liveness = analyzer::Liveness::kKilled;
        process.ending.seen_ns = process.last_activity_ns();
        process.pid = 10 + process.rank;
    }
    played.run.testimony = testimony;
    analyzer::keep_of_this_run(played.run);
    judge(played);
    return played;
}

}  // namespace

TEST_CASE("who was first is not on record, and the launcher saw it") {
    const Played untold = all_killed({});
    CHECK(untold.diagnosis.findings.empty());
    CHECK(!untold.diagnosis.cannot_tell.empty());
    const Played told = all_killed({ended_first(2)});
    REQUIRE(told.diagnosis.findings.size() == 1);
    CHECK(told.head().kind == FindingKind::kRankDead);
    CHECK(told.head().ranks == ranks({2}));
    CHECK(told.head().summary.text().find("killed by SIGKILL") != std::string::npos);
    CHECK(any_line_has(texts_of(told.head().evidence), "torchrun says (job.log): rank 2"));
}

TEST_CASE("of what the launchers of two nodes saw first, the one that is seconds earlier counts") {
    for (const int64_t later_s : {1, 60}) {
        Testimony one = ended_first(2);
        one.wall_s = 1000;
        Testimony other = ended_first(1);
        other.wall_s = 1000 + later_s;
        const Played told = all_killed({one, other});
        CHECK(told.diagnosis.findings.size() == (later_s == 60 ? 1 : 0));
    }
}

TEST_CASE("of many statements, where there is no record at all, sixteen are quoted") {
    analyzer::Run run;
    run.world_size = 21;
    for (int rank = 0; rank < 20; ++rank) {
        Testimony& said = run.testimony.emplace_back();
        said.witness = "NCCL";
        said.file = "job.log";
        said.text = "rank " + std::to_string(rank) + ": connection closed.";
        said.rank = rank;
    }
    const std::string untold = analyzer::diagnose(run, {}).cannot_tell;
    CHECK(untold.ends_with("NCCL says (job.log): rank 15: connection closed.; 4 more statements"));
    for (Testimony& said : run.testimony) {
        said.lost_a_peer = true;
    }
    const Diagnosis told = analyzer::diagnose(run, {});
    REQUIRE(told.findings.size() == 1);
    CHECK(told.findings[0].ranks == ranks({20}));
    REQUIRE(told.findings[0].evidence.size() == 17);
    CHECK(told.findings[0].evidence[15].text() == "NCCL says (job.log): rank 15: connection closed.");
    CHECK(told.findings[0].evidence[16].text() == "4 more statements of this kind");
}

TEST_CASE("a dead rank without a record is named by the launcher") {
    const Played told = all_killed({ended_first(2)}, 2);
    REQUIRE(!told.diagnosis.findings.empty());
    CHECK(told.head().kind == FindingKind::kRankDead);
    CHECK(told.head().ranks == ranks({2}));
    CHECK(told.diagnosis.cannot_tell.empty());
    CHECK(told.head().summary.text().find("left no record") != std::string::npos);
}

TEST_CASE("a scheduler's task is a rank without a record at most likely: it may be a launcher of several") {
    Testimony said = ended_first(-1);
    said.witness = "srun";
    said.task = 2;
    const Played told = all_killed({said}, 2);
    REQUIRE(!told.diagnosis.findings.empty());
    CHECK(told.head().ranks == ranks({2}));
    CHECK(told.head().confidence == analyzer::Confidence::kLikely);
}

TEST_CASE("stacks of an earlier dump stay with the newer ring, but for threads that went on") {
    analyzer::Process dumped;
    dumped.now_ns = 1000;
    dumped.texts = {"", "main", "train.py:7 in step", "loader", "data.py:9 in next"};
    dumped.positions = {{.thread = 1, .name = 1, .why_none = 0, .frames = {2}, .libraries = {0}, .python = 0},
                        {.thread = 2, .name = 3, .why_none = 0, .frames = {4}}};
    analyzer::Process later;
    later.texts = {"", "ncclAllReduce"};
    later.threads = {{.thread = 1, .call = 1, .entered_ns = 900, .spans = {}},
                     {.thread = 2, .last_call_ns = 1500, .spans = {}}};
    analyzer::keep_positions(dumped, later);
    REQUIRE(later.positions.size() == 1);
    CHECK(later.text(later.positions[0].frames[0]) == "train.py:7 in step");
    CHECK(later.text(later.positions[0].name) == "main");
    CHECK(later.positions[0].libraries[0] == 0);
    later.positions.clear();
    later.step = 3;
    analyzer::keep_positions(dumped, later);
    CHECK(later.positions.empty());
}

TEST_CASE("the work of a program is its main thread's, unless only another one is ever seen to call") {
    analyzer::Process process;
    process.pid = 10;
    process.callers = {12};
    process.threads = {{.thread = 11, .last_call_ns = 900, .spans = {}},
                       {.thread = 12, .last_call_ns = 500, .spans = {}}};
    CHECK(analyzer::working_thread(process) == 12);
    process.threads.push_back({.thread = 10, .last_call_ns = 100, .spans = {}});
    CHECK(analyzer::working_thread(process) == 10);
    process.threads.clear();
    CHECK(analyzer::working_thread(process) == 10);
}

TEST_CASE("statements about another job are not used") {
    Testimony other = ended_first(2);
    other.pid = 999;
    Testimony earlier = ended_first(1);
    earlier.file = "old.log";
    earlier.time_ns = 1;
    Testimony attempt = ended_first(1);
    attempt.file = "attempt.log";
    attempt.attempt = 7;
    const Played played = all_killed({other, earlier, attempt});
    CHECK(played.run.testimony.empty());
    CHECK(played.diagnosis.findings.empty());
    REQUIRE(!played.run.warnings.empty());
    CHECK(played.run.warnings.front().summary.find("of another job") != std::string::npos);
}
