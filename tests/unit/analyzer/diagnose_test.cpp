// Diagnoses of runs that a verdict file (verdicts/README.md) cannot describe: rings and runs that were changed by hand,
// and parts of the diagnosis that are asked directly.
#include "diagnose.h"

#include <doctest/doctest.h>

#include "evidence.h"
#include "expected.h"
#include "finders.h"
#include "host_calls.h"
#include "link_run.h"
#include "played.h"
#include "report.h"
#include "says.h"
#include "steps.h"
#include "timing.h"
#include "timing_job.h"
#include "uncertainty.h"

using namespace titan::test;
using titan::analyzer::DeviceState;
using titan::analyzer::Process;
using titan::analyzer::Sentence;
using titan::format::CallState;
using titan::format::ChannelRole;
using titan::format::ChannelState;
using titan::format::GpuProgressMethod;
using titan::format::Reduction;
using titan::synth::write_training;

namespace {

constexpr uint64_t kCompute = 0xc0;

bool mentions(const Finding& finding, const std::string& text) {
    return says(finding.summary.text(), text) ||
           std::any_of(finding.evidence.begin(), finding.evidence.end(),
                       [&](const Sentence& line) { return says(line.text(), text); });
}

ScenarioOptions watched(GpuProgressMethod method) {
    ScenarioOptions options;
    options.gpu_progress = method != GpuProgressMethod::kOff;
    options.method = method;
    return options;
}

// Sends to all others and receives from them, in one group: what an all_to_all is for NCCL.
void exchange(Program& program, const std::string& communicator, int rank, int size, uint64_t stream) {
    program.group_start();
    for (int peer = 0; peer < size; ++peer) {
        if (peer != rank) {
            program.send(communicator, peer).on_stream(stream).recv(communicator, peer).on_stream(stream);
        }
    }
    program.group_end();
}

// One eager step, then a graph of three collectives that is launched in every step, and an eager call now and then.
void write_replays(Scenario& job, int steps, int checkpoint) {
    job.every_rank([&](int, Program& program) {
        program.step(0).all_reduce("world", 64).sync();
        program.capture(5).all_reduce("world", 64).all_gather("world", 32).all_reduce("world", 128).end_capture();
        for (int step = 1; step < steps; ++step) {
            program.step(step).replay(5).sync();
            if (step == checkpoint) {
                program.broadcast("world", 0, 16).sync();
            }
        }
    });
}

}  // namespace

TEST_CASE("members that finished and members that did not are told apart") {
    Scenario job(4);
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.program(0).nth_call("world", 0).never_finishes = true;
    job.play();
    for (const int rank : {0, 3}) {
        job.ring(rank).call(0).state = CallState::kFinished;
        job.ring(rank).call(0).gpu_finished_ticks = job.ring(rank).call(0).entered_ticks + 1'000'000;
        job.ring(rank).communicator(0).finished = 1;
    }
    const Run run = run_of(job);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].kind == FindingKind::kStuckInFlight);
    CHECK(diagnosis.findings[0].ranks == ranks({1, 2}));
}

TEST_CASE("what NCCL told the programs of a hang is evidence, each text once") {
    Scenario job(4);
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.program(0).nth_call("world", 0).never_finishes = true;
    job.play();
    Run run = run_of(job);
    const auto told = [&](size_t rank, const std::string& key, const std::string& text) {
        titan::analyzer::Process& process = run.processes[rank];
        process.texts.insert(process.texts.end(), {key, text});
        const auto last = static_cast<uint32_t>(process.texts.size() - 1);
        process.labels.emplace_back(last - 1, last);
    };
    told(0, "nccl_last_error", "net: connection to 10.0.0.9\n lost");
    told(1, "nccl_last_error", "net: connection to 10.0.0.9\n lost");
    told(2, "dp", "3");
    told(3, "nccl_last_error", "no route to host");
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE(diagnosis.findings.size() == 1);
    std::vector<std::string> lines;
    for (const std::string& line : titan::analyzer::texts_of(diagnosis.findings[0].evidence)) {
        if (line.find("NCCL reported to") != std::string::npos) {
            lines.push_back(line);
        }
    }
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == "the last error that NCCL reported to ranks 0-1: net: connection to 10.0.0.9? lost");
    CHECK(lines[1] == "the last error that NCCL reported to rank 3: no route to host");
}

TEST_CASE("memory of NCCL is a call of CUDA that may wait for the GPU") {
    for (const char* name : {"ncclMemAlloc", "ncclMemFree"}) {
        CHECK(titan::analyzer::HostCall(name).is_cuda());
        CHECK(titan::analyzer::HostCall(name).waits_for_gpu());
        CHECK(!titan::analyzer::HostCall(name).is_nccl());
    }
    CHECK(titan::analyzer::HostCall("ncclCommInitRank").is_nccl());
}

TEST_CASE("loading a kernel's code is a call of CUDA that may wait for the GPU") {
    CHECK(titan::analyzer::HostCall("cuFuncLoad").is_cuda());
    CHECK(titan::analyzer::HostCall("cuFuncLoad").waits_for_gpu());
    CHECK(!titan::analyzer::HostCall("cuFuncIsLoaded").waits_for_gpu());
}

TEST_CASE("a cycle is drawn step by step, and a long one by its ends") {
    for (const int size : {3, 20}) {
        Scenario job(size);
        job.every_rank([&](int rank, Program& program) {
            program.send("world", (rank + 1) % size).recv("world", (rank + size - 1) % size).sync();
        });
        const Played played = play(job);
        REQUIRE(played.head().kind == FindingKind::kP2pCycle);
        const auto& cycle = played.head().cycle;
        REQUIRE(cycle.size() == static_cast<size_t>(size));
        for (size_t i = 0; i < cycle.size(); ++i) {
            CHECK(cycle[i].waits_for == cycle[(i + 1) % cycle.size()].rank);
        }
        CHECK(played.head().summary.text().size() < 400);
        const std::string text = titan::analyzer::text_report(played.run, played.diagnosis, {});
        CHECK(says(text, "-> back to rank " + std::to_string(cycle.front().rank)));
        CHECK(says(text, "12 more ...") == (size == 20));
    }
}

TEST_CASE("a mismatch that leads changes no finding of others, whoever looked before") {
    Scenario job(8, watched(GpuProgressMethod::kOff));
    write_training(job, 6);
    auto& call = job.program(5).nth_call("dp:1", 13);
    call.never_finishes = true;
    call.reduction = Reduction::kMax;
    job.play();
    const Run run = run_of(job);
    const titan::analyzer::Evidence evidence(run, {});
    const auto found_behind = [&](std::vector<Finding> findings) {
        titan::analyzer::ToldSoFar told(evidence);
        told.findings = std::move(findings);
        titan::analyzer::find_disagreements(evidence, told);
        return told.findings;
    };
    Finding of_others;
    of_others.hangs = false;
    of_others.confidence = Confidence::kCertain;
    of_others.evidence = {"theirs"};
    const std::vector<Finding> alone = found_behind({});
    const std::vector<Finding> behind = found_behind({of_others});
    REQUIRE(alone.size() == 1);
    REQUIRE(behind.size() == 2);
    CHECK_FALSE(behind[0].hangs);
    CHECK(behind[0].evidence == of_others.evidence);
    CHECK(behind[1].hangs == alone[0].hangs);
    CHECK(behind[1].evidence == alone[0].evidence);
    CHECK(behind[1].victims == alone[0].victims);
}

TEST_CASE("arguments that are overwritten are not called equal for certain") {
    Scenario job(4, watched(GpuProgressMethod::kWrites));
    for (int rank = 0; rank < 4; ++rank) {
        job.program(rank).all_reduce("world").sync().all_reduce("world").sync();
        job.program(rank).nth_call("world", 1).never_finishes = true;
    }
    job.play();
    for (const bool lost : {false, true}) {
        Run run = run_of(job);
        run.processes[1].entries.back().arguments_lost = lost;
        const Diagnosis diagnosis = titan::analyzer::diagnose(run);
        REQUIRE(!diagnosis.findings.empty());
        const Finding& head = diagnosis.findings.front();
        CAPTURE(head.summary.text());
        CHECK(head.kind == FindingKind::kStuckInFlight);
        CHECK(head.confidence == (lost ? Confidence::kLikely : Confidence::kCertain));
        CHECK((head.summary.text().find("equal as far as recorded") != std::string::npos) == lost);
    }
}

TEST_CASE("which send of an exchange hangs is not on record: one kernel carries all of them") {
    for (const bool in_exchange : {true, false}) {
        CAPTURE(in_exchange);
        Scenario job(4, watched(GpuProgressMethod::kWrites));
        job.communicator("ep", {0, 1, 2, 3});
        job.every_rank([&](int rank, Program& program) {
            if (in_exchange) {
                exchange(program, "ep", rank, 4, 1);
            } else if (rank < 2) {
                rank == 0 ? program.send("ep", 1).on_stream(1) : program.recv("ep", 0).on_stream(1);
            }
        });
        job.play();
        Run run = run_of(job);
        titan::analyzer::link(run);
        titan::analyzer::WaitNode node;
        node.kind = titan::analyzer::WaitKind::kPointToPoint;
        node.communicator = 0;
        const titan::analyzer::Entry& sent = run.processes[0].entries.front();
        titan::analyzer::Waiter& waiter = node.waiting.emplace_back();
        waiter.member = {0, sent.row};
        waiter.entry = &sent;
        Finding finding;
        finding.confidence = Confidence::kCertain;
        titan::analyzer::doubt_stuck(run, node, finding);
        CHECK((finding.confidence == Confidence::kCertain) == !in_exchange);
    }
}

TEST_CASE("work that does not end may be slow, until a watchdog calls it a hang or half a minute is over") {
    for (const std::string reason : {"signal", "timeout"}) {
        for (const int64_t waited_ns : {2'000'000'000LL, 40'000'000'000LL}) {
            CAPTURE(reason);
            CAPTURE(waited_ns);
            Scenario job(2, watched(GpuProgressMethod::kWrites));
            job.every_rank([](int, Program& program) { program.all_reduce("world"); });
            job.play();
            const Run run = run_of(job, {}, reason);
            titan::analyzer::WaitNode node;
            node.waiting.emplace_back().age_ns = waited_ns;
            Finding finding;
            finding.confidence = Confidence::kCertain;
            titan::analyzer::doubt_short_wait(run, node, finding);
            CHECK((finding.confidence == Confidence::kLikely) == (reason == "signal" && waited_ns < 30'000'000'000LL));
        }
    }
}

TEST_CASE("a wait shorter than all steps is no hang, until a watchdog calls it one") {
    const auto limit_ns = [](const std::string& reason, const std::vector<int64_t>& steps_ns) {
        Scenario job(2, watched(GpuProgressMethod::kWrites));
        job.every_rank([](int rank, Program& program) {
            program.all_reduce("world").sync();
            rank == 0 ? program.all_reduce("world") : program.sleep();
        });
        job.play();
        Run run = run_of(job, {}, reason);
        titan::analyzer::link(run);
        int64_t begin_ns = 1;
        for (const int64_t length_ns : steps_ns) {
            titan::analyzer::StepProfile& step = run.processes[0].steps.emplace_back();
            step.begin_ns = begin_ns;
            step.end_ns = begin_ns += length_ns;
        }
        const titan::analyzer::WaitGraph graph =
            titan::analyzer::build_wait_graph(run, titan::analyzer::SiblingEdits(run));
        REQUIRE(graph.nodes.size() == 1);
        return titan::analyzer::hang_after_ns(run, graph.nodes.front(), {});
    };
    constexpr int64_t kMinuteNs = 60'000'000'000;
    CHECK(limit_ns("peer", {}) == 1'000'000'000);
    CHECK(limit_ns("peer", {10 * kMinuteNs}) == 1'000'000'000);  // it compiles
    CHECK(limit_ns("signal", {}) == 4'500'000'000);              // it was asked: half of its own limit
    CHECK(limit_ns("signal", {10 * kMinuteNs, kMinuteNs, 2 * kMinuteNs}) == kMinuteNs);
    CHECK(limit_ns("timeout", {kMinuteNs, kMinuteNs}) < kMinuteNs);
}

TEST_CASE("a launch row that a later launch took over tells nothing") {
    Scenario job(2, watched(GpuProgressMethod::kWrites));
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
    Scenario job(4, watched(GpuProgressMethod::kWrites));
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
    CHECK(says(finding.summary.text(), "all members, have started all_reduce #0 on world on the GPU"));
    CHECK(mentions(finding, "rank 2: proxy send to rank 3 on channel 1: waits for the network, 5 of 8 steps done"));
    CHECK(mentions(finding, "rank 2: the kernel on channel 1 has started and not stopped"));
}

TEST_CASE("of many channels that wait six lines are told, and how many more there are") {
    Scenario job(4, watched(GpuProgressMethod::kWrites));
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.program(0).nth_call("world", 0).never_finishes = true;
    job.play();
    for (int rank = 0; rank < 4; ++rank) {
        for (const ChannelRole role : {ChannelRole::kProxySend, ChannelRole::kProxyRecv}) {
            auto& proxy = job.ring(rank).add_channel(0, role);
            proxy.peer = (rank + 1) % 4;
            proxy.state = ChannelState::kWaitsForNetwork;
        }
    }
    const Diagnosis diagnosis = titan::analyzer::diagnose(run_of(job));
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(mentions(diagnosis.findings[0], "rank 2: proxy "));
    CHECK_FALSE(mentions(diagnosis.findings[0], "rank 3: proxy "));
    CHECK(mentions(diagnosis.findings[0], "and 2 more lines on channels (titan-analyze show --channels)"));
}

TEST_CASE("what NCCL chose for a call that hangs is compared between its members, in digests, too") {
    Scenario job(4, watched(GpuProgressMethod::kWrites));
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.program(0).nth_call("world", 0).never_finishes = true;
    job.play();
    for (int rank = 0; rank < 4; ++rank) {
        auto& call = job.ring(rank).call(0);
        call.channels = 8;
        call.algorithm = rank == 3 ? titan::format::Algorithm::kTree : titan::format::Algorithm::kRing;
        call.protocol = titan::format::Protocol::kSimple;
    }
    const Played played = titan::test::judged([&] { return titan::test::records_of(job, {}, "timeout"); });
    const std::vector<Finding>& findings = played.diagnosis.findings;
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].kind == FindingKind::kStuckInFlight);
    CHECK(findings[1].kind == FindingKind::kConfigDiffers);
    CHECK(findings[1].ranks == std::vector{3});
    CHECK(findings[1].summary.text() ==
          "NCCL's algorithm for all_reduce #0 on world is tree on rank 3, and ring on ranks 0-2");
}

TEST_CASE("a GPU that is stuck before its first call is known by the starts that the others show") {
    Scenario job(4, watched(GpuProgressMethod::kEvents));
    job.program(3).hanging_kernel("bad", 0x51);
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.play();
    for (int rank = 0; rank < 3; ++rank) {
        job.ring(rank).call(0).state = CallState::kStarted;
        job.ring(rank).call(0).gpu_started_ticks = job.ring(rank).call(0).entered_ticks + 1000;
    }
    const Played played = titan::test::judged([&] { return titan::test::records_of(job, {}, "timeout"); });
    CHECK(played.diagnosis.findings[0].kind == FindingKind::kGpuQueueBlocked);
    CHECK(played.diagnosis.findings[0].ranks == std::vector{3});
}

TEST_CASE("a job that replays its steps is healthy, and its calls have numbers") {
    Scenario job(4, watched(GpuProgressMethod::kWrites));
    write_replays(job, 6, 3);
    const Played played = play(job);
    CHECK(played.healthy());
    const auto& process = played.run.processes[0];
    CHECK(process.members[0].issued == 1 + 5 * 3 + 1);
    CHECK(process.entries[1].captured);
    CHECK(process.entries[4].replay == 1);
    CHECK(process.entries[4].graph == 5);
}

TEST_CASE("a host whose launch does not come back waits for its stream, one that has just begun one does not") {
    for (const uint64_t launches_for_ms : {15'000, 200}) {
        Scenario job(2, watched(GpuProgressMethod::kWrites));
        job.every_rank([](int rank, Program& program) {
            program.all_reduce("world").sync();
            rank == 1 ? program.hanging_kernel("_Z4spinv", kCompute).sleep() : program.all_reduce("world").sync();
        });
        job.play();
        auto& ring = job.ring(1);
        auto& thread = ring.add_thread(static_cast<uint32_t>(ring.header().pid) + 1);
        thread.call = ring.text("cudaLaunchKernel");
        thread.object = kCompute;
        thread.entered_ticks = job.now_ticks(1) - launches_for_ms * titan::synth::kSecond / 1000;
        ring.call(0).thread = thread.thread;
        const Diagnosis diagnosis = titan::analyzer::diagnose(run_of(job));
        REQUIRE(diagnosis.findings.size() == 1);
        CHECK(diagnosis.findings[0].ranks == ranks({1}));
        const std::string& state = diagnosis.findings[0].rank_state.at(1);
        if (launches_for_ms == 200) {
            CHECK(says(state, "inside cudaLaunchKernel for 200 ms"));
            CHECK_FALSE(says(state, "waiting for kernel spin"));
        } else {
            CHECK(says(state, "inside cudaLaunchKernel for 15.0 s, waiting for kernel spin"));
        }
    }
}

TEST_CASE("a dead rank saw no more completions: it is missing in the next call, not in the last") {
    Scenario job(4);
    titan::synth::write_training(job, 5);
    Program end;
    end.sync().die();
    job.program(2).insert_before("world", 3, end);
    job.play();
    for (uint64_t ticket = 5; ticket < job.ring(2).next_ticket(); ++ticket) {
        job.ring(2).call(ticket).state = CallState::kPending;
        job.ring(2).call(ticket).gpu_finished_ticks = 0;
    }
    for (uint32_t row = 0; row < 3; ++row) {
        job.ring(2).communicator(row).finished = 0;
    }
    const Run run = run_of(job);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run);
    REQUIRE_FALSE(diagnosis.findings.empty());
    CHECK(diagnosis.findings[0].kind == FindingKind::kRankDead);
    CHECK(diagnosis.findings[0].ranks == ranks({2}));
    CHECK(run.communicators[diagnosis.findings[0].communicator].name == "world");
    CHECK(diagnosis.findings[0].sequence == 3);
}

TEST_CASE("after thousands of calls a rank that is one call behind the others of its role parts from nobody") {
    ScenarioOptions options = watched(GpuProgressMethod::kOff);
    options.collectives = 8192;
    for (const bool parts : {false, true}) {
        CAPTURE(parts);
        Scenario job(3, options);
        job.every_rank([&](int rank, Program& program) {
            for (int i = 0; i < 2050; ++i) {
                program.all_reduce("world").all_gather("world");
            }
            if (rank == 2) {
                parts ? program.all_gather("world") : program.all_reduce("world");
            } else {
                program.all_reduce("world").all_gather("world");
            }
        });
        job.play();
        const Run run = run_of(job);
        const titan::analyzer::SiblingEdits siblings(run);
        const auto& edits = siblings.all();
        REQUIRE(edits.size() == (parts ? 1 : 0));
        for (const auto& odd : edits) {
            CHECK(odd.process == 2);
            CHECK(odd.place == 4100);
            CHECK(odd.siblings == std::vector<int>{0, 1});
            CHECK(odd.instead.front().kind == titan::format::OpKind::kAllReduce);
        }
    }
}

TEST_CASE("what a rank used to call somewhere is told by its own past") {
    using titan::analyzer::Past;
    // A letter is a call, and its count.
    const auto process_of = [](const std::string& letters) {
        Process process;
        std::vector<uint32_t> calls;
        for (const char letter : letters) {
            auto& signatures = process.history.signatures;
            const auto known = std::find_if(signatures.begin(), signatures.end(),
                                            [&](const auto& call) { return call.count == uint64_t(letter); });
            calls.push_back(static_cast<uint32_t>(known - signatures.begin()));
            if (known == signatures.end()) {
                signatures.emplace_back().count = uint64_t(letter);
            }
        }
        process.history.calls.assign(calls);
        return process;
    };
    const auto next_of = [&](const std::string& letters) {
        const Process process = process_of(letters);
        const Past past = Past::of_thread(process, 0);
        const auto usual = past.usual(past.size());
        return usual ? static_cast<char>(past[*usual].count) : '?';
    };
    CHECK(next_of("ABCDABCDABCD") == 'A');
    CHECK(next_of("ABCDABCDABC") == 'D');
    CHECK(next_of("ABCDEFGH") == '?');

    // The last call's edit: what used to be there instead.
    const auto edit_of = [&](const std::string& letters) {
        const Process process = process_of(letters);
        const Past past = Past::of_thread(process, 0);
        std::string instead;
        if (const auto edit = past.edit_at(past.size() - 1)) {
            CHECK(edit->place == letters.size() - 1);
            for (const auto& call : edit->instead) {
                instead += static_cast<char>(call.count);
            }
        }
        return instead;
    };
    CHECK(edit_of("ABCDEABCDEABCDEABE") == "CD");  // two are missing
    CHECK(edit_of("ABCDEABCDEABCDEABX") == "CDEABCDE");
    CHECK(edit_of("ABCDEABCDEABCDEABC").empty());
    CHECK(edit_of("ABCXABCDABCXABCDABCX").empty());  // it alternates
    CHECK(edit_of("ABX").empty());

    // A call that is in the ring alone is in no history, and has no past.
    Process of_two_threads = process_of("ABCDABCD");
    of_two_threads.callers = {1, 2};
    CHECK(!titan::analyzer::own_edit(of_two_threads, titan::format::kNoIndex));
}

TEST_CASE("a late collective that has just ended on some ranks is not stuck on the others") {
    for (const bool noted : {true, false}) {
        Scenario job(4, watched(GpuProgressMethod::kWrites));
        for (int rank = 0; rank < 4; ++rank) {
            job.program(rank).all_reduce("world").sync().all_reduce("world").sync().all_reduce("world");
        }
        job.program(2).actions.back().never_finishes = true;
        job.play();
        for (const int rank : {0, 1, 3}) {
            auto& ring = job.ring(rank);
            auto& newest = ring.call(ring.next_ticket() - 1);
            newest.state = CallState::kFinished;
            newest.gpu_finished_ticks = noted ? newest.entered_ticks + 1'000'000 : 0;
        }
        Played played{run_of(job), {}};
        judge(played);
        CHECK(played.diagnosis.findings.empty() == !noted);
        CHECK((noted && played.head().kind == FindingKind::kStuckInFlight) == noted);
    }
}

namespace {

// A job in which the kernels of rank 2 are slow, with what its timing shows: to be changed by hand.
struct Straggling {
    Straggling() {
        titan::synth::TimedJob job(titan::test::with_slow_kernels(2));
        run = titan::test::run_of(job);
        timing = titan::analyzer::analyze_timing(run);
        std::erase_if(timing.ranks, [](const auto& rank) { return rank.rank != 2; });
    }
    std::vector<Finding> findings() const {
        titan::analyzer::Diagnosis found;
        titan::analyzer::Timing told = timing;
        titan::analyzer::add_timing_findings(run, told, {}, found);
        return found.findings;
    }
    Run run;
    titan::analyzer::Timing timing;
};

}  // namespace

TEST_CASE("a straggler is certain where it was late often enough and by more than others are at times") {
    Straggling job;
    titan::analyzer::RankTiming& late = job.timing.ranks.at(0);
    for (const auto& [hits, of_others, confidence] :
         {std::tuple{16, 0.25, Confidence::kCertain}, std::tuple{15, 0.25, Confidence::kLikely},
          std::tuple{16, 0.5, Confidence::kLikely}, std::tuple{16, 1.5, Confidence::kPossible}}) {
        CAPTURE(hits);
        CAPTURE(of_others);
        late.shape.hits = static_cast<size_t>(hits);
        late.others_ns = of_others * late.shape.typical_ns;
        const std::vector<Finding> findings = job.findings();
        REQUIRE(findings.size() == 1);
        CHECK(findings[0].ranks == std::vector<int>{2});
        CHECK(findings[0].confidence == confidence);
    }
}

TEST_CASE("of many ranks that are late the eight that cost most are told") {
    Straggling job;
    const titan::analyzer::RankTiming late = job.timing.ranks.at(0);
    job.timing.ranks.clear();
    for (int i = 0; i < 10; ++i) {
        titan::analyzer::RankTiming& one = job.timing.ranks.emplace_back(late);
        one.shape.first = static_cast<size_t>(3 * i);  // ranks of one host that are late since one time are one finding
        one.shape.cost_ns = 1e9 * (i + 1);
    }
    const std::vector<Finding> findings = job.findings();
    REQUIRE(findings.size() == 8);
    CHECK(findings[7].kind == FindingKind::kStraggler);
    CHECK(findings[7].since_ns == static_cast<int64_t>(job.timing.axes.at(late.axis).when_ns.at(6)));
}
