// From a tree to the values of a dump: all versions, and what is wrong with a type is said with its place.
#include <doctest/doctest.h>

#include <string>

#include "formats/fr/fr_dump.h"
#include "formats/fr/read.h"

using titan::Result;
using namespace titan::format;

namespace {

Result<fr::Dump> dump_of(const std::string& json) {
    fr::Tree tree;
    const auto error = fr::read_json(std::as_bytes(std::span(json)), tree);
    REQUIRE_MESSAGE(!error, (error ? error->text() : ""));
    return fr::to_dump(tree, json.size());
}

std::string problem(const std::string& json) {
    const auto dump = dump_of(json);
    return dump ? "" : dump.error().text();
}

std::string with_entry(const std::string& entry) { return R"({"version": "2.4", "entries": [)" + entry + "]}"; }

TEST_CASE("an entry, key by key") {
    const auto dump = dump_of(with_entry(
        R"({"record_id": 7, "pg_id": 1, "process_group": ["3", "tp"], "collective_seq_id": 5, "p2p_seq_id": 2,
            "op_id": 9, "profiling_name": "nccl:all_gather", "time_created_ns": 100, "duration_ms": 1.5,
            "input_sizes": [[2, 3], []], "input_dtypes": ["Float", "Long"], "output_sizes": [[8]],
            "output_dtypes": ["Half"], "state": "started", "time_discovered_started_ns": 110,
            "time_discovered_completed_ns": null, "retired": true, "timeout_ms": 600000, "is_p2p": false,
            "thread_name": "main", "unknown_key": {"of": ["any", "kind"]},
            "frames": [{"name": "f", "filename": "a.py", "line": 3}, {"name": "g", "filename": "b.py", "line": 4}]})"));
    REQUIRE(dump);
    REQUIRE(dump->entries.size() == 1);
    const fr::Entry& entry = dump->entries[0];
    CHECK(entry.record_id == 7);
    CHECK(entry.pg_id == 1);
    CHECK(dump->text(entry.group) == "3");
    CHECK(dump->text(entry.group_desc) == "tp");
    CHECK(entry.collective_seq_id == 5);
    CHECK(entry.p2p_seq_id == 2);
    CHECK(entry.op_id == 9);
    CHECK(dump->text(entry.name) == "nccl:all_gather");
    CHECK(entry.time_created_ns == 100);
    CHECK(entry.time_started_ns == 110);
    CHECK(entry.time_completed_ns == 0);
    CHECK(entry.duration_ms == 1.5);
    CHECK(entry.state == fr::State::kStarted);
    CHECK(entry.retired);
    CHECK(!entry.is_p2p);
    CHECK(entry.timeout_ms == 600'000);
    CHECK(dump->text(entry.thread) == "main");
    REQUIRE(entry.inputs.count == 2);
    CHECK(dump->tensors[entry.inputs.begin].elements == 6);
    CHECK(dump->tensors[entry.inputs.begin + 1].elements == 1);  // a scalar
    CHECK(dump->text(dump->tensors[entry.inputs.begin + 1].dtype) == "Long");
    CHECK(dump->text(dump->tensors[entry.outputs.begin].dtype) == "Half");
    REQUIRE(entry.stack.count == 2);
    const fr::Frame& frame = dump->frames[dump->stacks[entry.stack.begin + 1]];
    CHECK(dump->text(frame.name) == "g");
    CHECK(dump->text(frame.file) == "b.py");
    CHECK(frame.line == 4);
}

TEST_CASE("what a version lacks is unknown") {
    const auto dump = dump_of(with_entry(R"({"profiling_name": "nccl:send 0->1"})"));
    REQUIRE(dump);
    const fr::Entry& entry = dump->entries[0];
    CHECK(entry.record_id == fr::kUnknownNumber);
    CHECK(entry.collective_seq_id == fr::kUnknownNumber);
    CHECK(entry.state == fr::State::kUnknown);
    CHECK(entry.inputs.count == 0);
    CHECK(entry.stack.count == 0);
    CHECK(entry.is_p2p);  // by its name
    CHECK(dump->rank == -1);
    CHECK(dump->minor == 4);
    for (const char* version : {"2.0", "2.2", "2.4", "2.9", "2.10", "2.11"}) {
        CHECK(problem(std::string(R"({"version": ")") + version + R"(", "entries": []})").empty());
    }
}

TEST_CASE("groups, status, and newer keys") {
    const auto dump = dump_of(
        R"({"version": "2.10", "rank": 3, "host_name": "gpu-17", "comm_lib_version": "2.28.9",
            "nccl_comm_state": {"0x1": {"a": "b"}},
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
                          "1": {"name": "1", "desc": "tp", "ranks": [2, 3]},
                          "": {"name": "", "desc": "", "ranks": "[]"}},
            "pg_status": {"0": {"last_enqueued_collective": "5", "last_started_collective": -1,
                                "last_completed_collective": 4}}})");
    REQUIRE(dump);
    CHECK(dump->rank == 3);
    CHECK(dump->host_name == "gpu-17");
    CHECK(dump->library_version == "2.28.9");
    REQUIRE(dump->groups.size() == 3);
    CHECK(dump->groups[0].ranks == std::vector<int32_t>{0, 1, 2, 3});
    CHECK(dump->groups[1].ranks == std::vector<int32_t>{2, 3});
    CHECK(dump->text(dump->groups[1].desc) == "tp");
    CHECK(dump->groups[2].ranks.empty());
    REQUIRE(dump->status.size() == 1);
    CHECK(dump->status[0].last_enqueued == 5);
    CHECK(dump->status[0].last_completed == 4);
}

TEST_CASE("splits of an all_to_all") {
    const auto splits = [](const std::string& keys) {
        const auto dump = dump_of(with_entry(R"({"profiling_name": "nccl:all_to_all", )" + keys + "}"));
        REQUIRE_MESSAGE(dump, (dump ? "" : dump.error().text()));
        const auto of = [&](const fr::Range& range) {
            const auto begin = dump->splits.begin() + range.begin;
            return std::vector<uint64_t>(begin, begin + range.count);
        };
        return std::pair(of(dump->entries[0].input_splits), of(dump->entries[0].output_splits));
    };
    using Lists = std::pair<std::vector<uint64_t>, std::vector<uint64_t>>;
    CHECK(splits(R"("input_split_sizes": [3, 0, 5], "output_split_sizes": [1])") == Lists{{3, 0, 5}, {1}});
    CHECK(splits(R"("out_splits": [1, 2], "in_splits": [3])") == Lists{{3}, {1, 2}});
    CHECK(splits(R"("input_split_sizes": [], "output_split_sizes": null)") == Lists());
    for (const char* odd : {"[-1]", "[1, \"2\"]", "[1.5]", "7", "\"[1]\"", "{\"0\": 1}", "[[1]]", "true"}) {
        CAPTURE(odd);
        CHECK(splits(std::string(R"("input_split_sizes": )") + odd) == Lists());
    }
}

TEST_CASE("a wrong type is named with its place") {
    CHECK(problem(R"({"version": "2.4"})").find("no Flight Recorder dump") == 0);
    CHECK(problem("[1]").find("no Flight Recorder dump") == 0);
    CHECK(problem(R"({"version": 2.4, "entries": []})") == "version: a fraction where a text belongs");
    CHECK(problem(R"({"version": "1.5", "entries": []})").find("version: version 1 is older") == 0);
    CHECK(problem(R"({"version": "3.0", "entries": []})").find("version: version 3 is newer") == 0);
    CHECK(problem(R"({"version": "two", "entries": []})") == "version: not a version such as 2.10");
    CHECK(problem(R"({"version": "2.4", "entries": {}})") == "entries: a dict where a list belongs");
    CHECK(problem(with_entry("7")) == "entries[0]: a number where a dict belongs");
    CHECK(problem(with_entry("{}")) == "entries[0]: it has no profiling_name");
    const auto entry = [](const std::string& rest) {
        return with_entry(R"({"profiling_name": "nccl:x", )" + rest + "}");
    };
    CHECK(problem(entry(R"("collective_seq_id": [1])")) ==
          "entries[0].collective_seq_id: a list where a number of 64 bits belongs");
    CHECK(problem(entry(R"("collective_seq_id": "x1")")) ==
          "entries[0].collective_seq_id: a text where a number of 64 bits belongs");
    CHECK(problem(entry(R"("input_sizes": [[9223372036854775808]])")) ==
          "entries[0].input_sizes: a number of more than 64 bits where a number of 64 bits belongs");
    CHECK(problem(entry(R"("input_sizes": [[-1]])")) == "entries[0].input_sizes: a negative size");
    CHECK(problem(entry(R"("input_sizes": [3])")) == "entries[0].input_sizes: a number where a list belongs");
    CHECK(problem(entry(R"("output_dtypes": [3])")) == "entries[0].output_dtypes: a number where a text belongs");
    CHECK(problem(entry(R"("process_group": [])")) ==
          "entries[0].process_group: a list where a pair of name and description belongs");
    CHECK(problem(entry(R"("state": 3)")) == "entries[0].state: a number where a text belongs");
    CHECK(problem(entry(R"("retired": "no")")) == "entries[0].retired: a text where a boolean belongs");
    CHECK(problem(entry(R"("frames": [3])")) == "entries[0].frames: a number where a dict belongs");
    CHECK(problem(entry(R"("time_created_ns": -5)")) == "entries[0].time_created_ns: a time before 1970");
    const auto group = [](const std::string& config) {
        return R"({"version": "2.4", "pg_config": {"5": )" + config + "}}";
    };
    CHECK(problem(group("3")) == "pg_config[5]: a number where a dict belongs");
    CHECK(problem(group(R"({"ranks": "[0, x]"})")) == "pg_config[5]: not a list of ranks such as [0, 1]");
    CHECK(problem(group(R"({"ranks": "[99999999999999999999]"})")) == "pg_config[5]: no ranks of any job");
    CHECK(problem(group(R"({"ranks": [-1]})")) == "pg_config[5]: no ranks of any job");
    CHECK(problem(R"({"version": "2.4", "entries": [], "rank": -4})") == "rank: no rank of any job");
    CHECK(problem(R"({"version": "2.4", "entries": [], "pg_status": {"0": {"last_enqueued_collective": []}}})") ==
          "pg_status[0].last_enqueued_collective: a list where a number of 64 bits belongs");
}

TEST_CASE("sizes beyond all numbers stay numbers") {
    const auto dump = dump_of(
        with_entry(R"({"profiling_name": "nccl:x", "input_sizes": [[9223372036854775807, 9223372036854775807]]})"));
    REQUIRE(dump);
    CHECK(dump->tensors[0].elements == INT64_MAX);
}

TEST_CASE("a small file cannot mean endless work") {
    // One entry with many sizes, referred to again and again.
    std::string pickle = "\x80\x02}(U\x07version";
    pickle +=
        "U\x03"
        "2.4U\x07"
        "entries](}(U\x0eprofiling_nameU\x01xU\x0binput_sizes](](";
    for (int i = 0; i < 300'000; ++i) {
        pickle += "K\x01";
    }
    pickle += "eeuq";
    pickle.push_back('\0');
    for (int i = 0; i < 100'000; ++i) {
        pickle += "h";
        pickle.push_back('\0');
    }
    pickle += "eu.";
    fr::Tree tree;
    const auto bytes = std::as_bytes(std::span(pickle));
    const auto error = fr::read_pickle(bytes, tree);
    REQUIRE_MESSAGE(!error, (error ? error->text() : ""));
    const auto dump = fr::to_dump(tree, pickle.size());
    REQUIRE(!dump);
    CHECK(dump.error().text().find("more values than its size can hold") != std::string::npos);
}

}  // namespace
