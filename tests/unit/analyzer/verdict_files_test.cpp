// Every case of verdicts/*.txt. TITAN_VERDICT=words runs only those whose titles have the words.
#include <doctest/doctest.h>

#include <cstdlib>

#include "verdict_file.h"

using namespace titan::test;

namespace {

VerdictCase case_of(const std::vector<std::string>& lines) {
    VerdictCase verdict{"here.txt", {1, "made by a test"}, {}};
    for (const std::string& line : lines) {
        verdict.lines.push_back({static_cast<int>(verdict.lines.size()) + 2, line});
    }
    return verdict;
}

const std::vector<std::string> kHang{"ranks 2", "0: all_reduce world; sync", "1: sleep"};

std::vector<std::string> with(std::vector<std::string> lines, const std::string& line) {
    lines.push_back(line);
    return lines;
}

}  // namespace

TEST_CASE("a hang is not nothing" * doctest::should_fail()) {
    judge_verdict(case_of(with(kHang, "expect nothing")), {});
}

TEST_CASE("another rank than the guilty one does not do" * doctest::should_fail()) {
    judge_verdict(case_of(with(kHang, "expect rank_not_arrived ranks=0")), {});
}

TEST_CASE("a case that expects nothing at all does not pass" * doctest::should_fail()) {
    judge_verdict(case_of(kHang), {});
}

TEST_CASE("lines of a case that nobody understands are refused") {
    for (const char* line : {"expects nothing", "0: all_reduces world", "0: send world too=1", "0: repeat 2 sync",
                             "change 0 world 0: counts=1", "expect something rank=1"}) {
        CAPTURE(line);
        CHECK_THROWS(judge_verdict(case_of(with(with(kHang, "expect something"), line)), {}));
    }
}

TEST_CASE("what a case varies is tried in every combination") {
    const VerdictCase verdict = case_of({"ranks 2", "vary a 1 2", "vary b x y z"});
    CHECK(variants_of(verdict).size() == 6);
    CHECK(variants_of(case_of({"ranks 2"})).size() == 1);
}

TEST_CASE("verdicts of the jobs that are written as text") {
    const char* const wanted = std::getenv("TITAN_VERDICT");
    size_t judged = 0;
    for (const VerdictCase& verdict : read_verdict_files(TITAN_VERDICTS)) {
        if (wanted != nullptr && verdict.title.text.find(wanted) == std::string::npos) {
            continue;
        }
        for (const Variant& variant : variants_of(verdict)) {
            std::string values;
            for (const auto& [name, value] : variant) {
                values += " " + name + "=" + value;
            }
            const std::string place = verdict.file + ":" + std::to_string(verdict.title.number);
            INFO(place, ": ", verdict.title.text, values);
            judge_verdict(verdict, variant);
            ++judged;
        }
    }
    CHECK(judged > 0);
}
