// Writes the dumps of an invented job: titan-synth DIR --ranks 8 --steps 20 --fault sleep --rank 3 --at 41.
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>

#include "host/command_line.h"
#include "host/program.h"
#include "jobs.h"
#include "random_job.h"
#include "timed_job.h"

namespace {

using namespace titan::synth;

struct Options {
    std::string directory;
    int ranks = 8;
    int steps = 20;
    std::string fault = "sleep";
    int rank = 3;
    size_t at = 10;
    ScenarioOptions scenario;
};

// A metric of each rank, which is no number from some step on: of the guilty rank one step before that of the others.
void report_loss(Scenario& job, const Options& options) {
    constexpr int kSteps = 12;
    constexpr int kFirstBad = 8;
    for (int rank = 0; rank < options.ranks; ++rank) {
        RingBuilder& ring = job.ring(rank);
        for (int step = 0; step < kSteps; ++step) {
            const bool bad = step >= kFirstBad - (rank == options.rank ? 1 : 0);
            auto& marker = ring.add_marker(titan::format::MarkerKind::kMetric);
            marker.name = ring.text("loss");
            marker.step = step;
            marker.ticks = kEpochTicks + static_cast<uint64_t>(step + 1) * kSecond;
            marker.value = std::bit_cast<uint64_t>(bad ? std::nan("") : 2.5 - 0.1 * step);
        }
    }
}

// The GPU of the guilty rank gets hot in step 8.
void report_health(Scenario& job, const Options& options) {
    constexpr int kHotStep = 8;
    constexpr uint64_t kTooHot = 0x40;
    for (int rank = 0; rank < options.ranks; ++rank) {
        RingBuilder& ring = job.ring(rank);
        const bool hot = rank == options.rank;
        const auto read = [&](const char* what, double value, double first_value) {
            auto& entry = ring.add_reading(std::string("gpu.0.") + what, value, first_value, kEpochTicks + kSecond);
            entry.since_step = value == first_value ? titan::format::kNoStep : kHotStep;
        };
        read("utilization_percent", 100, 100);
        read("power_w", hot ? 310 : 640, 640);
        read("power_limit_w", 700, 700);
        read("temperature_c", hot ? 93 : 61, 61);
        read("sm_clock_mhz", hot ? 810 : 1755, 1755);
        read("clock_limits", hot ? kTooHot : 0, 0);
    }
}

// The program of the guilty rank reads where it may not, in step 8.
void report_page_fault(Scenario& job, const Options& options) {
    auto& entry = job.ring(options.rank).add_reading("gpu.0.xid_31", 1, 1, kEpochTicks + kSecond);
    entry.since_step = 8;
}

// Faults are planted before the `at`-th call of the rank on the world communicator.
bool plant(Scenario& job, const Options& options) {
    Program& program = job.program(options.rank);
    const std::string& fault = options.fault;
    if (fault == "none" || fault == "nan" || fault == "hot" || fault == "page") {
        return true;
    }
    if (fault == "sleep" || fault == "die" || fault == "crash" || fault == "exit") {
        Program what;
        fault == "sleep" ? what.sleep() : fault == "die" ? what.die() : fault == "crash" ? what.crash() : what.exit();
        program.insert_before("world", options.at, what);
        return true;
    }
    if (fault == "gpu") {
        program.insert_before("world", options.at,
                              Program().kernel("_Z4gemmPf", 7).record(3, 7).wait(3, 0x51).hanging_kernel("_Z4spinv"));
        return true;
    }
    if (fault == "kernel") {
        const char* const all_reduce = "_ZN4vllm26cross_device_reduce_1stageIfLi8EEEvPNS_8RankDataE";
        for (int rank = 0; rank < options.ranks; ++rank) {
            const bool guilty = rank == options.rank;
            job.program(rank).insert_before("world", options.at,
                                            guilty ? Program().sleep() : Program().hanging_kernel(all_reduce).sync());
            job.program(rank).insert_before("world", options.at - 1, Program().kernel(all_reduce));
        }
        return true;
    }
    Action& call = program.nth_call("world", options.at);
    if (fault == "skip") {
        program.skip("world", options.at);
    } else if (fault == "op") {
        call.op = OpKind::kAllReduce;
    } else if (fault == "size") {
        call.count /= 2;
    } else if (fault == "dtype") {
        call.datatype = Datatype::kBfloat16;
    } else if (fault == "stuck") {
        call.never_finishes = true;
    } else {
        return false;
    }
    return true;
}

// Many ranks, one communicator, played by hand: the simulation is quadratic in ranks and not needed for a benchmark.
void write_large(const Options& options, int calls) {
    for (int rank = 0; rank < options.ranks; ++rank) {
        RingSpec spec;
        spec.rank = rank;
        spec.world_size = options.ranks;
        spec.run = options.scenario.run;
        spec.pid = 1000 + rank;
        spec.collectives = 16384;
        spec.p2p_bytes = 1 << 20;
        spec.host = "node-" + std::to_string(rank / 8);
        RingBuilder ring(spec);
        const uint32_t world = ring.add_communicator(0xabc, options.ranks, rank, "world");
        const uint32_t group = ring.add_communicator(0x1000 + static_cast<uint64_t>(rank / 8), 8, rank % 8,
                                                     "tp:" + std::to_string(rank / 8));
        const bool late = rank == options.rank && options.fault == "sleep";
        for (int i = 0; i < (late ? calls - 1 : calls); ++i) {
            const uint32_t row = i % 4 == 3 ? world : group;
            ring.header().step = i / 16;
            auto& entry = ring.add_call(row, OpKind::kAllReduce);
            auto& record = ring.communicator(row);
            entry.sequence = record.next_sequence++;
            entry.count = 1024U << (i % 7);
            entry.datatype = Datatype::kBfloat16;
            entry.reduction = Reduction::kSum;
            entry.entered_ticks =
                kEpochTicks + static_cast<uint64_t>(i) * 1'000'000 + static_cast<uint64_t>(rank) * 131;
            entry.returned_ticks =
                entry.entered_ticks + 7000 + static_cast<uint64_t>((rank * 7919 + i * 104729) % 9973);
            entry.gpu_finished_ticks =
                entry.returned_ticks + 300'000 + static_cast<uint64_t>((rank * 31 + i * 17) % 1009);
            entry.send_buffer = 0x7f0000000000 + static_cast<uint64_t>(i % 64) * 65536;
            entry.receive_buffer = entry.send_buffer;
            if (i + 1 == calls && options.fault == "sleep") {
                entry.state = titan::format::CallState::kPending;
                entry.gpu_finished_ticks = 0;
            } else {
                record.finished = record.next_sequence;
            }
        }
        auto& thread = ring.add_thread(static_cast<uint32_t>(spec.pid));
        thread.last_call = ring.text("ncclAllReduce");
        thread.last_call_ticks = kEpochTicks + static_cast<uint64_t>(calls) * 1'000'000;
        const uint64_t now = kEpochTicks + static_cast<uint64_t>(calls) * 1'000'000 + 20 * kSecond;
        char name[48];
        std::snprintf(name, sizeof(name), "/%s/0/rank%05d.0.titan", spec.run.c_str(), rank);
        write_file(options.directory + name, make_dump(ring, dump_meta(now, "timeout", true)));
    }
}

// "span", "kernels", "copy", "sync", "link", "collective", or "none".
bool set_timed_fault(const Options& options, TimedFault& fault) {
    const std::pair<const char*, TimedFault::Kind> kinds[] = {{"none", TimedFault::kNone},
                                                              {"span", TimedFault::kSlowSpan},
                                                              {"kernels", TimedFault::kSlowKernels},
                                                              {"copy", TimedFault::kSlowCopy},
                                                              {"sync", TimedFault::kSlowSync},
                                                              {"link", TimedFault::kSlowLink},
                                                              {"collective", TimedFault::kSlowCollective}};
    for (const auto& [name, kind] : kinds) {
        if (options.fault == name) {
            fault.kind = kind;
            fault.rank = options.rank;
            fault.from_step = static_cast<int>(options.at);
            return true;
        }
    }
    return false;
}

// A random small job with that fault; the first seed from `seed` on that makes one of it.
int write_random(const std::string& directory, const std::string& fault, uint64_t seed) {
    for (uint64_t tried = seed; tried < seed + 64; ++tried) {
        RandomRun run = random_faulty_run(tried);
        if (run.fault_name == fault) {
            run.job->play();
            run.job->write(directory, run.without);
            std::printf("%s\n", run.story.c_str());
            return 0;
        }
    }
    std::fprintf(stderr, "titan-synth: no such random fault\n");
    return 2;
}

int run_command_line(int argc, char** argv) {
    titan::CommandLine app("titan-synth", TITAN_VERSION, "Writes the dumps of an invented training job, with a fault.",
                           "");
    Options options;
    int large_calls = 0;
    app.option("DIR", options.directory, "dump directory to write").required();
    app.option("--ranks", options.ranks, "of the job").between(1, 65536);
    app.option("--steps", options.steps, "of the job");
    app.option("--fault", options.fault,
               "none, sleep, die, crash, exit, skip, op, size, dtype, stuck, gpu, kernel, nan, hot, page");
    app.option("--rank", options.rank, "the guilty rank");
    app.option("--at", options.at, "its n-th call on the world communicator");
    app.option("--odd-setting", options.scenario.odd_setting, "this rank has another NCCL_ALGO than the others");
    app.option("--run", options.scenario.run, "its name");
    app.option("--large", large_calls, "no simulation: this many calls on every rank (faults: none, sleep)");
    bool timed = false;
    TimedOptions timed_options;
    std::string pattern = "persistent";
    app.flag("--timed", timed,
             "a job in time, with clocks, noise and a slow part; faults: none, span, kernels, copy, sync, link, "
             "collective; --at is the step");
    app.option("--hosts", timed_options.hosts, "timed: hosts; --ranks must be a multiple").between(1, 8192);
    app.option("--tp", timed_options.tp, "timed: ranks of a tensor parallel group");
    app.option("--dp-hosts", timed_options.dp_hosts, "timed: hosts that a data parallel group spans (0: all)");
    app.option("--step-ms", timed_options.step_ms, "timed: length of a step");
    app.option("--seed", timed_options.seed, "timed: other noise; random: another job");
    app.option("--share", timed_options.fault.share,
               "timed: of a step that the fault takes; links, collectives: a factor");
    app.option("--host", timed_options.fault.host, "timed: the link from this host to the next one is slow");
    app.option("--pattern", pattern, "timed: persistent, periodic, once");
    app.option("--every", timed_options.fault.every, "timed: period in steps");
    app.option("--clock-ms", timed_options.clock_offset_ms, "timed: how far the hosts' clocks differ");
    app.option("--drift-ppm", timed_options.clock_drift_ppm, "timed: how far they drift apart");
    std::string random_fault;
    app.option("--random", random_fault, "a random job with one of the faults of random_job.h, such as p2p_cycle");
    bool mixed = false;
    app.flag("--mixed", mixed, "four ranks with a bit of everything in each, nothing else to choose");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (mixed) {
        mixed_job().write(options.directory);
        return 0;
    }
    if (timed) {
        timed_options.ranks_per_host = options.ranks / timed_options.hosts;
        timed_options.steps = options.steps;
        timed_options.run = options.scenario.run;
        timed_options.fault.pattern = pattern == "periodic" ? TimedFault::kPeriodic
                                      : pattern == "once"   ? TimedFault::kOneOff
                                                            : TimedFault::kPersistent;
        if (options.ranks % timed_options.hosts != 0 || timed_options.tp < 1 ||
            timed_options.ranks_per_host % timed_options.tp != 0 ||
            (timed_options.dp_hosts != 0 && timed_options.hosts % timed_options.dp_hosts != 0) ||
            !set_timed_fault(options, timed_options.fault)) {
            std::fprintf(stderr, "titan-synth: no such fault, or ranks, hosts, tp and dp-hosts do not divide\n");
            return 2;
        }
        TimedJob(timed_options).write(options.directory);
        return 0;
    }
    if (!random_fault.empty()) {
        return write_random(options.directory, random_fault, app.given("--seed") ? timed_options.seed : 0);
    }
    if (large_calls > 0) {
        write_large(options, large_calls);
        return 0;
    }
    options.scenario.collectives = 1024;
    if (options.fault == "gpu") {
        options.scenario.method = titan::format::GpuProgressMethod::kWrites;
    }
    Scenario job(options.ranks, options.scenario);
    write_training(job, options.steps);
    if (options.rank < 0 || options.rank >= options.ranks || !plant(job, options)) {
        std::fprintf(stderr, "titan-synth: no such fault or rank\n");
        return 2;
    }
    job.play();
    if (options.fault == "nan") {
        report_loss(job, options);
    }
    if (options.fault == "hot") {
        report_health(job, options);
    }
    if (options.fault == "page") {
        report_page_fault(job, options);
    }
    if (options.fault == "gpu") {
        auto& channel = job.ring(0).add_channel(0, titan::format::ChannelRole::kProxySend);
        channel.steps = 4;
        channel.state = titan::format::ChannelState::kWaitsForPeer;
    }
    job.write(options.directory);
    return 0;
}

}  // namespace

int main(int argc, char** argv) { return titan::run_program("titan-synth", run_command_line, argc, argv); }
