// Dumps that were asked for before anything is overdue: who waits for whom is told, and nobody is accused.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "played.h"

using namespace titan::test;

namespace {

std::string text_of(const Played& played) { return titan::analyzer::text_report(played.run, played.diagnosis, {}); }

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

ScenarioOptions asked_after(double seconds) {
    ScenarioOptions options;
    options.hang_s = seconds;
    return options;
}

Scenario creation_job(double seconds) {
    Scenario job(4, asked_after(seconds));
    job.communicator("late", {0, 1, 2, 3}, true);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        rank == 1 ? program.sleep() : program.init("late");
    });
    return job;
}

}  // namespace

TEST_CASE("four seconds in the creation of a communicator, without one rank: neither a finding nor nothing wrong") {
    Scenario job = creation_job(4);
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

TEST_CASE("half a second later than usual, or once it is a finding, nothing is told as pending") {
    Scenario brief = creation_job(0.5);
    CHECK(play(brief, {}, "signal").diagnosis.waiting.empty());
    Scenario late = creation_job(20);
    const Played played = play(late, {}, "signal");
    CHECK_FALSE(played.healthy());
    CHECK(played.diagnosis.waiting.empty());
    CHECK_FALSE(holds(text_of(played), "WAITING"));
}

TEST_CASE("a wait below the limit that the user gave is told, with that limit") {
    Scenario job(4, asked_after(8));
    titan::synth::write_training(job, 4);
    job.program(2).insert_before("world", 2, Program().sleep());
    const Played played = play(job, {}, "signal", {.hang_after_s = 60});
    CHECK(played.healthy());
    REQUIRE(!played.diagnosis.waiting.empty());
    CHECK(played.diagnosis.waiting.front().missing == ranks({2}));
    CHECK(played.diagnosis.waiting.front().hang_after_ns == 60'000'000'000);
}

TEST_CASE("calls that take seconds in every step are no news, and of many waits few are shown") {
    ScenarioOptions slow = asked_after(2);
    slow.round_s = 1.5;
    Scenario usual(4, slow);
    titan::synth::write_training(usual, 4);
    usual.program(2).insert_before("world", 2, Program().sleep());
    CHECK(play(usual, {}, "signal").diagnosis.waiting.empty());

    Scenario many(32, asked_after(8));
    for (int pair = 0; pair < 16; ++pair) {
        many.communicator("tp:" + std::to_string(pair), {2 * pair, 2 * pair + 1});
    }
    many.every_rank([](int rank, Program& program) {
        const std::string tp = "tp:" + std::to_string(rank / 2);
        program.all_reduce(tp).sync();
        rank % 2 == 0 ? program.all_reduce(tp).sync() : program.sleep();
    });
    const Played played = play(many, {}, "signal", {.hang_after_s = 60});
    CHECK(played.healthy());
    CHECK(played.diagnosis.waiting.size() == 16);
    CHECK(holds(text_of(played), "and 12 more such waits"));
}
