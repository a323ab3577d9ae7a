#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "document.h"
#include "played.h"

using namespace titan::analyzer;
using namespace titan::test;
using nlohmann::json;

namespace {

Document every_kind() {
    Document document{.about = "a run"};
    Section verdict{.id = "verdict", .title = "VERDICT", .tone = Tone::kAlarm};
    verdict.blocks = {Paragraph{phrase("{} waits for {}", rank_fact(3), duration_fact(4'100'000'000))},
                      Items{{"one", "two", "three"}, 2}};
    verdict.sections.push_back(
        {.id = "cycle", .title = "The cycle", .blocks = {Chain{{"a", "b", "c", "d", "e"}, "back to a", 4}}});
    verdict.sections.push_back(
        {.id = "states",
         .title = "What the ranks do",
         .blocks = {RankGroups{{{rank_fact(3), "asleep", true}, {ranks_fact({0, 1}), "waiting"}}, 1}}});
    document.sections = {verdict,
                         {.id = "finding", .title = "ALSO a", .folded_as = "finding"},
                         {.id = "finding", .title = "ALSO b", .folded_as = "finding"},
                         {.id = "ranks",
                          .title = "Ranks",
                          .lead = "of one host",
                          .blocks = {Table{{{"rank", 4, true}, {"host", 0}}, {{"0", "a"}, {"1", "b"}}, 1, "others"},
                                     Table{{{"", 3}, {"", 0}}, {{"dp", "4"}}}, Frames{{"step at train.py:7"}}}}};
    return document;
}

}  // namespace

TEST_CASE("a screen shows the beginning of each list and says how much more there is") {
    CHECK(document_text(every_kind(), {.colour = false, .width = 60}) ==
          "a run\n"
          "\nVERDICT\n"
          "  rank 3 waits for 4.1 s\n"
          "  - one\n  - two\n  - and 1 more (--json)\n"
          "\n  The cycle\n"
          "   a\n     -> b\n     -> ... 1 more ...\n     -> d\n     -> e\n     -> back to a\n"
          "\n  What the ranks do\n"
          "  => rank 3: asleep\n     and 1 more groups of ranks (--json)\n"
          "\nand 2 more findings (--json)\n"
          "\nRanks  of one host\n"
          "  rank  host\n     0  a\n  and 1 others\n"
          "  dp   4\n"
          "     step at train.py:7\n");
}

TEST_CASE("a document as JSON has all of it, and facts as values") {
    Scenario job(2);
    job.communicator("tp", {0, 1});
    job.play();
    const Run run = run_of(job);
    const json whole = json::parse(document_json(run, every_kind()).dump());
    CHECK(whole["about"] == json::array({"a run"}));
    REQUIRE(whole["sections"].size() == 4);
    const json& verdict = whole["sections"][0];
    CHECK(verdict["tone"] == "alarm");
    CHECK(verdict["blocks"][0]["text"] == json::array({{{"text", "rank 3"}, {"ranks", {3}}},
                                                       " waits for ",
                                                       {{"text", "4.1 s"}, {"duration_ns", 4'100'000'000}}}));
    CHECK(verdict["blocks"][1]["items"].size() == 3);
    CHECK(verdict["sections"][0]["blocks"][0]["steps"].size() == 5);
    CHECK(verdict["sections"][1]["blocks"][0]["groups"][1]["ranks"][0]["ranks"] == json::array({0, 1}));
    CHECK(whole["sections"][3]["lead"] == json::array({"of one host"}));
    CHECK(whole["sections"][3]["blocks"][0]["columns"] == json::array({"rank", "host"}));
    CHECK(whole["sections"][3]["blocks"][0]["rows"].size() == 2);
    CHECK(whole["sections"][3]["blocks"][2]["frames"] == json::array({"step at train.py:7"}));

    const json call = json::parse(sentence_json(run, call_fact(run, 0, OpKind::kAllReduce, 5)).dump());
    REQUIRE(call.size() == 3);
    CHECK(call[0]["op"] == "all_reduce");
    CHECK(call[0]["seq"] == 5);
    CHECK(call[2]["communicator"]["name"] == run.communicators[0].name);
}
