// What the analyzer makes of a Flight Recorder dump: names, numbers, groups, states. Whole verdicts are in tests/e2e.
#include "analyzer/flight_recorder.h"

#include <doctest/doctest.h>

#include "formats/fr/read.h"

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
           R"(, "time_created_ns": 1000, "input_sizes": [[4, 4]], "input_dtypes": ["Float"], "output_sizes": [[4, 4]], )" +
           R"("state": ")" + state + R"(", "retired": false)" + rest + "}";
}

std::string dump_text(const std::string& entries, const std::string& version = "2.10",
                      const std::string& groups = R"("0": {"desc": "default_pg", "ranks": "[0, 1]"})") {
    return R"({"version": ")" + version + R"(", "pg_config": {)" + groups + R"(}, "entries": [)" + entries + "]}";
}

Process process_of(const std::string& json, int rank = 0) {
    analyzer::GroupRanks groups;
    return analyzer::process_of_dump(dump_of(json), rank, kNow, groups);
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

TEST_CASE("states") {
    const Process process =
        process_of(dump_text(entry("nccl:all_reduce", 1, 0, "completed") + "," +
                             entry("nccl:all_reduce", 2, 0, "started", R"(, "time_discovered_started_ns": 5)") + "," +
                             entry("nccl:all_reduce", 3, 0, "scheduled")));
    REQUIRE(process.entries.size() == 3);
    CHECK(process.only_calls);
    CHECK(process.world_size == 2);
    CHECK(process.now_ns == kNow);
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
    CHECK(blind.source.reason != "timeout");
    const Process late =
        process_of(dump_text(R"({"profiling_name": "nccl:x", "collective_seq_id": 1, "state": "scheduled",
                                                 "retired": true, "timeout_ms": 1000})"));
    CHECK(late.source.reason == "timeout");
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

TEST_CASE("the place of a call is the first frame that is not PyTorch's") {
    const auto dump = dump_of(dump_text(entry("nccl:all_reduce", 1, 0, "completed", R"(, "frames": [
        {"name": "all_reduce", "filename": "/x/torch/distributed/distributed_c10d.py", "line": 1},
        {"name": "step", "filename": "/home/me/train.py", "line": 212},
        {"name": "main", "filename": "/home/me/train.py", "line": 300}])")));
    CHECK(analyzer::call_site(dump, dump.entries[0]) == "train.py:212 in step");
    CHECK(analyzer::shapes_text(dump, dump.entries[0]) == "[[4, 4]] -> [[4, 4]]");
}

}  // namespace
