// What the analyzer makes of a Flight Recorder dump: names, numbers, groups, states. Whole verdicts are in
// verdicts/flight_recorder.txt.
#include "fr_file.h"

#include <doctest/doctest.h>

#include "formats/fr/read.h"
#include "fr_groups.h"
#include "fr_names.h"
#include "fr_process.h"
#include "link_run.h"
#include "match.h"

using namespace titan;
using analyzer::CallState;
using analyzer::DeviceState;
using analyzer::OpKind;
using analyzer::Process;

namespace {

constexpr int64_t kNow = 1'000'000'000'000;

format::fr::Dump dump_of(const std::string& json) {
    format::fr::Tree tree;
    REQUIRE(!format::fr::read_json(std::as_bytes(std::span(json)), tree));
    auto dump = format::fr::to_dump(tree, json.size());
    REQUIRE_MESSAGE(dump, (dump ? "" : dump.error().text()));
    return std::move(*dump);
}

// `rest`: more keys of the entry.
std::string entry(const std::string& name, int collective, int p2p, const std::string& state,
                  const std::string& rest = "") {
    return R"({"record_id": 0, "process_group": ["0", "default_pg"], "profiling_name": ")" + name +
           R"(", "collective_seq_id": )" + std::to_string(collective) + R"(, "p2p_seq_id": )" + std::to_string(p2p) +
           R"(, "time_created_ns": 1000, "input_sizes": [[4, 4]], "input_dtypes": ["Float"], )" +
           R"("output_sizes": [[4, 4]], "state": ")" + state + R"(", "retired": false)" + rest + "}";
}

std::string dump_text(const std::string& entries, const std::string& version = "2.10",
                      const std::string& groups = R"("0": {"desc": "default_pg", "ranks": "[0, 1]"})") {
    return R"({"version": ")" + version + R"(", "pg_config": {)" + groups + R"(}, "entries": [)" + entries + "]}";
}

Process process_of(const std::string& json, int rank = 0) {
    analyzer::GroupRanks groups;
    return analyzer::process_of_dump(dump_of(json), rank, kNow, groups);
}

TEST_CASE("where a call was made: the innermost frame outside PyTorch, and what called it") {
    const auto dump = dump_of(dump_text(entry("nccl:all_reduce", 1, 0, "completed", R"(, "frames": [
        {"name": "all_reduce", "filename": "/x/site-packages/torch/distributed/distributed_c10d.py", "line": 9},
        {"name": "call", "filename": "/job/train.py", "line": 125},
        {"name": "_call_impl", "filename": "/x/torch/nn/modules/module.py", "line": 7},
        {"name": "step", "filename": "/job/train.py", "line": 157},
        {"name": "main", "filename": "/job/train.py", "line": 186},
        {"name": "<module>", "filename": "/job/train.py", "line": 194}])")));
    CHECK(analyzer::call_site(dump, dump.entries.front()) == "train.py:125 in call");
    CHECK(analyzer::call_way(dump, dump.entries.front()) ==
          "train.py:125 in call, from train.py:157 in step, from train.py:186 in main");
    CHECK(analyzer::shapes_text(dump, dump.entries.front()) == "[[4, 4]] -> [[4, 4]]");
}

TEST_CASE("names of calls") {
    const auto send = analyzer::parse_call_name("nccl:send 1->2");
    CHECK(send.backend == "nccl");
    CHECK(send.kind == OpKind::kSend);
    CHECK(send.source == 1);
    CHECK(send.target == 2);
    const auto receive = analyzer::parse_call_name("xccl:recv 3<-0");
    CHECK(receive.kind == OpKind::kRecv);
    CHECK(receive.source == 0);
    CHECK(receive.target == 3);
    CHECK(analyzer::parse_call_name("nccl2:all_reduce").kind == OpKind::kAllReduce);
    CHECK(analyzer::parse_call_name("nccl2:all_reduce").backend == "nccl2");
    CHECK(analyzer::parse_call_name("gloo:send").source == -1);
    CHECK(analyzer::parse_call_name("nccl:send x->2").source == -1);
    CHECK(analyzer::parse_call_name("nccl:_all_gather_base").kind == OpKind::kAllGather);
    CHECK(analyzer::parse_call_name("gloo:barrier").kind == OpKind::kBarrier);
    CHECK(analyzer::parse_call_name("nccl:coalesced").closes_group);
    CHECK(analyzer::parse_call_name("nccl:ALLGATHER_coalesced").closes_group);
    CHECK(!analyzer::parse_call_name("nccl:allreduce_coalesced").closes_group);
    CHECK(analyzer::parse_call_name("something else").kind == OpKind::kOtherCollective);
    CHECK(analyzer::datatype_of("BFloat16") == format::Datatype::kBfloat16);
    CHECK(analyzer::datatype_of("torch.float32") == format::Datatype::kFloat32);
    CHECK(analyzer::datatype_of("ComplexFloat") == format::Datatype::kNoDatatype);
}

TEST_CASE("whose file it is, by its name") {
    CHECK(analyzer::rank_in_name("nccl_trace_rank_3") == 3);
    CHECK(analyzer::rank_in_name("nccl_trace_rank_12.json") == 12);
    CHECK(analyzer::rank_in_name("trace.7") == 7);
    CHECK(analyzer::rank_in_name("rank0.pickle") == 0);
    CHECK(analyzer::rank_in_name("trace") == -1);
    CHECK(analyzer::rank_in_name("trace_99999999999999") == -1);
    CHECK(analyzer::rank_in_name("") == -1);
}

TEST_CASE("a host, by the name of its file") {
    CHECK(analyzer::host_in_name("nccl_trace_rank_container-node02_5") == "container-node02");
    CHECK(analyzer::rank_in_name("nccl_trace_rank_container-node02_5") == 5);
    CHECK(analyzer::host_in_name("nccl_trace_rank_gpu7.cluster_12.json") == "gpu7.cluster");
    CHECK(analyzer::host_in_name("nccl_trace_rank_5").empty());
    CHECK(analyzer::host_in_name("comm_lib_trace_rank_7").empty());
    CHECK(analyzer::host_in_name("nccl_trace_rank_2026_7").empty());
    CHECK(analyzer::host_in_name("rank_").empty());
    CHECK(analyzer::host_in_name("").empty());
}

TEST_CASE("states") {
    const Process process = process_of(
        dump_text(entry("nccl:all_reduce", 1, 0, "completed") + "," +
                  entry("nccl:all_reduce", 2, 0, "started", R"(, "time_discovered_started_ns": 5, "retired": true)") +
                  "," + entry("nccl:all_reduce", 3, 0, "scheduled")));
    REQUIRE(process.entries.size() == 3);
    CHECK(process.source.is_flight_recorder);
    CHECK(!process.sees.host_calls);
    CHECK(process.world_size == 2);
    CHECK(process.now_ns == kNow);
    CHECK(process.moment == analyzer::Moment::kFileTime);
    CHECK(process.entries[0].state == CallState::kFinished);
    CHECK(process.entries[1].state == CallState::kStarted);
    CHECK(process.entries[2].state == CallState::kPending);
    CHECK(process.entries[2].device == DeviceState::kNotReached);  // starts are seen, and this one did not
    CHECK(process.entries[2].sequence == 3);
    CHECK(process.entries[2].count == 16);
    CHECK(process.entries[2].reduction == format::Reduction::kNoReduction);
    CHECK(process.members[0].issued == 4);
    CHECK(process.members[0].finished == 2);
    const Process blind = process_of(dump_text(entry("nccl:all_reduce", 1, 0, "scheduled")));
    CHECK(blind.entries[0].device == DeviceState::kUnknown);
    CHECK(blind.source.reason != titan::format::DumpReason::kTimeout);
    const Process late =
        process_of(dump_text(R"({"profiling_name": "nccl:x", "collective_seq_id": 1, "state": "scheduled",
                                                 "retired": true, "timeout_ms": 1000})"));
    CHECK(late.source.reason == titan::format::DumpReason::kTimeout);
    CHECK(late.timeout_ns == 1'000'000'000);
}

TEST_CASE("members of a group agree on its identity, and only they") {
    const auto id = [](const std::string& groups) { return process_of(dump_text("", "2.10", groups)).members[0].id; };
    const uint64_t first = id(R"("1": {"desc": "tp", "ranks": "[0, 1]"})");
    CHECK(first == id(R"("1": {"desc": "tp", "ranks": [1, 0]})"));
    CHECK(first != id(R"("1": {"desc": "tp", "ranks": "[0, 2]"})"));
    CHECK(first != id(R"("2": {"desc": "tp", "ranks": "[0, 1]"})"));
}

TEST_CASE("calls of a batch have the state of its end") {
    const Process process = process_of(
        dump_text(entry("nccl:send 0->1", 0, 1, "scheduled") + "," + entry("nccl:recv 0<-1", 0, 1, "scheduled") + "," +
                  entry("nccl:coalesced", 0, 1, "completed", R"(, "is_p2p": true)") + "," +
                  entry("nccl:send 0->1", 0, 2, "scheduled") + "," + entry("nccl:recv 0<-1", 0, 2, "scheduled")));
    REQUIRE(process.entries.size() == 4);
    CHECK(process.entries[0].state == CallState::kFinished);
    CHECK(process.entries[1].state == CallState::kFinished);
    CHECK(process.entries[0].group == process.entries[1].group);
    CHECK(process.entries[2].state == CallState::kGrouped);  // no end: the group is open
    CHECK(process.entries[2].sequence == 1);                 // the second send from 0 to 1
    CHECK(process.members[0].sent_to(1) == 2);
    CHECK(process.members[0].received_from(1) == 2);
}

TEST_CASE("collectives that run as one have one number and are one call") {
    const Process process = process_of(
        dump_text(entry("nccl:broadcast", 1, 0, "scheduled") + "," + entry("nccl:broadcast", 1, 0, "scheduled") + "," +
                  entry("nccl:coalesced", 1, 0, "completed") + "," + entry("nccl:all_reduce", 2, 0, "scheduled")));
    REQUIRE(process.entries.size() == 2);
    CHECK(process.entries[0].kind == OpKind::kBroadcast);
    CHECK(process.entries[0].count == 32);
    CHECK(process.entries[0].state == CallState::kFinished);
    CHECK(process.entries[0].agreed != 0);
    CHECK(process.entries[1].sequence == 2);
}

TEST_CASE("up to 2.4, batches that counted as collectives are taken off") {
    const std::string entries =
        entry("nccl:all_reduce", 1, 0, "completed") + "," + entry("nccl:send 0->1", 2, 0, "scheduled") + "," +
        entry("nccl:recv 0<-1", 2, 0, "scheduled") + "," + entry("nccl:coalesced", 2, 0, "completed") + "," +
        entry("nccl:all_reduce", 3, 0, "scheduled");
    const Process old = process_of(dump_text(entries, "2.4"));
    REQUIRE(old.entries.size() == 4);
    CHECK(old.entries[1].state == CallState::kFinished);
    CHECK(old.entries[2].state == CallState::kFinished);
    CHECK(old.entries[3].sequence == 2);
    CHECK(process_of(dump_text(entries, "2.9")).entries.back().sequence == 3);
}

TEST_CASE("groups whose ranks nobody tells") {
    // Gloo: the default group holds every rank, another one those that used it.
    const std::string text = dump_text(entry("gloo:all_reduce", 1, 0, "scheduled", R"(, "retired": true)"), "2.10",
                                       R"("": {"desc": "", "ranks": "[]"})");
    analyzer::Run run;
    analyzer::GroupRanks groups;
    for (const int rank : {0, 2}) {
        run.processes.push_back(analyzer::process_of_dump(dump_of(text), rank, kNow, groups));
    }
    CHECK(run.processes[0].entries[0].state == CallState::kFinished);
    analyzer::complete_flight_recorder(run, groups);
    analyzer::link(run);
    REQUIRE(run.communicators.size() == 1);
    CHECK(run.communicators[0].size == 3);
    CHECK(run.communicators[0].name == "default_pg");
    CHECK(run.missing_ranks == std::vector<int>{1});
    CHECK(run.member(run.communicators[0].by_rank[2]).global_rank == 2);
}

constexpr int64_t kNsPerSecond = 1'000'000'000;

std::string seconds(const char* key, double value) {
    return std::string(", \"") + key + "\": " + std::to_string(static_cast<int64_t>(value * kNsPerSecond));
}

// The newest entries of a rank whose ring holds so many: a coalesced reduce_scatter, an all_reduce, ...
std::string wrapped(size_t kept) {
    std::vector<std::string> all;
    for (int call = 1; call < 9; call += 2) {
        for (int part = 0; part < 3; ++part) {
            all.push_back(entry("nccl:_reduce_scatter_base", call, 0, "scheduled"));
        }
        all.push_back(entry("nccl:coalesced", call, 0, "completed", R"(, "retired": true)"));
        all.push_back(entry("nccl:all_reduce", call + 1, 0, "completed", R"(, "retired": true)"));
    }
    std::string text;
    for (size_t i = all.size() - kept; i < all.size(); ++i) {
        all[i].insert(all[i].size() - 1, ", \"record_id\": " + std::to_string(i));
        text += (text.empty() ? "" : ",") + all[i];
    }
    return dump_text(text, "2.10", R"("0": {"desc": "default_pg", "ranks": "[0, 1, 2, 3, 4]"})");
}

TEST_CASE("a coalesced call of which the ring holds a part is compared with nothing") {
    analyzer::Run run;
    analyzer::GroupRanks groups;
    const size_t kept[] = {20, 9, 8, 7, 10};  // all; two parts and the end; one and the end; the end; three and the end
    for (int rank = 0; rank < 5; ++rank) {
        run.processes.push_back(analyzer::process_of_dump(dump_of(wrapped(kept[rank])), rank, kNow, groups));
    }
    for (const int rank : {1, 2, 3, 4}) {
        const Process& process = run.processes[static_cast<size_t>(rank)];
        REQUIRE(process.entries.size() == 4);
        CHECK(process.entries[0].arguments_lost);
        CHECK(process.entries[0].sequence == 5);
        CHECK(process.entries[0].state == CallState::kFinished);
        CHECK(process.members[0].call_log.first() == 6);
        CHECK(!process.entries[2].arguments_lost);
    }
    CHECK(!run.processes[0].entries[0].arguments_lost);
    analyzer::complete_flight_recorder(run, groups);
    analyzer::link(run);
    CHECK(analyzer::find_mismatches(run).empty());
}

TEST_CASE("a single call at the edge of the ring is whole if PyTorch watches it") {
    const auto first_of = [](const std::string& state, const std::string& rest) {
        return process_of(dump_text(entry("nccl:all_reduce", 7, 0, state, R"(, "record_id": 100)" + rest) + "," +
                                    entry("nccl:all_reduce", 8, 0, "scheduled", R"(, "record_id": 101)")))
            .entries[0];
    };
    CHECK(!first_of("completed", "").arguments_lost);
    CHECK(!first_of("scheduled", R"(, "retired": true)").arguments_lost);
    CHECK(first_of("scheduled", "").arguments_lost);
}

TEST_CASE("entries are taken in the order in which they were recorded") {
    const Process process =
        process_of(dump_text(entry("nccl:all_reduce", 2, 0, "scheduled", R"(, "record_id": 1)") + "," +
                             entry("nccl:broadcast", 1, 0, "completed", R"(, "record_id": 0)")));
    CHECK(process.entries[0].kind == OpKind::kBroadcast);
    CHECK(process.overwritten == 0);
}

TEST_CASE("when a dump was made is told by what it found only then") {
    using analyzer::Moment;
    const std::string done =
        entry("nccl:all_reduce", 1, 0, "completed",
              seconds("time_created_ns", 100) + seconds("time_discovered_completed_ns", 101) + R"(, "retired": true)");
    const std::string waits = entry("nccl:all_reduce", 2, 0, "started",
                                    seconds("time_created_ns", 102) + seconds("time_discovered_started_ns", 160));
    const auto made = [&](const std::string& entries, int64_t written_s) {
        analyzer::GroupRanks groups;
        return analyzer::process_of_dump(dump_of(dump_text(entries)), 0, written_s * kNsPerSecond, groups);
    };
    const Process started = made(done + "," + waits, 9000);
    CHECK(started.moment == Moment::kRecorded);
    CHECK(started.now_ns == 160 * kNsPerSecond);
    const Process ended =
        made(done + "," +
                 entry("nccl:all_reduce", 2, 0, "completed",
                       seconds("time_created_ns", 102) + seconds("time_discovered_completed_ns", 103)),
             9000);
    CHECK(ended.now_ns == 103 * kNsPerSecond);
    // A start that other calls follow was not found by the dump.
    const Process foreign =
        made(waits + "," + entry("nccl:all_reduce", 3, 0, "scheduled", seconds("time_created_ns", 170)), 200);
    CHECK(foreign.moment == Moment::kFileTime);
    CHECK(foreign.now_ns == 200 * kNsPerSecond);
}

TEST_CASE("no wait is longer than PyTorch's timeout lets it be") {
    const std::string waits =
        entry("nccl:all_reduce", 1, 0, "scheduled", seconds("time_created_ns", 100) + R"(, "timeout_ms": 600000)");
    const auto made = [&](int64_t written_s, const std::string& entries) {
        analyzer::GroupRanks groups;
        return analyzer::process_of_dump(dump_of(dump_text(entries)), 0, written_s * kNsPerSecond, groups);
    };
    CHECK(made(100 + 1200, waits).moment == analyzer::Moment::kFileTime);
    const Process copied = made(100 + 7200, waits);
    CHECK(copied.moment == analyzer::Moment::kGuessed);
    CHECK(copied.now_ns == 700 * kNsPerSecond);
    // Another rank knows better.
    analyzer::Run run;
    run.processes.push_back(copied);
    run.processes.push_back(
        made(100 + 7200, entry("nccl:all_reduce", 1, 0, "started",
                               seconds("time_created_ns", 100) + seconds("time_discovered_started_ns", 105))));
    analyzer::compare_moments(run);
    CHECK(run.processes[0].now_ns == 105 * kNsPerSecond);
    CHECK(run.processes[0].moment == analyzer::Moment::kGuessed);
    CHECK(run.processes[1].moment == analyzer::Moment::kRecorded);
}

TEST_CASE("a file of an earlier run is left out") {
    const auto made = [](int rank, int64_t begin_s, int64_t written_s) {
        analyzer::GroupRanks groups;
        const std::string text =
            dump_text(entry("nccl:all_reduce", 1, 0, "completed", seconds("time_created_ns", begin_s)) + "," +
                      entry("nccl:all_reduce", 2, 0, "scheduled", seconds("time_created_ns", begin_s + 5)));
        Process process = analyzer::process_of_dump(dump_of(text), rank, written_s * kNsPerSecond, groups);
        process.source.label = "nccl_trace_rank_" + std::to_string(rank);
        return process;
    };
    const auto ranks_left = [](std::vector<Process> processes, std::vector<analyzer::Warning>& warnings) {
        analyzer::leave_out_stale(processes, warnings);
        std::vector<int> ranks;
        for (const Process& process : processes) {
            ranks.push_back(process.rank);
        }
        return ranks;
    };
    std::vector<analyzer::Warning> warnings;
    CHECK(ranks_left({made(0, 90'000, 90'600), made(1, 1'000, 1'600), made(2, 90'003, 90'600)}, warnings) ==
          std::vector<int>{0, 2});
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].ranks == std::vector<int>{1});
    CHECK(warnings[0].summary.find("nccl_trace_rank_1 is left out") == 0);
    warnings.clear();
    // The same rank beside others whose rings hold only what came later, its file written with theirs.
    CHECK(ranks_left({made(0, 90'000, 90'600), made(1, 1'000, 90'600)}, warnings).size() == 2);
    // One that raised at once, on a host whose clock is 3 s behind.
    CHECK(ranks_left({made(0, 90'000, 90'600), made(1, 89'980, 89'986)}, warnings).size() == 2);
    CHECK(warnings.empty());
}

TEST_CASE("PyTorch looks at a call once more when it lets go of it") {
    const Process process =
        process_of(dump_text(entry("nccl:all_reduce", 1, 0, "started", seconds("time_discovered_started_ns", 5)) + "," +
                             entry("nccl:all_reduce", 2, 0, "scheduled", R"(, "retired": true)") + "," +
                             entry("nccl:all_reduce", 3, 0, "scheduled") + "," +
                             entry("gloo:all_reduce", 1, 0, "scheduled", R"(, "process_group": ["1", "cpu"])")));
    REQUIRE(process.entries.size() == 4);
    CHECK(process.entries[1].device == DeviceState::kNotReached);
    CHECK(process.entries[2].device == DeviceState::kNotReached);
    CHECK(process.entries[3].device == DeviceState::kUnknown);
}

TEST_CASE("what a group says of itself") {
    std::string text = dump_text(entry("nccl:all_reduce", 5, 0, "scheduled", R"(, "pg_id": 3)"));
    text.insert(1, R"("pg_status": {"3": {"last_enqueued_collective": 5, "last_started_collective": -1,
                                          "last_completed_collective": "4"}, "7": {}}, )");
    const Process process = process_of(text);
    CHECK(process.members[0].last_enqueued == 5);
    CHECK(process.members[0].last_started == -1);
    CHECK(process.members[0].last_completed == 4);
}

TEST_CASE("pairs whose beginning is lost are sure of their numbers only where their sizes are") {
    const auto side = [](bool sends, const std::vector<int>& sizes) {
        std::string entries;
        for (size_t i = 0; i < sizes.size(); ++i) {
            entries += (i == 0 ? "" : ",") + entry(sends ? "nccl:send 0->1" : "nccl:recv 1<-0", 0, int(i), "completed",
                                                   R"(, "is_p2p": true, "record_id": )" + std::to_string(100 + i) +
                                                       R"(, "input_sizes": [[)" + std::to_string(sizes[i]) + "]]");
        }
        return dump_text(entries);
    };
    const auto guessed = [&](const std::vector<int>& sent, const std::vector<int>& received) {
        analyzer::Run run;
        analyzer::GroupRanks groups;
        run.processes.push_back(analyzer::process_of_dump(dump_of(side(true, sent)), 0, kNow, groups));
        run.processes.push_back(analyzer::process_of_dump(dump_of(side(false, received)), 1, kNow, groups));
        analyzer::complete_flight_recorder(run, groups);
        CHECK(run.processes[0].entries.back().sequence == run.processes[1].entries.back().sequence);
        return run.processes[1].entries.back().number_guessed;
    };
    CHECK(guessed({8, 8, 8, 8, 8, 8}, {8, 8, 8, 8, 8}));
    CHECK(!guessed({1, 2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}));
}

TEST_CASE("torchcomms numbers all communicators together") {
    // name, communicator, retired
    using Call = std::tuple<std::string, std::string, bool>;
    const auto dump = [](int first, const std::vector<Call>& calls) {
        std::string entries;
        for (size_t i = 0; i < calls.size(); ++i) {
            const auto& [name, group, retired] = calls[i];
            const int number = first + static_cast<int>(i);
            entries +=
                (i == 0 ? "" : ",") + entry("ncclx:" + name, number, 0, "scheduled",
                                            R"(, "process_group": [")" + group + R"(", "ncclx"], "record_id": )" +
                                                std::to_string(number) + (retired ? R"(, "retired": true)" : ""));
        }
        return dump_of(dump_text(entries, "2.10", R"("main": {"desc": "ncclx", "ranks": "[0, 1]"},
                                                    "tp": {"desc": "ncclx", "ranks": "[0, 1]"})"));
    };
    auto whole = dump(0, {{"all_reduce", "main", true},
                          {"send", "main", true},
                          {"all_gather_single", "tp", true},
                          {"all_reduce", "main", true},
                          {"barrier", "tp", false}});
    REQUIRE(!analyzer::number_by_group(whole));
    analyzer::GroupRanks groups;
    const Process process = analyzer::process_of_dump(whole, 0, kNow, groups);
    REQUIRE(process.entries.size() == 5);
    CHECK(process.entries[0].sequence == 1);
    CHECK(process.entries[1].sequence == analyzer::kNoSequence);
    CHECK(process.entries[2].sequence == 1);
    CHECK(process.entries[3].sequence == 2);
    CHECK(process.entries[3].state == CallState::kFinished);
    CHECK(process.entries[4].sequence == 2);
    CHECK(process.entries[4].state == CallState::kPending);
    auto wrapped_one = dump(7, {{"all_reduce", "main", true}, {"barrier", "tp", false}});
    CHECK(analyzer::number_by_group(wrapped_one));
    wrapped_one.groups.resize(1);
    CHECK(!analyzer::number_by_group(wrapped_one));
    CHECK(wrapped_one.entries[0].collective_seq_id == 8);
    // PyTorch's own numbers stay.
    auto torch = dump_of(dump_text(entry("nccl:all_reduce", 5, 0, "scheduled")));
    CHECK(!analyzer::number_by_group(torch));
    CHECK(torch.entries[0].collective_seq_id == 5);
}

}  // namespace
