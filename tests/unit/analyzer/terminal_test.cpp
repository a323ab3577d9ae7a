// What a diagnosis looks like on a terminal: one line, one rank in three lines, a screenful.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "diagnosis_document.h"
#include "document.h"
#include "played.h"
#include "report.h"
#include "says.h"
#include "why_rank.h"

using namespace titan::analyzer;
using namespace titan::test;
using nlohmann::json;

namespace {

struct Told {
    explicit Told(Scenario& job, const std::set<int>& without = {}, const DiagnoseOptions& options = {})
        : run(run_of(job, without)), diagnosis(diagnose(run, options)), evidence(run, options) {}

    WhyRank why(int rank) const { return why_rank(evidence, diagnosis, rank); }

    Run run;
    Diagnosis diagnosis;
    Evidence evidence;
};

size_t lines_of(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

TEST_CASE("one line without a finding says what there is instead") {
    Scenario healthy(4);
    titan::synth::write_training(healthy, 4);
    healthy.play();
    const Told well(healthy);
    REQUIRE(well.diagnosis.findings.empty());
    CHECK(one_line(well.run, well.diagnosis).starts_with("run synth attempt 0: nothing wrong: 4 of 4 ranks on record"));

    Diagnosis diagnosis;
    diagnosis.cannot_tell = "most ranks left no record";
    CHECK(one_line(well.run, diagnosis) == "run synth attempt 0: cannot tell: most ranks left no record");
    diagnosis.cannot_tell.clear();
    diagnosis.waiting.resize(2);
    diagnosis.waiting.front().summary = "rank 1 waits";
    CHECK(one_line(well.run, diagnosis) ==
          "run synth attempt 0: waiting, nothing is overdue yet: rank 1 waits; and 1 more wait");
}

TEST_CASE("one line stays one, however long and hostile the names are") {
    Scenario job = job_with_a_sleeper(4, 1);
    Told told(job);
    told.run.id = std::string(10'000, 'x');
    told.run.processes[1].host = "<b>\"'\n\x1b[2J";
    told.diagnosis.findings.front().summary = std::string(10'000, 'y') + "\n";
    const std::string line = one_line(told.run, told.diagnosis);
    CHECK(lines_of(line) == 0);
    CHECK(line.size() < 800);
    CHECK(says(line, "on <b>\"'??[2J"));
}

TEST_CASE("why: a rank that waits, whom it waits for, and the cause behind that") {
    Scenario job(8);
    titan::synth::write_training(job, 4);
    Program sleep;
    sleep.sleep();
    job.program(3).insert_before("world", 2, sleep);
    job.play();
    const Told told(job);
    const WhyRank why = told.why(0);
    const std::string text = why_text(why);
    CHECK(lines_of(text) == 3);
    CHECK(text.starts_with("rank 0"));
    CHECK(says(text, "\nwaits for: "));
    CHECK(says(text, "rank 3"));
    CHECK(says(text, "\nleads to: rank 3"));
    CHECK(says(text, "rank_not_arrived (certain): rank 3"));
    const json whole = json::parse(why_json(told.run, told.evidence, why));
    CHECK(whole["leads_to"] == json::array({3}));
    CHECK(whole["waits_in"]["op"].is_string());
    CHECK(whole["waits_in"]["waited_ns"].get<int64_t>() > 0);
    CHECK(whole["lines"].size() == 3);

    const std::string culprit = why_text(told.why(3));
    CHECK(says(culprit, "\nwaits for: nothing that is on record\n"));
    CHECK(says(culprit, "\nleads to: rank 3 itself: rank_not_arrived"));
}

TEST_CASE("why: the way to the cause goes over those that wait in turn") {
    Scenario job(4);
    job.communicator("a", {0, 1});
    job.communicator("b", {1, 2});
    job.communicator("c", {2, 3});
    for (const auto& [name, ranks] : {std::pair("c", std::vector{2, 3}), {"b", {1, 2}}, {"a", {0, 1}}}) {
        for (const int rank : ranks) {
            job.program(rank).all_reduce(name).sync();
        }
    }
    Program sleep;
    sleep.sleep();
    job.program(3).insert_before("c", 0, sleep);
    job.play();
    const Told told(job);
    const WhyRank why = told.why(0);
    CHECK(why.waits_for == std::vector{1});
    CHECK(why.by_way_of == std::vector{1, 2});
    CHECK(says(why_text(why), "leads to: rank 3, by way of rank 1, then 2: "));
}

TEST_CASE("why: ranks without a record, and ranks that there are not") {
    Scenario job = job_with_a_sleeper(8, 3);
    const Told told(job, {5});
    CHECK(says(why_text(told.why(5)), ": no dump and no ring, so what it does is not known\n"));
    CHECK(says(why_text(told.why(5)), "waits for: not known without a record"));
    CHECK(ranks_of_run(told.run) == std::vector{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("a screenful of a name of 10 kB is one all the same") {
    Document document{.about = "a run"};
    document.sections = {{.id = "verdict", .title = "VERDICT", .blocks = {Paragraph{std::string(10'000, 'x')}}}};
    const std::string screen = screenful(document, {.width = 80, .rows = 24}, "titan-analyze dumps/ --all");
    CHECK(screen == "a run\n\nVERDICT\n...\n  titan-analyze dumps/ --all\n");
}
