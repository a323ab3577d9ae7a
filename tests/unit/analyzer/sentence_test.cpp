#include <doctest/doctest.h>

#include "sentence.h"

using titan::analyzer::DurationFact;
using titan::analyzer::phrase;
using titan::analyzer::RanksFact;
using titan::analyzer::Sentence;

namespace {

const RanksFact* ranks_of(const Sentence& sentence, size_t part) { return sentence.fact<RanksFact>(part); }

}  // namespace

TEST_CASE("a sentence reads as fmt would write it and keeps its facts") {
    const Sentence wait =
        phrase("{} wait{} for {}, {:.1f} % of the step ({:#x})", titan::analyzer::ranks_fact({5, 0, 1, 5}), "",
               titan::analyzer::duration_fact(4'100'000'000), 12.34, 255);
    CHECK(wait.text() == "ranks 0-1,5 wait for 4.1 s, 12.3 % of the step (0xff)");
    REQUIRE(wait.parts().size() == 4);
    REQUIRE(ranks_of(wait, 0) != nullptr);
    CHECK(ranks_of(wait, 0)->ranks == std::vector{0, 1, 5});
    CHECK(wait.fact<DurationFact>(0) == nullptr);
    CHECK(ranks_of(wait, 1) == nullptr);
    REQUIRE(wait.fact<DurationFact>(2) != nullptr);
    CHECK(wait.fact<DurationFact>(2)->duration_ns == 4'100'000'000);
}

TEST_CASE("a sentence inside another keeps its facts, and words beside words are one part") {
    const Sentence inner = phrase("{} died", titan::analyzer::rank_fact(3));
    const Sentence outer = phrase("because of that: {}{}", inner, "; nobody waits");
    CHECK(outer.text() == "because of that: rank 3 died; nobody waits");
    REQUIRE(outer.parts().size() == 3);
    REQUIRE(ranks_of(outer, 1) != nullptr);
    CHECK(ranks_of(outer, 1)->ranks == std::vector{3});
    CHECK(outer.parts()[2].words == " died; nobody waits");
}

TEST_CASE("other words for a fact leave it as it is") {
    Sentence sentence = phrase("{} is late", titan::analyzer::rank_fact(3));
    sentence.reword(0, "rank 3 (tp 1)");
    CHECK(sentence.text() == "rank 3 (tp 1) is late");
    CHECK(ranks_of(sentence, 0)->ranks == std::vector{3});
    CHECK(sentence == Sentence("rank 3 (tp 1) is late"));
    CHECK_FALSE(sentence == phrase("{} is late", titan::analyzer::rank_fact(3)));
}

TEST_CASE("words agree with the number of the ranks before them, and those of arguments stay as they are") {
    const auto wait = [](const std::vector<int>& ranks) {
        return phrase("{} [waits|wait] for {}, which [runs|run] {}", titan::analyzer::ranks_fact(ranks),
                      titan::analyzer::rank_fact(7), "[a|b]")
            .text();
    };
    CHECK(wait({3}) == "rank 3 waits for rank 7, which runs [a|b]");
    CHECK(wait({3, 4}) == "ranks 3-4 wait for rank 7, which runs [a|b]");
}

TEST_CASE("nothing said is empty") {
    CHECK(Sentence().empty());
    CHECK(Sentence("").empty());
    CHECK(phrase("").empty());
    CHECK(phrase("{}", "").empty());
}
