// The play with edited calls, and the words by which users edit them.
#include "what_if.h"

#include <doctest/doctest.h>

#include "edit_words.h"
#include "evidence.h"
#include "played.h"
#include "says.h"
#include "steps.h"
#include "verdict_program.h"
#include "whatif_report.h"

using namespace titan::test;
using titan::analyzer::CallEdit;
using titan::analyzer::Evidence;
using titan::analyzer::WhatIfReport;
using titan::analyzer::WhyNot;
using Kind = titan::analyzer::CallEdit::Kind;

namespace {

struct Asked {
    explicit Asked(Scenario& job) : run(run_of(job)), evidence(run, {}) {}

    std::vector<CallEdit> edits_of(Kind kind, const std::string& text) const {
        const auto edits = titan::analyzer::read_call_edits(run, kind, {}, text);
        if (!edits) {
            FAIL(edits.error().text());
        }
        return *edits;
    }

    // "+ rank 1: all_reduce #5 on world", "- rank 1: ...", "alive 3".
    WhatIfReport ask(const std::vector<std::string>& texts) const {
        std::vector<CallEdit> edits;
        for (const std::string& text : texts) {
            if (text.starts_with("alive ")) {
                edits.push_back({Kind::kAlive, std::stoi(text.substr(6))});
                continue;
            }
            const auto more = edits_of(text[0] == '+' ? Kind::kInsert : Kind::kRemove, text.substr(2));
            edits.insert(edits.end(), more.begin(), more.end());
        }
        CHECK(titan::analyzer::impossible_edit(run, edits) == "");
        return titan::analyzer::what_if_report(evidence, edits);
    }

    std::vector<int> go_on(const std::vector<std::string>& texts) const { return ask(texts).go_on; }

    std::string refused(Kind kind, const std::vector<int>& ranks, const std::string& text) const {
        const auto edits = titan::analyzer::read_call_edits(run, kind, ranks, text);
        return edits ? titan::analyzer::impossible_edit(run, *edits) : edits.error().text();
    }

    Run run;
    Evidence evidence;
};

// What ranks do, as in verdict files: {"all", "all_reduce world; sync"}.
void write(Scenario& job, const Members& communicators, const std::vector<std::pair<std::string, std::string>>& lines) {
    for (const auto& [whose, text] : lines) {
        for (const int rank : ranks_in(whose, job.size())) {
            write_program(text, rank, job.size(), communicators, job.program(rank));
        }
    }
    job.play();
}

Scenario job_of(int ranks, const Members& communicators, const std::vector<std::pair<std::string, std::string>>& lines,
                ScenarioOptions options = {}) {
    Scenario job(ranks, options);
    for (const auto& [name, members] : communicators) {
        job.communicator(name, members);
    }
    write(job, communicators, lines);
    return job;
}

}  // namespace

TEST_CASE("a rank that goes on frees all who wait for it, and all behind those") {
    Scenario job = job_with_a_sleeper(8, 5);
    const Asked asked(job);
    const WhatIfReport recorded = asked.ask({});
    CHECK(recorded.waiting == ranks({0, 1, 2, 3, 4, 6, 7}));
    CHECK(recorded.go_on.empty());
    CHECK(asked.ask({"alive 5"}).all_end());
    // One who waits goes nowhere by itself.
    CHECK(asked.go_on({"alive 4"}).empty());
}

TEST_CASE("the call that a rank left out, put where it belongs, frees all; another call does not") {
    Scenario job(4);
    job.communicator("tp", {0, 1, 2, 3});
    const Members members = {{"tp", {0, 1, 2, 3}}};
    for (const int rank : ranks({0, 1, 2, 3})) {
        const std::string second = rank == 1 ? "" : "all_reduce world; ";
        write_program("step 0; all_reduce tp; sync; " + second + "all_gather tp; sync", rank, 4, members,
                      job.program(rank));
    }
    job.play();
    const Asked asked(job);
    CHECK(asked.ask({"+ rank 1: all_reduce #0 on world"}).all_end());
    const WhatIfReport other = asked.ask({"+ rank 1: broadcast #0 on world"});
    CHECK(!other.all_end());
    REQUIRE(!other.answer.waits.empty());
    CHECK(other.answer.waits.front().why == WhyNot::kDisagree);
}

TEST_CASE("a call too many is missed by nobody when it is removed") {
    const Members members = {{"tp", {0, 1, 2, 3}}};
    Scenario job = job_of(4, members,
                          {{"all", "all_reduce tp; all_reduce world; sync"},
                           {"2", "all_reduce tp; sync"},
                           {"all", "all_reduce world; sync"}});
    const Asked asked(job);
    const WhatIfReport report = asked.ask({"- rank 2: all_reduce #1 on tp"});
    CHECK(report.waiting == ranks({0, 1, 2, 3}));
    CHECK(report.all_end());
    // The others' side of it frees them as well: the play does not tell who is to blame.
    CHECK(asked.ask({"+ rank 0: all_reduce #1 on tp", "+ rank 1: all_reduce #1 on tp", "+ rank 3: all_reduce #1 on tp"})
              .all_end());
    CHECK(!asked.ask({"+ rank 0: all_reduce #1 on tp", "+ rank 1: all_reduce #1 on tp"}).all_end());
}

TEST_CASE("orders that cross: the call of one rank, made at another time, frees both sides") {
    const Members members = {{"x", {0, 1, 2, 3}}, {"y", {0, 1, 2, 3}}};
    Scenario job = job_of(4, members,
                          {{"all", "all_reduce x; all_reduce y; sync"},
                           {"2", "all_reduce y; all_reduce x; sync"},
                           {"0-1,3", "all_reduce x; all_reduce y; sync"}});
    const Asked asked(job);
    CHECK(asked.go_on({}).empty());
    CHECK(asked.ask({"- rank 2: all_reduce #1 on y", "+ rank 2: all_reduce #1 on y"}).all_end());
    // Without it the rank comes to x, goes on, and makes it then.
    CHECK(asked.ask({"- rank 2: all_reduce #1 on y"}).all_end());
    CHECK(asked.go_on({"+ rank 2: all_reduce #2 on y"}).empty());
}

TEST_CASE("sends that wait for each other end when one is received first") {
    Scenario job(2);
    write(job, {},
          {{"0", "send world 4096 to=1; sync; recv world 4096 from=1; sync"},
           {"1", "send world 4096 to=0; sync; recv world 4096 from=0; sync"}});
    const Asked asked(job);
    REQUIRE(asked.ask({}).waiting == ranks({0, 1}));
    CHECK(asked.go_on({}).empty());
    CHECK(asked.ask({"- rank 1: send #0 to rank 0 on world", "+ rank 1: send #0 to rank 0 on world"}).all_end());
}

TEST_CASE("a receive that is put in finds what NCCL's buffer took, and ends a send that it did not take") {
    for (const bool buffered : {false, true}) {
        CAPTURE(buffered);
        Scenario job(2);
        write(job, {}, {{"0", "send world to=1; recv world from=1; sync"}, {"1", "sleep"}});
        if (buffered) {
            job.ring(0).call(0).state = titan::format::CallState::kFinished;
            job.ring(0).call(0).gpu_finished_ticks = job.ring(0).call(0).entered_ticks + 1'000'000;
        }
        const Asked asked(job);
        const WhatIfReport received = asked.ask({"+ rank 1: recv #0 from rank 0 on world"});
        // Nobody waits in the call that was put in: only rank 0 does, for the send that rank 1 owes.
        REQUIRE(received.answer.waits.size() == 1);
        CHECK(received.answer.waits[0].ranks == ranks({0}));
        CHECK(received.answer.waits[0].missing == ranks({1}));
        CHECK(asked.ask({"+ rank 1: recv #0 from rank 0 on world", "+ rank 1: send #0 to rank 0 on world"}).all_end());
    }
}

TEST_CASE("a group ends when all its calls do") {
    const Members members = {{"ep", {0, 1, 2}}};
    Scenario job = job_of(3, members, {{"0-1", "exchange ep; sync"}, {"2", "sleep"}});
    const Asked asked(job);
    REQUIRE(asked.ask({}).waiting == ranks({0, 1}));
    CHECK(asked.go_on({"+ rank 2: recv #0 from rank 0 on ep", "+ rank 2: send #0 to rank 1 on ep"}).empty());
    CHECK(asked.ask({"alive 2"}).all_end());
    CHECK(asked
              .ask({"+ rank 2: recv #0 from rank 0 on ep", "+ rank 2: recv #0 from rank 1 on ep",
                    "+ rank 2: send #0 to rank 0 on ep", "+ rank 2: send #0 to rank 1 on ep"})
              .all_end());
}

TEST_CASE("a graph launch ends when all its calls do") {
    Scenario job(3);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world", 64).sync();
        program.capture(5).all_reduce("world", 64).all_gather("world", 32).end_capture();
        program.replay(5).sync();
        if (rank == 1) {
            program.sleep();
        }
        program.replay(5).sync();
    });
    job.play();
    const Asked asked(job);
    REQUIRE(asked.ask({}).waiting == ranks({0, 2}));
    CHECK(asked.go_on({"+ rank 1: all_reduce #3 on world"}).empty());
    CHECK(asked.ask({"+ rank 1: all_reduce #3 on world", "+ rank 1: all_gather #4 on world"}).all_end());
    CHECK(asked.ask({"alive 1"}).all_end());
}

TEST_CASE("calls that are handed over ahead of time begin to wait") {
    Scenario job(2);
    write(job, {}, {{"0", "all_reduce world; all_reduce world; all_reduce world; sync"}, {"1", "sleep"}});
    const Asked asked(job);
    const WhatIfReport report = asked.ask({"+ rank 1: all_reduce #0 on world"});
    CHECK(report.all_end());
    REQUIRE(report.answer.waits.size() == 1);
    CHECK(!report.answer.waits[0].node);
    CHECK(report.answer.waits[0].sequence == 1);
    CHECK(report.answer.waits[0].missing == ranks({1}));
    CHECK(asked.ask({"alive 1"}).answer.waits.empty());
}

TEST_CASE("what hangs although all are there ends only with those who are in it") {
    Scenario job(4);
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync().all_reduce("world").sync(); });
    job.program(0).nth_call("world", 1).never_finishes = true;
    job.play();
    const Asked asked(job);
    REQUIRE(!asked.ask({}).waiting.empty());
    CHECK(asked.go_on({}).empty());
    CHECK(asked.ask({}).answer.waits.front().why == WhyNot::kElse);
    CHECK(asked.ask({"alive 2"}).all_end());
}

TEST_CASE("a verdict whose waits would not end is less sure, one whose waits end is as sure as before") {
    Scenario job = job_with_a_sleeper(4, 2);
    const Asked asked(job);
    REQUIRE(!asked.evidence.graph.nodes.empty());
    for (const int blamed : {1, 2}) {
        for (const Confidence before : {Confidence::kCertain, Confidence::kPossible}) {
            CAPTURE(blamed);
            std::vector<Finding> findings{asked.evidence.finding_at(FindingKind::kRankNotArrived, 0)};
            findings[0].ranks = {blamed};
            findings[0].victims = ranks({0, 1, 3});
            findings[0].confidence = before;
            titan::analyzer::replay_verdict(asked.evidence, findings);
            const Finding& told = findings[0];
            REQUIRE(told.replay);
            CHECK(told.replay->waiting == ranks({0, 1, 3}));
            CHECK(told.replay->still.empty() == (blamed == 2));
            CHECK(told.confidence == (blamed == 2 ? before : std::min(before, Confidence::kLikely)));
            CHECK(told.would_confirm.empty() == (blamed == 2));
            CHECK(told.evidence.back().text().starts_with(blamed == 2
                                                              ? "replayed: with that one call, the waits of all 3 ranks"
                                                              : "replayed: if rank 1 goes on, 3 of 3 ranks would"));
        }
    }
}

TEST_CASE("an edit is read as reports write it, and its words are read again") {
    const Members members = {{"tp:0", {0, 1}}, {"tp:1", {2, 3}}, {"pp", {1, 2}}};
    Scenario job = job_of(
        4, members,
        {{"0-1", "all_reduce tp:0 16; sync"}, {"2-3", "all_reduce tp:1 16; sync"}, {"1", "send pp 16 to=1; sync"}});
    const Asked asked(job);
    for (const char* const text :
         {"rank 0: all_reduce #1 on tp:0", "rank 2: recv #0 from rank 1 on pp", "rank 1: send #1 to rank 2 on pp"}) {
        const auto edits = asked.edits_of(Kind::kInsert, text);
        REQUIRE(edits.size() == 1);
        CHECK("rank " + std::to_string(edits[0].rank) + ": " +
                  titan::analyzer::edited_call_words(asked.run, edits[0]) ==
              text);
    }
    const auto same = asked.edits_of(Kind::kInsert, "rank 2: recv #0 from rank 1 on pp");
    CHECK(asked.edits_of(Kind::kInsert, "rank 2: ncclRecv #0 from rank 1 to rank 2 on pp (ranks 1-2)") == same);
    CHECK(asked.edits_of(Kind::kInsert, "rank 2: recv #0 on pp from 1") == same);
    const auto both = titan::analyzer::read_call_edits(asked.run, Kind::kInsert, {2, 3}, "AllReduce #1 on tp");
    REQUIRE(both);
    CHECK(both->size() == 2);
}

TEST_CASE("an edit that cannot be made says what there is instead") {
    const Members members = {{"tp:0", {0, 1}}, {"pp", {1, 2}}, {"pp:1", {1, 2}}};
    Scenario job = job_of(
        4, members, {{"all", "all_reduce world; broadcast world root=0; sync"}, {"0-1", "all_reduce tp:0; sync"}});
    const Asked asked(job);
    const auto insert = [&](const std::string& text) { return asked.refused(Kind::kInsert, {1}, text); };
    CHECK(insert("all_reduce #2 on world") == "");
    CHECK(says(insert(""), "no call is in it"));
    CHECK(says(insert("all_reduce on world"), "the number of the call is missing"));
    CHECK(says(insert("all_reduce #2"), "no communicator is in it"));
    CHECK(says(insert("all_reduce #2 to world"), "a rank follows 'to'"));
    CHECK(says(insert("all_reduce #2 at world"), "'at' is not expected there"));
    CHECK(says(insert("rank one: all_reduce #2 on world"), "the rank is a number"));
    CHECK(says(insert("all_reduced #2 on world"), "there is no call 'all_reduced'; there are all_reduce, reduce"));
    CHECK(says(insert("all_reduce #2 on dp"), "rank 1 is in no communicator 'dp'; it is in "));
    CHECK(says(insert("rank 9: all_reduce #2 on world"), "there is no rank 9 in run synth"));
    CHECK(says(insert("send #0 on world"), "a send goes to a rank"));
    CHECK(says(insert("send #0 to rank 3 on tp:0"), "rank 3 is not in tp:0"));
    CHECK(says(insert("send #0 from rank 2 to rank 1 on world"), "a send is a call of the rank that it comes from: 2"));
    CHECK(says(insert("all_reduce #2 to rank 3 on world"), "is a collective"));
    CHECK(says(insert("all_reduce #3 on world"), "its next call there is #2"));
    CHECK(says(asked.refused(Kind::kRemove, {1}, "all_reduce #2 on world"), "its next call there is #2"));
    CHECK(says(asked.refused(Kind::kRemove, {1}, "all_reduce #1 on world"), "that call of it is broadcast"));
    CHECK(says(asked.refused(Kind::kRemove, {}, "all_reduce #1 on world"), "whose call is it?"));
}

TEST_CASE("the answer in words and for programs") {
    Scenario job = job_with_a_sleeper(4, 2);
    const Asked asked(job);
    const WhatIfReport report = asked.ask({"alive 2"});
    const std::string text = titan::analyzer::document_text(what_if_document(asked.evidence, report), {});
    CHECK(says(text, "ALL 3 RANKS GO ON  if rank 2 goes on"));
    CHECK(says(text, "These waits end"));
    const std::string json = what_if_json(asked.evidence, report);
    CHECK(says(json, "\"go_on\": ["));
    CHECK(says(json, "\"edit\": \"alive\""));
    const WhatIfReport none = asked.ask({"alive 1"});
    CHECK(says(titan::analyzer::document_text(what_if_document(asked.evidence, none), {}), "NO RANK GOES ON"));
}
