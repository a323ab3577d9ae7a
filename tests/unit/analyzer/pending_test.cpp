// Dumps that were asked for before anything is overdue: who waits for whom is told, and nobody is accused.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "index_calls.h"
#include "link_run.h"
#include "played.h"

using namespace titan::test;

namespace {

std::string text_of(const Played& played) { return titan::analyzer::text_report(played.run, played.diagnosis, {}); }

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("four seconds in the creation of a communicator, without one rank: neither a finding nor nothing wrong") {
    ScenarioOptions options;
    options.hang_s = 4;
    Scenario job(4, options);
    job.communicator("late", {0, 1, 2, 3}, true);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        rank == 1 ? program.sleep() : program.init("late");
    });
    const Played played = play(job, {}, "signal");
    CHECK(played.healthy());
    REQUIRE(played.diagnosis.waiting.size() == 1);
    const auto& waiting = played.diagnosis.waiting.front();
    CHECK(waiting.ranks == ranks({0, 2, 3}));
    CHECK(waiting.missing == ranks({1}));
    CHECK(waiting.hang_after_ns == 10'000'000'000);
    CHECK(waiting.waited_ns / 100'000'000 == 40);
    const std::string text = text_of(played);
    CHECK(holds(text, "WAITING  nothing is overdue yet"));
    CHECK(holds(text, "ranks 0,2-3 wait in the creation of late (4 ranks) for rank 1: since "));
    CHECK_FALSE(holds(text, "NOTHING WRONG"));
    const auto json = nlohmann::json::parse(titan::analyzer::json_report(played.run, played.diagnosis));
    CHECK(json["verdict"].is_null());
    REQUIRE(json["waiting"].size() == 1);
    CHECK(json["waiting"][0]["missing"] == std::vector<int>{1});
    CHECK(json["waiting"][0]["op"] == "comm_init");
}

TEST_CASE("a rank that was started again alone is what the others wait for on their old communicator") {
    Scenario job(4);
    for (int rank = 0; rank < 4; ++rank) {
        for (int call = 0; call < (rank == 2 ? 3 : 4); ++call) {
            job.program(rank).all_reduce("world").sync();
        }
    }
    job.play();
    Run run = run_of(job);
    titan::analyzer::link(run);
    titan::analyzer::Process& again = run.processes[2];
    titan::analyzer::Member& member = again.members[0];
    member.created_ns = again.now_ns - 2'000'000'000;
    member.state = titan::format::CommState::kCreating;
    member.issued = member.finished = 0;
    member.calls.clear();
    member.call_log = {};
    again.entries.clear();
    const titan::analyzer::Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{2});
    CHECK(holds(diagnosis.findings.front().summary.text(), "was started again alone"));
}

TEST_CASE("calls that take long again and again, or once half-way to the newest one, are usual") {
    const auto returning_ns = [](const std::set<int>& long_ones) {
        titan::analyzer::Process process;
        process.gpu_progress = true;
        process.members.resize(1);
        for (int call = 0; call <= 100; ++call) {
            titan::analyzer::Entry& entry = process.entries.emplace_back();
            entry.row = 0;
            entry.kind = titan::format::OpKind::kAllReduce;
            entry.sequence = static_cast<uint64_t>(call);
            entry.entered_ns = 1 + call * int64_t{10'000'000'000};
            entry.finished_ns = entry.entered_ns + (long_ones.contains(call) ? 3'000'000'000 : 1'000'000);
            entry.state = titan::format::CallState::kFinished;
        }
        titan::analyzer::index_calls(process);
        return process.members[0].returning_ns;
    };
    CHECK(returning_ns({}) == 0);
    CHECK(returning_ns({0}) == 0);  // the first call sets connections up
    CHECK(returning_ns({80}) == 0);
    CHECK(returning_ns({50}) == 3'000'000'000);
    CHECK(returning_ns({31, 62, 93}) == 3'000'000'000);
}
