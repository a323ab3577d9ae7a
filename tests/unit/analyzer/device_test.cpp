// What the GPU did: work that blocks a stream, members that started and members that did not.
#include <doctest/doctest.h>

#include "diagnose.h"
#include "kernel_name.h"
#include "played.h"

using namespace titan::test;
using titan::analyzer::DeviceState;
using titan::format::ChannelRole;
using titan::format::ChannelState;
using titan::format::GpuProgressMethod;
using titan::format::WorkKind;
using titan::synth::write_training;

namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool mentions(const Finding& finding, const std::string& text) {
    return says(finding.summary, text) || std::any_of(finding.evidence.begin(), finding.evidence.end(),
                                                      [&](const std::string& line) { return says(line, text); });
}

ScenarioOptions with_marks() {
    ScenarioOptions options;
    options.method = GpuProgressMethod::kWrites;
    return options;
}

constexpr uint64_t kCompute = 0xc0;
constexpr uint64_t kComm = 0x51;

// Kernels on one stream, collectives on another, tied by events as PyTorch does it.
void write_two_streams(Scenario& job, int steps) {
    job.every_rank([&](int, Program& program) {
        for (int step = 0; step < steps; ++step) {
            program.step(step).kernel("_Z4gemmPf", kCompute).kernel("_Z4gelui", kCompute).record(1, kCompute);
            program.wait(1, kComm).all_reduce("world").record(2, kComm).wait(2, kCompute);
        }
        program.sync(kCompute);
    });
}

void insert_at_step(Program& program, int64_t step, const Program& what) {
    for (size_t i = 0; i < program.actions.size(); ++i) {
        if (program.actions[i].kind == titan::synth::Action::kStep && program.actions[i].step == step) {
            program.actions.insert(program.actions.begin() + static_cast<std::ptrdiff_t>(i) + 1, what.actions.begin(),
                                   what.actions.end());
            return;
        }
    }
    FAIL("no such step");
}

}  // namespace

TEST_CASE("a kernel on the collective's own stream that does not end is named, and the others are victims") {
    Scenario job(4, with_marks());
    write_training(job, 4);
    job.program(2).insert_before("world", 2, Program().hanging_kernel("_Z12spin_foreverPVi"));
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kGpuQueueBlocked);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(played.head().victims == ranks({0, 1, 3}));
    CHECK(played.communicator() == "world");
    CHECK(played.head().sequence == 2);
    CHECK(played.head().confidence == Confidence::kCertain);
    CHECK(says(played.head().summary,
               "rank 2 (dp rank 1, tp rank 0) called all_gather #2 on world, but its stream never reached it: kernel "
               "spin_forever is ahead"));
    CHECK(mentions(played.head(), "spin_forever(int volatile*)"));
    CHECK(mentions(played.head(), "on the GPU of ranks 0-1,3: started, not finished"));
    CHECK(mentions(played.head(), "its own stream reports it"));
}

TEST_CASE("the kernel is found on another stream, behind an event; of several the one that nobody ran before") {
    Scenario job(4, with_marks());
    write_two_streams(job, 5);
    insert_at_step(job.program(1), 3, Program().hanging_kernel("_Z4spinv", kCompute));
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kGpuQueueBlocked);
    CHECK(played.head().ranks == ranks({1}));
    CHECK(played.head().sequence == 3);
    CHECK(says(played.head().summary, "kernel spin is ahead of it on a stream that it waits for by an event"));
    CHECK(played.head().confidence == Confidence::kLikely);
    CHECK(mentions(played.head(), "of the 3 pieces of work ahead"));
    CHECK(played.head().victims == ranks({0, 2, 3}));
}

TEST_CASE("of several equal suspects all are named, and the claim is weaker") {
    Scenario job(4, with_marks());
    write_two_streams(job, 5);
    insert_at_step(job.program(1), 3, Program().hanging_kernel("_Z4gemmPf", kCompute));
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kGpuQueueBlocked);
    CHECK(says(played.head().summary,
               "one of 3 pieces of work ahead of it and on streams that it waits for by events does not end, oldest "
               "first: kernel gemm (x2), kernel gelu"));
    CHECK(played.head().confidence == Confidence::kLikely);
}

TEST_CASE("copies, host functions and waits for unseen events are named as what they are") {
    const auto summary_with = [](WorkKind kind) {
        Scenario job(4, with_marks());
        write_training(job, 3);
        Program what;
        what.work(kind, kComm, 0x77);
        what.actions.back().count = 4096;
        what.actions.back().never_finishes = true;
        job.program(1).insert_before("world", 1, what);
        const Played played = play(job);
        REQUIRE_FALSE(played.healthy());
        CHECK(played.head().kind == FindingKind::kGpuQueueBlocked);
        CHECK(played.head().ranks == ranks({1}));
        return played.head().summary;
    };
    CHECK(says(summary_with(WorkKind::kCopy), "a copy of 4,096 bytes"));
    CHECK(says(summary_with(WorkKind::kHostFunction), "a host function"));
    CHECK(says(summary_with(WorkKind::kValueWait), "a wait for a value in memory"));
    CHECK(says(summary_with(WorkKind::kEventWait), "a wait for an event whose record was not seen"));
}

TEST_CASE("every rank behind the same kernel is one finding") {
    Scenario job(4, with_marks());
    job.every_rank([](int, Program& program) {
        program.all_reduce("world").hanging_kernel("_Z4spinv").all_reduce("world").sync();
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kGpuQueueBlocked);
    CHECK(played.head().ranks == ranks({0, 1, 2, 3}));
    CHECK(says(played.head().summary, "their streams never reached it: kernel spin"));
}

TEST_CASE("a stream that waits by an event for a call that hangs elsewhere is a victim, by an edge") {
    Scenario job(4, with_marks());
    job.communicator("tp", {0, 1, 2, 3});
    job.every_rank([](int, Program& program) {
        program.all_reduce("tp").on_stream(1).record(9, 1).wait(9, 2).all_reduce("world").on_stream(2).sync(2);
    });
    job.program(0).nth_call("tp", 0).never_finishes = true;
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kStuckInFlight);
    CHECK(played.communicator() == "tp");
    CHECK(mentions(played.head(), "on the GPU of ranks 0-3: started, not finished"));
}

TEST_CASE("waits between streams that close a ring are a deadlock") {
    Scenario job(2, with_marks());
    job.communicator("x", {0, 1});
    job.communicator("y", {0, 1});
    job.every_rank([](int rank, Program& program) {
        const char* first = rank == 0 ? "x" : "y";
        const char* second = rank == 0 ? "y" : "x";
        program.all_reduce(first).on_stream(1).record(9, 1).wait(9, 2).all_reduce(second).on_stream(2).sync(2);
    });
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kOrderInversion);
    CHECK(played.head().ranks == ranks({0, 1}));
}

TEST_CASE(
    "two calls that hang on streams that do not wait for each other are two causes, where the waits are recorded") {
    for (const bool recorded : {true, false}) {
        Scenario job(4, with_marks());
        job.communicator("tp", {0, 1, 2, 3});
        job.every_rank([&](int, Program& program) {
            if (recorded) {
                program.kernel("_Z4gemmPf", 1);
            }
            program.all_reduce("tp").on_stream(1).all_reduce("world").on_stream(2).sync(2);
        });
        job.program(0).nth_call("tp", 0).never_finishes = true;
        job.program(0).nth_call("world", 0).never_finishes = true;
        const Played played = play(job);
        CHECK(played.diagnosis.findings.size() == (recorded ? 2 : 1));
        CHECK(played.head().kind == FindingKind::kStuckInFlight);
    }
}

TEST_CASE("healthy jobs with kernels, events, replays and every method are no alarm") {
    for (const auto method : {GpuProgressMethod::kWrites, GpuProgressMethod::kEvents, GpuProgressMethod::kOff}) {
        for (const uint64_t sample : {1, 3, 0}) {
            for (const double hang_s : {0.2, 20.0}) {
                ScenarioOptions options;
                options.method = method;
                options.gpu_progress = method != GpuProgressMethod::kOff;
                options.launch_sample = sample;
                options.hang_s = hang_s;
                options.stream_work = 16;
                Scenario job(4, options);
                write_two_streams(job, 6);
                job.every_rank([](int, Program& program) {
                    program.capture(1).all_reduce("world").all_gather("world").end_capture();
                    program.kernel("_Z4gemmPf", 0).replay(1).replay(1).record(3, kComm).wait(3, 0).sync(0);
                });
                const Played played = play(job, {}, "signal");
                CHECK(played.healthy());
            }
        }
    }
}

TEST_CASE("a stream that was not reached, with nothing recorded ahead, says what could not be seen") {
    ScenarioOptions options = with_marks();
    options.cuda_calls = false;
    Scenario job(4, options);
    write_training(job, 4);
    job.program(2).insert_before("world", 2, Program().hanging_kernel("_Z4spinv"));
    const Played played = play(job);
    REQUIRE(played.diagnosis.findings.size() == 1);
    CHECK(played.head().kind == FindingKind::kGpuQueueBlocked);
    CHECK(played.head().ranks == ranks({2}));
    CHECK(played.head().confidence == Confidence::kLikely);
    CHECK(mentions(played.head(), "what is ahead of it there was not recorded"));
    CHECK(mentions(played.head(), "kernels and copies are not recorded (TITANTRACE_CUDA"));
}

TEST_CASE("a launch row that a later launch took over tells nothing") {
    Scenario job(2, with_marks());
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.program(0).nth_call("world", 0).never_finishes = true;
    job.play();
    job.ring(1).marks(1).started = 65;
    const Run run = run_of(job);
    CHECK(run.processes[0].entries[0].device == DeviceState::kStarted);
    CHECK(run.processes[1].entries[0].device == DeviceState::kUnknown);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].kind == FindingKind::kStuckInFlight);
    CHECK(diagnosis.findings[0].confidence == Confidence::kLikely);
    CHECK(mentions(diagnosis.findings[0], "on the GPU of rank 1: unknown"));
}

TEST_CASE("all members started: the summary says so, and NCCL's channels tell which part does not move") {
    Scenario job(4, with_marks());
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.program(0).nth_call("world", 0).never_finishes = true;
    job.play();
    auto& ring = job.ring(2);
    ring.call(0).channels = 2;
    ring.call(0).channels_started = 2;
    ring.call(0).channels_finished = 1;
    auto& kernel = ring.add_channel(0, ChannelRole::kKernelChannel);
    kernel.channel = 1;
    kernel.state = ChannelState::kRunning;
    auto& proxy = ring.add_channel(0, ChannelRole::kProxySend);
    proxy.channel = 1;
    proxy.peer = 3;
    proxy.steps = 8;
    proxy.steps_done = 5;
    proxy.state = ChannelState::kWaitsForNetwork;
    const Run run = run_of(job);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE(diagnosis.findings.size() == 1);
    const Finding& finding = diagnosis.findings[0];
    CHECK(finding.kind == FindingKind::kStuckInFlight);
    CHECK(finding.confidence == Confidence::kCertain);
    CHECK(says(finding.summary, "all members, have started all_reduce #0 on world on the GPU"));
    CHECK(mentions(finding, "rank 2: proxy send to rank 3 on channel 1: waits for the network, 5 of 8 steps done"));
    CHECK(mentions(finding, "rank 2: the kernel on channel 1 has started and not stopped"));
}

TEST_CASE("names of kernels, whole, cut, and hostile") {
    using titan::analyzer::full_kernel_name;
    using titan::analyzer::short_kernel_name;
    CHECK(short_kernel_name("my_kernel") == "my_kernel");
    CHECK(short_kernel_name("_Z4spinv") == "spin");
    CHECK(short_kernel_name(
              "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15FillFunctorIfEESt5arrayIPcLm1EEEEviT0_"
              "T1_") == "at::native::vectorized_elementwise_kernel");
    const std::string cut = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15FillFunctorIfE";
    CHECK(short_kernel_name(cut) == "at::native::vectorized_elementwise_kernel");
    CHECK(full_kernel_name(cut) == "at::native::vectorized_elementwise_kernel...");
    CHECK(short_kernel_name("_ZN2at6native29vectorized_elem") == "at::native::vectorized_elem");
    CHECK(short_kernel_name("_ZN7cutlass6KernelI4GemmIfEE3runEv") == "cutlass::Kernel::run");
    CHECK(short_kernel_name("_ZN12_GLOBAL__N_14spinEv") == "(anonymous namespace)::spin");
    CHECK(short_kernel_name("_Z") == "_Z");
    CHECK_FALSE(short_kernel_name("_ZN99999999999999999999x").empty());
    std::string bomb = "_Z1fI1aIiE";
    for (int i = 0; i < 200; ++i) {
        bomb += "1aIS_S_S_S_E";
    }
    CHECK(short_kernel_name(bomb) == "f");
}
