// The fault script's language.
#include <doctest/doctest.h>

#include "fault_script.h"

using namespace simgpu;

namespace {

std::string error_of(const std::string& text) {
    std::string error;
    FaultScript::parse(text, &error);
    return error;
}

}  // namespace

TEST_CASE("a script of several faults, with comments and ranges") {
    std::string error;
    const FaultScript script = FaultScript::parse(
        "# the night of the incident\n"
        "skip rank=3 comm=dp step=5 nth=1   # first\n"
        "\n"
        "sleep rank=1,4-5 step=2- ms=250; kill rank=0 step=9\n"
        "count comm=tp seq=40 factor=0.5\n",
        &error);
    CHECK(error == "");
    REQUIRE(script.faults().size() == 4);
    const auto hits = [&](FaultPoint point) { return script.at(point).size(); };
    CHECK(hits({FaultPlace::kOp, 3, "dp", 5, 1, 77}) == 1);
    CHECK(hits({FaultPlace::kOp, 3, "dp", 5, 0, 77}) == 0);
    CHECK(hits({FaultPlace::kOp, 3, "tp", 5, 1, 77}) == 0);
    CHECK(hits({FaultPlace::kOp, 9, "tp", 5, 1, 40}) == 1);  // no rank: all of them
    CHECK(hits({FaultPlace::kAnywhere, 5, "", 100, 0, 0}) == 1);
    CHECK(hits({FaultPlace::kAnywhere, 5, "", 1, 0, 0}) == 0);
    CHECK(hits({FaultPlace::kAnywhere, 3, "", 5, 0, 0}) == 0);
    CHECK(script.faults()[1].ms == 250);
}

TEST_CASE("a fault with a communicator and no ordinal is at its first operation in the step") {
    std::string error;
    const FaultScript script = FaultScript::parse("sleep rank=1 comm=tp", &error);
    CHECK(script.at({FaultPlace::kOp, 1, "tp", 3, 0, 9}).size() == 1);
    CHECK(script.at({FaultPlace::kOp, 1, "tp", 3, 1, 10}).empty());
    CHECK(script.at({FaultPlace::kAnywhere, 1, "", 3, 0, 0}).empty());
}

TEST_CASE("a fault of a graph's replay has a step and no communicator") {
    std::string error;
    const FaultScript script = FaultScript::parse("graph-skip rank=2 step=4; hang-event comm=tp step=4", &error);
    CHECK(error == "");
    CHECK(script.at({FaultPlace::kReplay, 2, "", 4, 0, 0}).size() == 1);
    CHECK(script.at({FaultPlace::kReplay, 2, "", 5, 0, 0}).empty());
    CHECK(script.at({FaultPlace::kAnywhere, 2, "", 4, 0, 0}).empty());
    CHECK(script.at({FaultPlace::kOp, 2, "tp", 4, 0, 0}).size() == 1);
    CHECK(error_of("graph-skip comm=tp").find("whole graph") != std::string::npos);
    CHECK(error_of("graph-skip nth=1").find("need comm=") != std::string::npos);
    CHECK(error_of("hang-copy rank=1").find("needs comm=") != std::string::npos);
}

TEST_CASE("mistakes are named with their line") {
    CHECK(error_of("kill rank=1\nskop rank=2").find("line 2: unknown fault 'skop'") == 0);
    CHECK(error_of("skip rank=1").find("needs comm=") != std::string::npos);
    CHECK(error_of("skip comm=dp rank=x").find("rank=x: not a number") != std::string::npos);
    CHECK(error_of("skip comm=dp step=7-3").find("backwards") != std::string::npos);
    CHECK(error_of("skip comm=dp ms=5").find("'ms' is not a word that skip understands") != std::string::npos);
    CHECK(error_of("skip comm=dp nth=1 seq=2").find("exclude") != std::string::npos);
    CHECK(error_of("dtype comm=dp").find("needs type=") != std::string::npos);
    CHECK(error_of("redop comm=dp op=median").find("must be one of") != std::string::npos);
    CHECK(error_of("no-init comm=dp step=1").find("before the first step") != std::string::npos);
    CHECK(error_of("kill rank").find("not key=value") != std::string::npos);
    CHECK(error_of("kill seq=4").find("need comm=") != std::string::npos);
    CHECK(error_of("") == "");
}
