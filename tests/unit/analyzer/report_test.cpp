#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "diagnose.h"
#include "diagnosis_document.h"
#include "evidence.h"
#include "host/listing.h"
#include "host/words.h"
#include "host_threads.h"
#include "layout.h"
#include "named_stacks.h"
#include "played.h"
#include "repeated_sites.h"
#include "report.h"
#include "report_parts.h"
#include "run_text.h"
#include "show_filter.h"
#include "stacks_report.h"
#include "straggler_report.h"
#include "timing.h"

using namespace titan;
using namespace titan::test;
using namespace titan::analyzer;
using nlohmann::json;

namespace {

Played sleeping() {
    Scenario job(8);
    titan::synth::write_training(job, 4);
    Program sleep;
    sleep.sleep();
    job.program(3).insert_before("world", 2, sleep);
    return play(job);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a process that drives several GPUs is each of their ranks, not the rank of its own number") {
    titan::analyzer::Run run;
    for (const int number : {0, 1}) {
        titan::analyzer::Process& process = run.processes.emplace_back();
        process.rank = number;
        for (const int gpu : {0, 1}) {
            process.members.emplace_back().global_rank = 2 * number + gpu;
        }
    }
    for (const int rank : {0, 1, 2, 3}) {
        CHECK(process_of_rank(run, rank) == &run.processes[static_cast<size_t>(rank / 2)]);
        CHECK(titan::analyzer::RankIndex(run)[rank] == &run.processes[static_cast<size_t>(rank / 2)]);
    }
    CHECK(process_of_rank(run, 4) == nullptr);
}

TEST_CASE("labels on which all ranks agree introduce the run") {
    Scenario job = job_with_a_sleeper(4, 2);
    for (int rank = 0; rank < 4; ++rank) {
        for (const auto& [key, value] :
             std::vector<std::pair<std::string, std::string>>{{"application", "llama"},
                                                              {"git_sha", "0123456789abcdef0123456789abcdef01234567"},
                                                              {"pp_rank", "0"},
                                                              {"gpu.0.uuid", "GPU-0"},
                                                              {"nccl_last_error", "none"},
                                                              {"shard", std::to_string(rank)}}) {
            auto& label = job.ring(rank).add_marker(titan::format::MarkerKind::kLabel);
            label.name = job.ring(rank).text(key);
            label.text = job.ring(rank).text(value);
        }
    }
    const Run run = run_of(job);
    CHECK(titan::analyzer::outline_text(run).ends_with("; application llama, git_sha 0123456789ab"));
    const auto report = json::parse(titan::analyzer::json_report(run, titan::analyzer::diagnose(run, {})));
    CHECK(report["run"]["labels"] ==
          json{{"application", "llama"}, {"git_sha", "0123456789abcdef0123456789abcdef01234567"}});
}

TEST_CASE("the JSON has the fields that others rely on") {
    const Played played = sleeping();
    const json report = json::parse(json_report(played.run, played.diagnosis));
    CHECK(report["schema"] == 4);
    CHECK(report["run"]["id"] == "synth");
    CHECK(report["run"]["attempt"] == 0);
    CHECK(report["run"]["world_size"] == 8);
    CHECK(report["run"]["ranks"].size() == 8);
    CHECK(report["run"]["missing_ranks"].empty());
    CHECK(report["run"]["hosts"] == json::array({"node-0"}));
    CHECK(report["verdict"]["kind"] == "rank_not_arrived");
    CHECK(report["verdict"]["ranks"] == json::array({3}));
    CHECK(report["verdict"]["confidence"] == "certain");
    const json& finding = report["findings"][0];
    CHECK(finding["summary"] == report["verdict"]["summary"]);
    CHECK(finding["victims"] == json::array({0, 1, 2, 4, 5, 6, 7}));
    CHECK(finding["communicator"]["name"] == "world");
    CHECK(finding["communicator"]["size"] == 8);
    CHECK(finding["communicator"]["id"].get<std::string>().size() == 16);
    CHECK(finding["seq"] == 2);
    CHECK(finding["op"] == "all_gather");
    CHECK(finding["evidence"].size() >= 2);
    CHECK(finding["rank_state"].contains("3"));
    // When the GPU of the first of the others had come to the call: its stream was busy until then.
    int64_t first_ns = INT64_MAX;
    for (const auto& process : played.run.processes) {
        const auto& entries = process.entries;
        const int64_t came_ns = std::max(entries.back().entered_ns, entries[entries.size() - 2].finished_ns);
        first_ns = process.rank == 3 ? first_ns : std::min(first_ns, came_ns);
    }
    CHECK(finding["since_ns"].get<int64_t>() == first_ns);
    CHECK(finding["waited_ns"].get<int64_t>() > 10'000'000'000);
    REQUIRE(finding["culprits"].size() == 1);
    const json& culprit = finding["culprits"][0];
    CHECK(culprit["rank"] == 3);
    CHECK(culprit["pid"] == played.run.processes[3].pid);
    CHECK(culprit["host"] == "node-0");
    CHECK(culprit["status"] == "alive");
    CHECK(culprit["top_frame"].is_null());
}

TEST_CASE("a healthy run has no verdict") {
    Scenario job(2);
    titan::synth::write_training(job, 2);
    const Played played = play(job);
    const json report = json::parse(json_report(played.run, played.diagnosis));
    CHECK(report["verdict"].is_null());
    CHECK(report["findings"].empty());
    CHECK(text_report(played.run, played.diagnosis, {}).find("NOTHING WRONG") != std::string::npos);
}

TEST_CASE("the text fits the terminal, folds victims and begins with the verdict") {
    const Played played = sleeping();
    for (const size_t width : {80, 100, 120}) {
        const std::string text = text_report(played.run, played.diagnosis, {.colour = false, .width = width});
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            CHECK((line.size() <= width || line.starts_with("  titan-analyze ")));  // to be pasted: never wrapped
        }
        CHECK(text.find("VERDICT  rank_not_arrived (certain)") != std::string::npos);
        CHECK(text.find("ranks 0-2,4-7: inside cudaStreamSynchronize") != std::string::npos);
        CHECK(text.find("\033[") == std::string::npos);
    }
    CHECK(text_report(played.run, played.diagnosis, {.colour = true, .width = 80}).find("\033[1;31m") !=
          std::string::npos);
}

TEST_CASE("names out of strangers' processes cannot write to the terminal") {
    Scenario job(2);
    job.communicator("evil\033]0;title\007", {0, 1});
    job.program(0).all_reduce("evil\033]0;title\007").sync();
    job.program(1).sleep();
    const Played played = play(job);
    CHECK_FALSE(played.healthy());
    CHECK(text_report(played.run, played.diagnosis, {}).find('\033') == std::string::npos);
}

TEST_CASE("the JSON says where the named ranks stand, and what would make a doubtful finding sure") {
    Scenario job(8);
    titan::synth::write_training(job, 4);
    Program die;
    die.die();
    job.program(3).insert_before("world", 2, die);
    const Played played = play(job, {3});
    const json report = json::parse(json_report(played.run, played.diagnosis));
    CHECK(report["run"]["layout"]["ranks"].size() == 1);
    CHECK(report["run"]["layout"]["ranks"]["3"]["tp"] == 1);
    CHECK(report["run"]["layout"]["dims"].size() == 2);
    CHECK(report["findings"][0]["would_confirm"][0] == "a dump of rank 3 (missing)");
    CHECK_FALSE(report["findings"][0].contains("cycle"));
    const json sure = json::parse(json_report(sleeping().run, sleeping().diagnosis));
    CHECK_FALSE(sure["findings"][0].contains("would_confirm"));
    const json layout = json::parse(layout_json_report(played.run));
    CHECK(layout["ranks"].size() == 8);
    CHECK(layout["communicators"].size() == 7);
    const auto world = std::find_if(layout["communicators"].begin(), layout["communicators"].end(),
                                    [](const json& one) { return one["name"] == "world"; });
    REQUIRE(world != layout["communicators"].end());
    CHECK((*world)["ranks"] == json({0, 1, 2, 4, 5, 6, 7}));
    CHECK((*world)["all_ranks"] == json({0, 1, 2, 3, 4, 5, 6, 7}));  // also of whom nothing is on record
    CHECK((*world)["issued"][3].is_null());
    CHECK((*world)["issued"][0] >= 2);
    CHECK(layout["processes"].size() == 7);
    CHECK(layout["processes"][3]["ranks"] == json({4}));
    CHECK(layout["processes"][3]["source"] == "dump");
    CHECK(layout_report(played.run, {}).find("dp             4      2 communicators: dp:0, dp:1") != std::string::npos);
}

TEST_CASE("the JSON of a deadlock has the cycle") {
    Scenario job(2);
    job.every_rank([](int rank, Program& program) { program.send("world", 1 - rank).recv("world", 1 - rank).sync(); });
    const Played played = play(job);
    const json cycle = json::parse(json_report(played.run, played.diagnosis))["findings"][0]["cycle"];
    REQUIRE(cycle.size() == 2);
    CHECK(cycle[0]["for"] == cycle[1]["rank"]);
    CHECK(cycle[0]["waits_in"].get<std::string>().starts_with("send #0 from rank"));
}

TEST_CASE("frames of libraries are folded, those of the program never are") {
    const std::vector<StackFrame> frames{{"futex (libc.so.6)", "libc.so.6"},
                                         {"spin (libcuda.so.1)", "libcuda.so.1"},
                                         {"wait (libcuda.so.1)", "libcuda.so.1"},
                                         {"cudaStreamSynchronize (libcudart.so.12)", "libcudart.so.12"},
                                         {"Job.step at train.py:9", ""},
                                         {"_call_impl at module.py:7", "torch"},
                                         {"main at train.py:3", ""},
                                         {"main (python3.12)", "python3.12"},
                                         {"_start (python3.12)", "python3.12"}};
    CHECK(folded_frames(frames, 20) == std::vector<std::string>{"... 3 frames in libc.so.6, libcuda.so.1",
                                                                "cudaStreamSynchronize (libcudart.so.12)",
                                                                "Job.step at train.py:9", "_call_impl at module.py:7",
                                                                "main at train.py:3", "... 2 frames in python3.12"});
    std::vector<StackFrame> deep(100);
    for (size_t i = 0; i < deep.size(); ++i) {
        deep[i].text = std::to_string(i);
    }
    const std::vector<std::string> lines = folded_frames(deep, 12);
    REQUIRE(lines.size() == 12);
    CHECK(lines[6] == "6");
    CHECK(lines[7] == "... 89 more");
    CHECK(lines.back() == "99");
    CHECK(folded_frames({}, 12).empty());
}

TEST_CASE("what a frame came with is told by its file") {
    ThreadStack thread;
    thread.sites = {
        {.address = 1, .module = "libcuda.so.1", .of_library = true, .function = "cuStreamSynchronize", .file = ""},
        {.address = 2, .module = "train", .function = "step", .file = ""}};
    CHECK(merge(thread).libraries == std::vector<std::string>{"libcuda.so.1", ""});
    thread.sites.clear();
    thread.python = {{"/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", "_call_impl", 1, false, 0},
                     {"/usr/lib/python3.12/threading.py", "run", 2, false, 0},
                     {"/home/me/train.py", "main", 3, true, 0}};
    CHECK(merge(thread).libraries == std::vector<std::string>{"torch", "Python", ""});
    for (const char* library : {"/usr/lib/x86_64-linux-gnu/libfoo.so.1", "/home/me/lib/libnccl.so.2", "[vdso]",
                                "/venv/lib/python3.12/site-packages/x/y.so", "/usr/bin/python3.12"}) {
        CHECK(is_library(library));
    }
    for (const char* own : {"/home/me/train", "/usr/bin/megatron", "/home/me/build/kernels.so"}) {
        CHECK_FALSE(is_library(own));
    }
}

TEST_CASE("the report of stragglers says that sends and receives do not show any") {
    Scenario job(2);
    for (int i = 0; i < 4; ++i) {
        job.program(0).send("world", 1).sync();
        job.program(1).recv("world", 0).sync();
    }
    const Played played = play(job);
    const Timing timing = analyze_timing(played.run);
    const SlowCauses slow = slow_causes(played.run, timing);
    const std::string text = straggler_report(played.run, timing, slow, {.all = true}, {.colour = false});
    CHECK(contains(text, "8 of 8 calls are sends and receives"));
    CHECK(contains(straggler_json(played.run, timing, slow), "8 of 8 calls are sends and receives"));
}

TEST_CASE("a call site that the evidence has of a rank is told once") {
    Scenario job(2);
    for (int rank = 0; rank < 2; ++rank) {
        job.program(rank).all_reduce("world").all_reduce("world");
    }
    Played played = play(job);
    const std::string chain = "a.py:1 in call, from b.py:2 in step";
    for (Process& process : played.run.processes) {
        process.texts.insert(process.texts.end(), {"a.py:1 in call", chain});
        for (Entry& entry : process.entries) {
            entry.site = static_cast<uint32_t>(process.texts.size() - 1);
        }
        process.entries.front().site -= 1;  // a part of the other one
    }
    Finding finding;
    finding.ranks = {0};
    finding.evidence = {phrase("{}: all_reduce, called at {}", rank_fact(0), chain),
                        phrase("{} waits in all_reduce (sum, called at {}), for 2 s", rank_fact(0), chain),
                        phrase("{}: all_gather, called at {}", rank_fact(1), chain)};
    std::vector<Finding> findings{finding};
    tell_sites_once(played.run, findings);
    CHECK(texts_of(findings.front().evidence) == std::vector<std::string>{"rank 0: all_reduce, called at " + chain,
                                                                          "rank 0 waits in all_reduce (sum), for 2 s",
                                                                          "rank 1: all_gather, called at " + chain});
    CHECK(without_told_site(played.run, findings.front(), 0, "inside a call, called at " + chain + "; waits") ==
          "inside a call; waits");
    CHECK(without_told_site(played.run, Finding{}, 0, "called at x") == "called at x");
}

TEST_CASE("the place of a rank in a helper of the program names who called it from another file") {
    ThreadStack thread;
    thread.python = {{"/home/me/node.py", "get", 32, false, 0},
                     {"/home/me/node.py", "get_all", 40, false, 0},
                     {"/home/me/serve.py", "wait_for_checkpoint", 61, false, 0},
                     {"/home/me/main.py", "<module>", 3, true, 0}};
    CHECK(merge(thread).python == 0);
    CHECK(merge(thread).caller == 2);
    thread.python.pop_back();
    thread.python.pop_back();
    CHECK(merge(thread).caller == analyzer::kNoIndex);
}

TEST_CASE("evidence says each rank's own call where ranks disagree") {
    Scenario job(2);
    job.communicator("tp", {0, 1});
    job.every_rank([](int rank, Program& program) {
        for (int i = 0; i < 4; ++i) {
            program.all_reduce("tp").all_gather("tp");
        }
        rank == 0 ? program.all_reduce("tp") : program.all_gather("tp");
        program.sync();
    });
    const Played played = play(job);
    REQUIRE(played.head().kind == FindingKind::kOpMismatch);
    const std::string text = text_report(played.run, played.diagnosis, {.colour = false, .width = 400});
    CHECK(contains(text, "rank 0 waits in all_reduce #8 on tp (float32 x 1,024, sum), rank 1 waits in all_gather #8"));
    CHECK_FALSE(contains(text, "all_gather #8 on tp (float32 x 1,024, sum)"));
}

TEST_CASE("who waits in a receive is not said to wait in a send") {
    Scenario job(2);
    job.program(0).recv("world", 1).sync();
    job.program(1).sleep();
    const Played played = play(job);
    REQUIRE(played.head().kind == FindingKind::kP2pUnmatched);
    CHECK(contains(played.head().summary.text(),
                   "rank 1 never called the send for recv #0 from rank 1 to rank 0 on world"));
    CHECK(contains(played.head().evidence.front().text(), "rank 0 waits in recv #0 from rank 1 to rank 0 on world"));
    CHECK_FALSE(contains(played.head().evidence.front().text(), "peer"));
}

TEST_CASE("a headline names ranks: who hangs together, who arrived and who is missing") {
    Scenario stuck(2);
    stuck.every_rank([](int, Program& program) { program.hanging_kernel("ncclDevKernel").all_reduce("world").sync(); });
    for (const Finding& finding : play(stuck).diagnosis.findings) {
        CHECK_FALSE(contains(finding.summary.text(), "all members issued"));
    }
    CHECK(contains(sleeping().head().evidence.front().text(), "; missing: rank 3"));
}

TEST_CASE("where a rank without a record ran is told by the others of its host") {
    Run run;
    for (int rank = 0; rank < 16; ++rank) {
        if (rank != 11) {
            Process process;
            process.rank = rank;
            process.host = rank < 8 ? "node-0" : "node-1";
            run.processes.push_back(process);
        }
    }
    CHECK(likely_host_text(run, 11) == "rank 11 probably ran on node-1, as ranks 8-10,12-15 did");
    CHECK(likely_host(run, 11) == "node-1");
    CHECK(likely_host_text(run, 16).empty());
    run.missing_ranks = {11};
    Finding finding;
    finding.ranks = {11};
    const auto collects = [](const std::string& step) { return contains(step, "on node-1, titan-analyze collect"); };
    const std::vector<std::string> steps = next_steps(run, finding, "dumps/");
    CHECK(std::any_of(steps.begin(), steps.end(), collects));
    run.processes[3].host = "node-1";
    CHECK(likely_host_text(run, 11).empty());
}

TEST_CASE("what is next can be pasted, and counts of dumps accuse nobody") {
    const Played played = sleeping();
    const std::vector<std::string> steps = next_steps(played.run, played.head(), "dumps/");
    CHECK(steps.back() == "titan-analyze show dumps/ --comm world --seq 0-3 --rank 0,3  # the calls around it");
    CHECK(std::all_of(steps.begin(), steps.end(),
                      [](const auto& step) { return step.starts_with("# ") || step.starts_with("titan-analyze "); }));
    CHECK(contains(outline_text(played.run), "8 of 8 ranks on host node-0; records: 8 by the watchdog"));
    Run run = played.run;
    run.passed_over = 3;
    run.processes.front().now_ns = 1'900'000'000'000'000'000;  // the newest
    run.processes.front().source.is_ring = true;
    run.processes.front().source.replaced_ns = 1'600'000'000'000'000'000;
    CHECK(contains(outline_text(run), ", newest of 2030-03-1"));
    CHECK(contains(outline_text(run), "; dumps of 2020-09-1"));
    CHECK(contains(outline_text(run), "; 3 other attempts there are older: --list-runs shows them"));
    run.processes.front().source.is_ring = false;
    for (const auto& row : titan::format::rows_of(titan::format::DumpReason{})) {
        run.processes.front().source.reason = row.value;
        CHECK_FALSE(contains(outline_text(run), "unknown reason"));
    }
    run.communicators.front().name = "0";
    CHECK(communicator_text(run.communicators.front()) == "process group 0");
    run.communicators.front().name = "ad56679d2c95f00a464e146ac76c2deb475d8262";
    CHECK(communicator_text(run.communicators.front()) == "process group ad56679d");
    CHECK(shell_quoted("pp 0-1:7099c917") == "'pp 0-1:7099c917'");
    CHECK(shell_quoted("it's") == "'it'\\''s'");
    CHECK(shell_quoted("dumps/a,b") == "dumps/a,b");
    CHECK(shell_quoted("") == "''");
}

TEST_CASE("a rank that a thread of its framework ended for its hang is where the program was") {
    Played played = sleeping();
    Process& process = played.run.processes[3];
    process.fatal_thread = 77;
    process.fatal_signal = 6;
    process.texts.insert(process.texts.end(), {"monitor (libtorch.so)", "load at data.py:3"});
    const auto place = static_cast<uint32_t>(process.texts.size() - 1);
    const int32_t main = working_thread(process);
    process.positions = {{.thread = 77, .name = 0, .why_none = 0, .frames = {place - 1}, .libraries = {0}, .native = 0},
                         {.thread = main, .name = 0, .why_none = 0, .frames = {place}, .libraries = {0}, .python = 0}};
    const Diagnosis diagnosis = diagnose(played.run);
    REQUIRE_FALSE(diagnosis.findings.empty());
    CAPTURE(diagnosis.findings[0].summary.text());
    CHECK(contains(diagnosis.findings[0].summary.text(), "rank 3 is in load at data.py:3"));
    REQUIRE(diagnosis.findings[0].stacks.contains(3));
    CHECK(diagnosis.findings[0].stacks.at(3).front().text == "load at data.py:3");
}

TEST_CASE("advice fits how a rank ended: one that exits by itself has said why") {
    Played played = sleeping();
    const auto first = [&](FindingKind kind, Liveness how) {
        Finding finding = played.head();
        finding.kind = kind;
        played.run.processes[3].liveness = how;
        return next_steps(played.run, finding, "dumps/").front();
    };
    CHECK(contains(first(FindingKind::kRankDead, Liveness::kKilled), "kernel log (OOM killer, Xid)"));
    CHECK(contains(first(FindingKind::kRankDead, Liveness::kExited), "read what rank 3 wrote to stderr"));
    CHECK(contains(first(FindingKind::kRankNotArrived, Liveness::kExited), "why rank 3 left before the others"));
    CHECK(contains(first(FindingKind::kRankNotArrived, Liveness::kAlive), "instead of making the call"));
}

TEST_CASE("advice fits the recorder: a Flight Recorder dump has no pid, no stacks and no variables of ours") {
    Played played = sleeping();
    for (Process& process : played.run.processes) {
        process.source.is_flight_recorder = true;
        process.sees = kFlightRecorderCoverage;
        process.source.label = "nccl_trace_rank_" + std::to_string(process.rank);
        process.positions.clear();
    }
    const Diagnosis diagnosis = diagnose(played.run);
    REQUIRE_FALSE(diagnosis.findings.empty());
    const std::string text = text_report(played.run, diagnosis, {.colour = false, .width = 200});
    CHECK_FALSE(contains(text, "titan-analyze stacks"));
    CHECK_FALSE(contains(text, "TITANTRACE"));
    CHECK_FALSE(contains(text, "pid "));
    CHECK(contains(text, "rank 3 on node-0: its calls are in nccl_trace_rank_3; to see where it is: py-spy dump"));
}

TEST_CASE("of many findings three follow the verdict in brief, the others are counted") {
    Scenario job(12);
    for (int pair = 0; pair < 6; ++pair) {
        const std::string name = "c" + std::to_string(pair);
        job.communicator(name, {2 * pair, 2 * pair + 1});
        job.program(2 * pair).all_reduce(name).sync();
        job.program(2 * pair + 1).sleep();
    }
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 6);
    const std::string text = text_report(played.run, played.diagnosis, {});
    CHECK(contains(text, "\nand 2 more findings (--json)\n"));
    CHECK(std::count(text.begin(), text.end(), '\n') < 60);
}

TEST_CASE("a listing has columns as wide as its rows, in any language") {
    std::string text;
    const Listing::Write write = [&](const std::string& line) { text += line; };
    Listing listing({{"seq", 3, true}, {"state", 5}, {"where", 0}}, 2, write);
    listing.add({"#1", "left out: only the newest two", "x"});
    listing.add({"#2", "scheduled, retired", "a.py:1 in f"});
    listing.add({"#1000", "\u00e9", ""});
    listing.end_part();
    CHECK(text ==
          "  seq  state               where\n"
          "   #2  scheduled, retired  a.py:1 in f\n"
          "#1000  \u00e9\n");
    CHECK(listing.rows() == 2);
    listing.end_part();
    CHECK(listing.rows() == 2);
}

TEST_CASE("calls are chosen by any usual spelling, and where none fits it is said what there is") {
    const auto chosen = [](const ShowOptions& options) {
        ShowFilter filter(options);
        bool fits = false;
        for (const uint64_t number : {7, 8}) {
            CallWords call;
            call.communicator = "TP:0";
            call.communicator_id = "7099c917aa";
            call.op = "all_reduce";
            call.state = "finished";
            call.number = number;
            call.step = 3;
            fits |= filter.fits(call);
        }
        Run run;
        run.processes.resize(1);
        run.processes.front().rank = 4;
        CHECK(filter.nothing_fits(run).empty() == fits);
        return fits ? std::string() : filter.nothing_fits(run);
    };
    const auto by = [](auto member, auto value) {
        ShowOptions options;
        options.*member = value;
        return options;
    };
    for (const char* op : {"all_reduce", "AllReduce", "ncclAllReduce", "allreduce"}) {
        CHECK(chosen(by(&ShowOptions::op, op)).empty());
    }
    CHECK(chosen(by(&ShowOptions::communicator, "tp")).empty());
    CHECK(chosen(by(&ShowOptions::communicator, "tp:0")).empty());
    CHECK(chosen(by(&ShowOptions::communicator, "7099")).empty());
    CHECK(chosen(by(&ShowOptions::state, "Finished")).empty());
    CHECK(chosen({}).empty());
    CHECK(chosen(by(&ShowOptions::op, "allredcue")) ==
          "no recorded call is of operation allredcue; there are all_reduce");
    CHECK(chosen(by(&ShowOptions::state, "running")) == "no recorded call is in state running; there are finished");
    CHECK(chosen(by(&ShowOptions::communicator, "dp")) ==
          "no recorded call matches; there are rank 4; of the ranks chosen: communicators TP:0; operations all_reduce; "
          "states finished; numbers 7-8; steps 3-3");
    CHECK_FALSE(chosen(by(&ShowOptions::communicator, "t")).empty());
    CHECK_FALSE(chosen(by(&ShowOptions::sequences, std::pair<uint64_t, uint64_t>(9, 12))).empty());
}

TEST_CASE("communicators of one name are told apart by their ranks") {
    Run run;
    run.communicators.resize(3);
    for (size_t i = 0; i < 3; ++i) {
        Communicator& communicator = run.communicators[i];
        communicator.name = i < 2 ? "tp" : "world";
        communicator.size = 2;
        for (int rank = 0; rank < 2; ++rank) {
            Process process;
            process.rank = static_cast<int>(2 * i) + rank;
            process.members.resize(1);
            process.members.front().global_rank = process.rank;
            process.members.front().rank = rank;
            communicator.by_rank.push_back({static_cast<uint32_t>(run.processes.size()), 0});
            run.processes.push_back(process);
        }
        communicator.members = communicator.by_rank;
    }
    CHECK(distinct_text(run, 1) == "tp (ranks 2-3)");
    CHECK(distinct_text(run, 2) == "world");
    const auto call = [&](uint32_t communicator) { return call_fact(run, communicator, OpKind::kAllReduce, 5); };
    const auto told = [&](Sentence sentence) {
        add_members(run, 1, sentence);
        return sentence.text();
    };
    CHECK(told(phrase("{} never called {}; {} waits in {}", rank_fact(3), call(1), rank_fact(2), call(1))) ==
          "rank 3 never called all_reduce #5 on tp (ranks 2-3); rank 2 waits in all_reduce #5 on tp");
    CHECK(told(phrase("{}, all members, called {}", ranks_fact({3, 2}), call(1))) ==
          "ranks 2-3, all members, called all_reduce #5 on tp");
    CHECK(told(phrase("{}, then {}", call(0), call(1))) == "all_reduce #5 on tp, then all_reduce #5 on tp (ranks 2-3)");
}

TEST_CASE("node-2 comes before node-10") {
    const NumbersByValue before;
    CHECK(before("node-2", "node-10"));
    CHECK_FALSE(before("node-10", "node-2"));
    CHECK(before("a", "b"));
    CHECK(before("node", "node-1"));
    CHECK_FALSE(before("node-1", "node-1"));
}

TEST_CASE("what could not be seen of many ranks in the same way is one line") {
    std::vector<ProcessStacks> all(3);
    for (int rank = 0; rank < 3; ++rank) {
        all[static_cast<size_t>(rank)].rank = rank;
        all[static_cast<size_t>(rank)].notes = {"its dump has no stacks"};
    }
    CHECK(contains(stacks_report(all, {}, {}, {}), "\n  - ranks 0-2: its dump has no stacks\n"));
    CHECK(contains(stacks_report(all, {}, {.list = true}, {}), "rank 1: no stacks\n"));
}
