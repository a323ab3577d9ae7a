// The text files that torch.distributed.debug writes from time to time.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "witnesses.h"

using namespace titan::analyzer;

namespace {

std::vector<Testimony> debug_says(const std::string& text) {
    return titan::test::said_in(text, "stacks_20261122_083000.txt");
}

}  // namespace

TEST_CASE("periodic stacks tell where ranks stood and who did not answer") {
    const auto said = debug_says(
        "=== Rank 0: http://node-1:25999/handler/dump_traceback? ===\n"
        "Thread 0x00007f1e (most recent call first):\n"
        "  File \"/usr/lib/python3.12/threading.py\", line 355 in wait\n"
        "  File \"/w/loader.py\", line 12 in fetch\n"
        "\n"
        "Thread 0x00007f1f (most recent call first):\n"
        "  File \"/venv/lib/python3.12/site-packages/torch/distributed/c10d.py\", line 2810 in all_reduce\n"
        "  File \"/w/train.py\", line 142 in step\n"
        "  File \"/w/train.py\", line 160 in main\n"
        "=== Rank 1: http://node-2:25999/handler/dump_traceback? ===\n"
        "Error: 503\n"
        "=== Rank 2: http://node-2:26000/handler/pyspy_dump? ===\n"
        "Process 7: python train.py\n"
        "Thread 7 (idle): \"MainThread\"\n"
        "    wait (torch/distributed/c10d.py:9)\n"
        "    step (train.py:150)\n"
        "Thread 9 (active): \"loader\"\n"
        "    fetch (loader.py:12)\n");
    REQUIRE(said.size() == 3);
    CHECK(said[0].rank == 0);
    CHECK(said[0].text == "rank 0 was at /w/train.py:142 in step");
    CHECK(said[1].rank == 1);
    CHECK(said[1].claim == Claim::kSilent);
    CHECK(said[1].text == "rank 1 did not answer: HTTP status 503");
    CHECK(said[2].text == "rank 2 was at train.py:150 in step");
    CHECK(said[2].witness == "torch.distributed.debug");
}

TEST_CASE("a summary of missing answers is read, tables are named as not read, odd text does no harm") {
    auto said = debug_says("PARTIAL DATA: 7/8 workers responded\n  Rank 3: ConnectionError: refused\nx: y\n");
    REQUIRE(said.size() == 1);
    CHECK(said[0].rank == 3);
    CHECK(said[0].text == "rank 3 did not answer: ConnectionError: refused");
    said = debug_says("=== FR Trace ===\n--- Groups ---\n  id  desc\n");
    REQUIRE(said.size() == 1);
    CHECK(said[0].claim == Claim::kUnread);
    CHECK(debug_says("=== Rank 99999999999: /handler/ ===\nError: 1\n=== Rank : /handler/ ===\n  File \"\", line x in\n"
                     "    (\n    f (.py:\n")
              .empty());
}
