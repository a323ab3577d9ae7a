// What launchers and schedulers wrote, read as they write it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "analyzer/witness.h"

using namespace titan::analyzer;

namespace {

std::vector<Testimony> said_in(const std::string& text) {
    WitnessFile file;
    file.path = file.label = "job.log";
    file.text = text;
    return testimonies_of(file);
}

// As PyTorch 2.13's torchrun wrote it.
const std::string kTorchrunLog =
    "W1122 08:27:52.481000 4706 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 4710 closing "
    "signal SIGTERM\n"
    "E1122 08:27:53.101000 4706 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) "
    "local_rank: 2 (pid: 4711) "
    "of binary: /usr/bin/python3\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\n"
    "tests/simgpu/train.py FAILED\n"
    "------------------------------------------------------------\n"
    "Failures:\n"
    "[1]:\n"
    "  time      : 2026-11-22_08:27:53\n"
    "  host      : node-3.example\n"
    "  rank      : 9 (local_rank: 1)\n"
    "  exitcode  : -15 (pid: 4710) (SIGTERM)\n"
    "  error_file: <N/A>\n"
    "  traceback : Signal 15 (SIGTERM) received by PID 4710\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n"
    "[0]:\n"
    "  time      : 2026-11-22_08:27:52\n"
    "  host      : node-3.example\n"
    "  rank      : 10 (local_rank: 2)\n"
    "  exitcode  : -9 (pid: 4711) (SIGKILL)\n"
    "  error_file: <N/A>\n"
    "  traceback : Signal 9 (SIGKILL) received by PID 4711\n"
    "============================================================\n";

}  // namespace

TEST_CASE("torchrun's list of failures tells who failed first and whom torchrun itself ended") {
    const std::vector<Testimony> said = said_in(kTorchrunLog);
    REQUIRE(said.size() == 2);
    CHECK(said[0].rank == 9);
    CHECK(said[0].pid == 4710);
    CHECK(said[0].signal == 15);
    CHECK(said[0].order == EndOrder::kAfterOthers);
    CHECK(said[1].rank == 10);
    CHECK(said[1].host == "node-3.example");
    CHECK(said[1].signal == 9);
    CHECK(said[1].exit_status == -1);
    CHECK(said[1].order == EndOrder::kFirst);
    CHECK(said[1].text == "rank 10 (pid 4711 on node-3.example) ended with exit code -9 at 2026-11-22_08:27:52");
}

TEST_CASE("a log without a witness' words says nothing") {
    CHECK(said_in("step 1 loss 2.0\nrank : 3\nexitcode : 4\n").empty());
    CHECK(said_in("").empty());
}
