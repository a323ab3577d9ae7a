// Hosts inside a synchronisation: on which work, and what that says about who is missing.
#include <doctest/doctest.h>

#include "played.h"

using namespace titan::test;
using titan::format::GpuProgressMethod;

namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

ScenarioOptions with_marks() {
    ScenarioOptions options;
    options.method = GpuProgressMethod::kWrites;
    return options;
}

constexpr uint64_t kCompute = 0xc0;

}  // namespace

TEST_CASE("a host in a stream's synchronisation waits for the stream's own call, or for one behind an event") {
    Scenario job(2, with_marks());
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync().all_reduce("world");
        rank == 0 ? program.sync() : program.record(4, 0x51).wait(4, kCompute).sync(kCompute);
    });
    job.program(0).nth_call("world", 1).never_finishes = true;
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    for (const int rank : {0, 1}) {
        CHECK(says(played.head().rank_state.at(rank), "inside cudaStreamSynchronize for 20."));
        CHECK(says(played.head().rank_state.at(rank), "waiting for all_reduce #1 on world"));
    }
}

TEST_CASE("a rank that waits for its own kernel is the one that is missing, whatever else it has in flight") {
    // Rank 1 has a call of its own in flight on another stream, but its host waits for a kernel: that call does not
    // hold it.
    for (const bool recorded : {true, false}) {
        ScenarioOptions options = with_marks();
        options.cuda_calls = recorded;
        Scenario job(3, options);
        job.communicator("pair", {0, 1});
        job.every_rank([](int rank, Program& program) {
            program.kernel("_Z4gemmPf", kCompute).sync(kCompute).all_reduce("world").sync();
            if (rank < 2) {
                program.all_reduce("pair").on_stream(7);
            }
            if (rank == 1) {
                program.hanging_kernel("_Z4spinv", kCompute).sync(kCompute);
            }
            program.all_reduce("world").sync();
        });
        job.program(0).nth_call("pair", 0).never_finishes = true;
        const Played played = play(job);
        REQUIRE_FALSE(played.healthy());
        const auto found = std::find_if(played.diagnosis.findings.begin(), played.diagnosis.findings.end(),
                                        [](const Finding& f) { return f.kind == FindingKind::kRankNotArrived; });
        CHECK((found != played.diagnosis.findings.end()) == recorded);
        if (found != played.diagnosis.findings.end()) {
            CHECK(found->ranks == ranks({1}));
            CHECK(says(found->rank_state.at(1), "waiting for kernel spin"));
        }
    }
}

TEST_CASE("where nothing tells what a host waits for, nothing is said") {
    ScenarioOptions options = with_marks();
    options.cuda_calls = false;
    Scenario job(2, options);
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        if (rank == 1) {
            program.hanging_kernel("_Z4spinv", kCompute).sync(kCompute);
        }
        program.all_reduce("world").sync();
    });
    const Played played = play(job);
    REQUIRE_FALSE(played.healthy());
    CHECK(played.head().kind == FindingKind::kRankNotArrived);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(says(played.head().rank_state.at(1), "inside cudaStreamSynchronize for 20."));
    CHECK_FALSE(says(played.head().rank_state.at(1), "waiting for"));
}

TEST_CASE("a host whose launch does not come back waits for its stream") {
    Scenario job(2, with_marks());
    job.every_rank([](int rank, Program& program) {
        program.all_reduce("world").sync();
        rank == 1 ? program.hanging_kernel("_Z4spinv", kCompute).sleep() : program.all_reduce("world").sync();
    });
    job.play();
    auto& ring = job.ring(1);
    auto& thread = ring.add_thread(static_cast<uint32_t>(ring.header().pid) + 1);
    thread.call = ring.text("cudaLaunchKernel");
    thread.object = kCompute;
    thread.entered_ticks = job.now_ticks(1) - 15 * titan::synth::kSecond;
    ring.call(0).thread = thread.thread;
    const Run run = run_of(job);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].ranks == ranks({1}));
    CHECK(says(diagnosis.findings[0].rank_state.at(1), "inside cudaLaunchKernel for 15.0 s, waiting for kernel spin"));
}
