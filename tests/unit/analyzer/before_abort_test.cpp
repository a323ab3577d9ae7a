// A watchdog aborts communicators, and the program runs on: the dump before that shows the hang.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "diagnose.h"
#include "load_run.h"
#include "played.h"
#include "temporary_directory.h"

using namespace titan::test;
using namespace titan::analyzer;
namespace format = titan::format;
using titan::synth::kSecond;

namespace {

constexpr int kRanks = 4;
constexpr int kOdd = 2;  // the rank that calls in the other order
constexpr uint32_t kWatchdogThread = 999;

Scenario two_orders() {
    Scenario job(kRanks);
    for (const char* name : {"grads", "metrics"}) {
        job.communicator(name, {0, 1, 2, 3});
    }
    job.every_rank([](int rank, Program& program) {
        for (int step = 0; step < 4; ++step) {
            const bool swapped = rank == kOdd && step == 3;
            program.all_reduce(swapped ? "metrics" : "grads").sync();
            program.all_reduce(swapped ? "grads" : "metrics").sync();
        }
    });
    job.play();
    return job;
}

// The abort of the communicator in which the rank waits lets the program go on to the other, which the others have
// called by then, too.
void abort_and_go_on(Scenario& job, int rank, uint64_t aborted_ticks) {
    auto& ring = job.ring(rank);
    auto& waiting = ring.call(ring.next_ticket() - 1);
    const uint32_t aborted = waiting.communicator;
    const uint32_t other = 1 - aborted;
    auto& abort = ring.add_call(aborted, format::OpKind::kCommAbort);
    abort.thread = kWatchdogThread;
    abort.entered_ticks = abort.returned_ticks = aborted_ticks;
    abort.state = format::CallState::kReturned;
    waiting.state = format::CallState::kFinished;
    waiting.gpu_finished_ticks = aborted_ticks + 1000;
    ring.communicator(aborted).state = format::CommState::kAborted;
    ring.communicator(aborted).closed_ticks = aborted_ticks;
    ring.communicator(aborted).finished = ring.communicator(aborted).next_sequence;
    auto& next = ring.add_call(other, format::OpKind::kAllReduce);
    const uint64_t slot_sequence = next.slot_sequence;
    next = waiting;
    next.slot_sequence = slot_sequence;
    next.communicator = other;
    next.communicator_id = ring.communicator(other).id;
    next.sequence = ring.communicator(other).next_sequence++;
    next.entered_ticks = next.returned_ticks = aborted_ticks + 2000;
    next.gpu_started_ticks = next.gpu_finished_ticks = aborted_ticks + 3000;
    ring.communicator(other).finished = ring.communicator(other).next_sequence;
    ring.header().state = format::ProcessState::kCrashed;
}

struct Aborted {
    TemporaryDirectory place;
    Scenario job = two_orders();

    // `moves`: the rank calls CUDA between its first dump and the abort. `released`: the abort of the others ends what
    // the rank waits for, a second before its own.
    explicit Aborted(int moves = -1, int released = -1) {
        job.write(place.path);
        for (int rank = 0; rank < kRanks; ++rank) {
            auto& ring = job.ring(rank);
            const uint64_t dumped_ticks = job.now_ticks(rank);
            if (rank == moves) {
                auto& call = ring.add_cuda_call("cudaMalloc");
                call.entered_ticks = dumped_ticks + kSecond;
                call.returned_ticks = call.entered_ticks + 1000;
            }
            abort_and_go_on(job, rank, dumped_ticks + (rank == released ? 11 : 10) * kSecond);
            if (rank == released) {
                ring.call(ring.next_ticket() - 3).gpu_finished_ticks = dumped_ticks + 10 * kSecond + 1000;
            }
            const std::string meta = titan::synth::dump_meta(dumped_ticks + 25 * kSecond, "crash", true, 1);
            titan::synth::write_file(place.path + "/synth/0/rank0000" + std::to_string(rank) + ".1.titan",
                                     titan::synth::make_dump(ring, meta));
        }
    }
    Run run(bool records_alone = false) const {
        LoadOptions options;
        options.paths = {place.path};
        options.records_alone = records_alone;
        auto run = load_run(options);
        REQUIRE(run);
        return std::move(*run);
    }
};

}  // namespace

TEST_CASE("what an abort let the program do does not hide the hang that it ended") {
    const Aborted aborted;
    const Run run = aborted.run();
    const Diagnosis diagnosis = diagnose(run);
    REQUIRE(!diagnosis.findings.empty());
    const Finding& head = diagnosis.findings.front();
    CAPTURE(head.summary.text());
    CHECK(head.kind == FindingKind::kOrderInversion);
    CHECK(head.ranks == ranks({kOdd}));
    for (const Process& process : run.processes) {
        CHECK(process.source.label == "rank0000" + std::to_string(process.rank) + ".0.titan");
        CHECK(process.liveness == Liveness::kEnded);
    }
    // Until the abort, not until the dump.
    const int64_t dumped_ns = run.processes[0].now_ns - static_cast<int64_t>(10 * kSecond);
    CHECK(dumped_ns ==
          static_cast<int64_t>(aborted.job.now_ticks(0) - titan::synth::kEpochTicks + titan::synth::kEpochRealtimeNs));
}

TEST_CASE("a rank that did something between its dump and the abort is taken from its last record") {
    const Aborted aborted(1);
    const Run run = aborted.run();
    CHECK(run.processes[0].source.label == "rank00000.0.titan");
    CHECK(run.processes[1].source.label == "rank00001.1.titan");
}

TEST_CASE("a rank that a peer's abort let go on is taken from before that abort") {
    const Aborted aborted(-1, 1);
    const Run run = aborted.run();
    for (const Process& process : run.processes) {
        CHECK(process.source.label == "rank0000" + std::to_string(process.rank) + ".0.titan");
    }
    const Diagnosis diagnosis = diagnose(run);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().kind == FindingKind::kOrderInversion);
    CHECK(diagnosis.findings.front().ranks == ranks({kOdd}));
}

TEST_CASE("records alone come from the same files, which the calls of a rank with one file may choose") {
    const Aborted aborted(-1, 1);
    for (int rank = 0; rank < kRanks; ++rank) {
        if (rank != 1) {
            std::filesystem::remove(aborted.place.path + "/synth/0/rank0000" + std::to_string(rank) + ".0.titan");
        }
    }
    for (const bool records_alone : {false, true}) {
        CHECK(aborted.run(records_alone).processes[1].source.label == "rank00001.0.titan");
    }
}
