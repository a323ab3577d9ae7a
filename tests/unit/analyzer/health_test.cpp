// What the readings of GPUs and network ports become: findings of their own, and evidence for a rank that is named.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "health_of.h"
#include "played.h"
#include "says.h"
#include "timing_job.h"

using namespace titan::test;
using titan::synth::kEpochTicks;
using titan::synth::kSecond;
using titan::synth::write_training;

namespace {

void read(Scenario& job, int rank, const char* name, double value, double first_value, int64_t since_step = 8) {
    job.ring(rank).add_reading(name, value, first_value, kEpochTicks + kSecond).since_step =
        value == first_value ? titan::format::kNoStep : since_step;
}

struct Said {
    std::vector<std::string> faults;     // hardware_fault
    std::vector<std::string> errors;     // gpu_error
    std::vector<Confidence> confidence;  // of all of these
    std::vector<std::vector<int>> ranks;
    std::vector<std::string> evidence;  // of the first finding that hangs
};

// Its kernels are slow from step 15 on.
titan::synth::TimedOptions slow_rank_2() {
    titan::synth::TimedOptions options;
    options.hosts = 2;
    options.fault.kind = titan::synth::TimedFault::kSlowKernels;
    options.fault.rank = 2;
    options.fault.from_step = 15;
    options.fault.share = 0.4;
    return options;
}

Said said_of(Scenario& job) {
    const Run run = run_of(job);
    Said said;
    for (const Finding& finding : titan::analyzer::diagnose(run, {}).findings) {
        const bool is_fault = finding.kind == FindingKind::kHardwareFault;
        if (is_fault || finding.kind == FindingKind::kGpuError) {
            (is_fault ? said.faults : said.errors).push_back(finding.summary.text());
            said.confidence.push_back(finding.confidence);
            said.ranks.push_back(finding.ranks);
        } else if (finding.hangs && said.evidence.empty()) {
            said.evidence = titan::analyzer::texts_of(finding.evidence);
        }
    }
    return said;
}

bool any_says(const std::vector<std::string>& lines, const std::string& part) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return says(line, part); });
}

}  // namespace

TEST_CASE("ports: a link that went down and counters that grew, told once for the host's ranks") {
    Scenario job = job_with_a_sleeper(4, 2);
    read(job, 0, "port.mlx5_3/1.state", 1, 4, 9);
    read(job, 0, "port.mlx5_3/1.symbol_error", 4005, 5);
    read(job, 0, "port.mlx5_4/1.symbol_error", 105, 5);  // a few come on a sound link, too
    read(job, 0, "port.mlx5_5/1.state", 1, 1);           // never in use
    read(job, 0, "port.mlx5_6/1.link_downed", 7, 7);     // before the job
    const Said said = said_of(job);
    REQUIRE(said.faults.size() == 2);
    CHECK(any_says(said.faults,
                   "port mlx5_3/1 of host node-0 has counted 4,000 symbol_error since the process began, "
                   "the last in step 8"));
    CHECK(any_says(said.faults, "port mlx5_3/1 of host node-0 is not active any more since step 9"));
    CHECK(said.ranks[0] == std::vector<int>{0, 1, 2, 3});
    CHECK(any_says(said.evidence, "port mlx5_3/1 of host node-0 is not active any more"));
}

TEST_CASE("a GPU that spins and waits, one that computes, one where nothing runs") {
    for (const auto& [busy, watts, words] :
         {std::tuple{100, 118, "100 % busy at 118 W of 400 W: a kernel that waits rather than computes"},
          std::tuple{100, 380, "100 % busy at 380 W of 400 W"},
          std::tuple{0, 60, "0 % busy at 60 W of 400 W: nothing runs there"},
          std::tuple{50, 90, "50 % busy at 90 W of 400 W"}}) {
        Scenario job = job_with_a_sleeper(4, 2);
        read(job, 2, "gpu.0.utilization_percent", busy, busy);
        read(job, 2, "gpu.0.power_w", watts, watts);
        read(job, 2, "gpu.0.power_limit_w", 400, 400);
        const Said said = said_of(job);
        CHECK(said.faults.empty());
        CHECK_MESSAGE(any_says(said.evidence, std::string("GPU 0 of rank 2: ") + words), said.evidence[0]);
    }
}

TEST_CASE("the same fault on several GPUs is one finding, and its first is named") {
    Scenario job(4, {});
    write_training(job, 20);
    job.play();
    for (int rank = 0; rank < 4; ++rank) {
        read(job, rank, "gpu.0.clock_limits", rank == 0 ? 4 : 0x40 + 4, 4);  // 4: its power limit, which is no fault
    }
    const Said said = said_of(job);
    REQUIRE(said.faults.size() == 1);
    CHECK(says(said.faults[0], "is throttled (too hot (hardware)) since step 8; 2 others likewise"));
    CHECK(said.ranks[0] == std::vector<int>{1, 2, 3});
}

TEST_CASE("of the same fault on many GPUs four are told, and how many there are") {
    Scenario job(7, {});
    job.every_rank([](int, titan::synth::Program& program) { program.all_reduce("world").sync(); });
    job.play();
    for (int rank = 0; rank < 7; ++rank) {
        read(job, rank, "gpu.0.clock_limits", 0x40, 0);
    }
    const Diagnosis diagnosis = titan::analyzer::diagnose(run_of(job), {});
    REQUIRE(diagnosis.findings.size() == 1);
    const Finding& finding = diagnosis.findings.front();
    CHECK(says(finding.summary.text(), "GPU 0 of rank 0 on host node-0 is throttled"));
    CHECK(says(finding.summary.text(), "; 6 others likewise"));
    CHECK(finding.ranks.size() == 7);
    const std::vector<std::string> evidence = titan::analyzer::texts_of(finding.evidence);
    CHECK(any_says(evidence, "GPU 0 of rank 3 on host node-0 is throttled"));
    CHECK_FALSE(any_says(evidence, "GPU 0 of rank 4 "));
}

TEST_CASE("the GPU of a straggler is told, and why it is slow") {
    titan::synth::TimedJob job(slow_rank_2());
    const auto add = [&](const char* name, double value, double first_value) {
        job.ring(2).add_reading(name, value, first_value, kEpochTicks + kSecond).since_step = 15;
    };
    add("gpu.0.clock_limits", 0x40, 0);
    add("gpu.0.utilization_percent", 100, 100);
    add("gpu.0.sm_clock_mhz", 810, 1755);
    add("gpu.0.max_sm_clock_mhz", 1980, 1980);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run_of(job), {});
    REQUIRE(!diagnosis.findings.empty());
    const Finding& head = diagnosis.findings.front();
    CHECK(head.kind == FindingKind::kStraggler);
    CHECK(head.ranks == std::vector<int>{2});
    const std::vector<std::string> evidence = titan::analyzer::texts_of(head.evidence);
    CHECK(any_says(evidence, "GPU 0 of rank 2"));
    CHECK(any_says(evidence, "100 % busy, 810 of 1980 MHz"));
    CHECK(any_says(evidence, "is throttled (too hot (hardware)) since step 15"));
}

TEST_CASE("readings that cannot be are none") {
    Scenario job(4, {});
    write_training(job, 20);
    job.play();
    for (const double value : {std::nan(""), -1.0, 1e300, HUGE_VAL}) {
        read(job, 0, "gpu.0.xid_79", value, value);
        read(job, 0, "gpu.0.clock_limits", value, value);
        read(job, 0, "gpu.0.power_w", value, value);
        read(job, 0, "gpu.0.utilization_percent", value, value);
    }
    read(job, 0, "gpu", 1, 0);
    read(job, 0, "", 1, 0);
    read(job, 0, "...", 1, 0);
    for (const char* name : {"gpu.0.xid_", "gpu.0.xid_7x", "gpu.0.xid_-79", "gpu.0.xid_99999999999"}) {
        read(job, 0, name, 1, 1);
    }
    CHECK(said_of(job).faults.empty());
    CHECK(said_of(job).errors.empty());
}

namespace {

// A training of 20 steps in which nothing hangs.
Scenario healthy_job(int ranks) {
    Scenario job(ranks, {});
    write_training(job, 20);
    job.play();
    return job;
}

// So often that Xid came, first in that step.
void xid(Scenario& job, int rank, const char* number, double times = 1, int64_t step = 8) {
    job.ring(rank).add_reading(std::string("gpu.0.xid_") + number, times, 1, kEpochTicks + kSecond).since_step = step;
}

}  // namespace

TEST_CASE("Xids of the hardware and of the driver are faults, those that a program may bring claim no broken GPU") {
    for (const auto& [number, is_fault, confidence, words] : {
             std::tuple{"79", true, Confidence::kCertain, "reported Xid 79 (the GPU has fallen off the bus) in step 8"},
             std::tuple{"74", true, Confidence::kCertain, "reported Xid 74 (NVLink error) in step 8"},
             std::tuple{"95", true, Confidence::kCertain, "reported Xid 95 (uncontained memory error) in step 8"},
             std::tuple{
                 "119", true, Confidence::kLikely,
                 "reported Xid 119 (GPU firmware does not answer) in step 8: a fault of the driver, of the GPU's "
                 "firmware or of the GPU"},
             std::tuple{
                 "31", false, Confidence::kLikely,
                 "reported Xid 31 (memory page fault) in step 8: usually a fault of the program, not of the GPU"},
             std::tuple{"109", false, Confidence::kPossible,
                        "reported Xid 109 (context switch timed out) in step 8: the program, the driver or the GPU may "
                        "be at fault"},
             std::tuple{"4711", false, Confidence::kPossible, "host node-0 reported Xid 4711 in step 8"},
         }) {
        Scenario job = healthy_job(4);
        xid(job, 3, number);
        const Said said = said_of(job);
        REQUIRE_MESSAGE(said.faults.size() == (is_fault ? 1 : 0), number);
        REQUIRE_MESSAGE(said.errors.size() == (is_fault ? 0 : 1), number);
        REQUIRE(said.confidence.size() == 1);
        CHECK_MESSAGE(said.confidence[0] == confidence, number);
        const std::string& summary = is_fault ? said.faults[0] : said.errors[0];
        CHECK_MESSAGE(summary.ends_with(words), summary);
    }
}

TEST_CASE("what follows a fault is not told as one, and what a broken GPU brings is not the program's") {
    Scenario job = healthy_job(4);
    xid(job, 1, "45", 12);
    xid(job, 3, "48");
    xid(job, 3, "13");
    const Said said = said_of(job);
    CHECK(said.errors.empty());
    REQUIRE(said.faults.size() == 1);
    CHECK(says(said.faults[0], "reported Xid 48 (double-bit memory error)"));
}

TEST_CASE("a hang has the Xids of the named rank as evidence, with how long before it they came") {
    Scenario job = job_with_a_sleeper(4, 2);
    xid(job, 2, "13");
    xid(job, 2, "45", 3);
    const Said said = said_of(job);
    CHECK(any_says(said.evidence, "reported Xid 13 (exception in a kernel) in step 8"));
    CHECK(any_says(said.evidence, "others began to wait: usually a fault of the program, not of the GPU"));
    CHECK(any_says(said.evidence,
                   "reported Xid 45 (work removed) 3 times since step 8: it follows another fault, or "
                   "the end of a process"));
}

TEST_CASE("faults of one kind are one finding, however many they count, and those of two kinds are two") {
    Scenario job = healthy_job(4);
    read(job, 0, "gpu.0.ecc_uncorrected", 1, 0);
    read(job, 1, "gpu.0.ecc_uncorrected", 2, 0);
    xid(job, 2, "4711");
    xid(job, 3, "4712", 2);
    const Said said = said_of(job);
    REQUIRE(said.faults.size() == 1);
    CHECK(says(said.faults[0],
               "on host node-0 has had 1 uncorrected memory error since the process began, the last in "
               "step 8; 1 other likewise"));
    CHECK(said.errors.size() == 2);
}

TEST_CASE("findings of faults are told in the order in which they came") {
    Scenario job = healthy_job(4);
    job.ring(0).add_reading("gpu.0.nvlinks_up", 17, 18, kEpochTicks + 3 * kSecond);
    job.ring(1).add_reading("gpu.0.ecc_uncorrected", 1, 0, kEpochTicks + 2 * kSecond);
    job.ring(2).add_reading("gpu.0.xid_79", 1, 1, kEpochTicks + kSecond);
    const Said said = said_of(job);
    REQUIRE(said.faults.size() == 3);
    CHECK(said.ranks == std::vector<std::vector<int>>{{2}, {1}, {0}});
}

namespace {

constexpr double kKills = 3;  // before the job

std::vector<std::string> evidence_of_death(const std::function<void(Scenario&)>& readings) {
    Scenario job(4, {});
    write_training(job, 4);
    Program die;
    die.die();
    job.program(3).insert_before("world", 2, die);
    job.play();
    readings(job);
    const Diagnosis diagnosis = titan::analyzer::diagnose(run_of(job), {});
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings[0].kind == FindingKind::kRankDead);
    return titan::analyzer::texts_of(diagnosis.findings[0].evidence);
}

}  // namespace

TEST_CASE("a rank that died while the OOM killer killed in its neighbours' group has that as evidence") {
    const auto evidence = evidence_of_death([](Scenario& job) {
        const uint64_t died = job.now_ticks(3);
        for (int rank = 0; rank < 3; ++rank) {
            job.ring(rank).add_reading("cgroup.oom_kills", kKills + 1, kKills, died + 4 * kSecond);
        }
    });
    CHECK(any_says(evidence, "the OOM killer killed a process in the control group of rank 0 on the same host, "));
    CHECK(any_says(evidence, "after the record of rank 3 ends"));
}

TEST_CASE("what the OOM killer killed before the job, at another time or on no known day is no evidence") {
    const auto evidence = evidence_of_death([](Scenario& job) {
        job.ring(0).add_reading("cgroup.oom_kills", kKills, kKills, job.now_ticks(3));
        job.ring(1).add_reading("cgroup.oom_kills", kKills + 1, kKills, job.now_ticks(3) + 3600 * kSecond);
        job.ring(2).add_reading("cgroup.memory_max", 7, 0, job.now_ticks(3));
    });
    CHECK_FALSE(any_says(evidence, "OOM"));
}

TEST_CASE("a rank that waits for a child that the OOM killer killed has that as evidence") {
    Scenario job = job_with_a_sleeper(4, 2);
    job.ring(2).add_reading("cgroup.oom_kills", kKills + 2, kKills, kEpochTicks + kSecond);
    const Said said = said_of(job);
    CHECK(any_says(said.evidence, "the OOM killer has killed 2 processes in the control group of rank 2, the last "));
    CHECK(any_says(said.evidence, "before the record of rank 2 ends"));
}

namespace {

// What is said of the CPUs of a straggler's host: the first half of the ranks is on one host, the other on another.
std::string said_of_cpus(double its_mhz, double others_mhz) {
    titan::synth::TimedJob job(slow_rank_2());
    for (int rank = 0; rank < job.size(); ++rank) {
        const double mhz = rank < job.size() / 2 ? its_mhz : others_mhz;
        job.ring(rank).add_reading("cpu.clock_mhz", mhz, mhz, kEpochTicks + kSecond);
        job.ring(rank).add_reading("cpu.max_clock_mhz", 3800, 3800, kEpochTicks + kSecond);
    }
    const Diagnosis diagnosis = titan::analyzer::diagnose(run_of(job), {});
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings[0].kind == FindingKind::kStraggler);
    for (const std::string& line : titan::analyzer::texts_of(diagnosis.findings[0].evidence)) {
        if (says(line, "the CPUs")) {
            return line;
        }
    }
    return {};
}

}  // namespace

TEST_CASE("a straggler on a host whose CPUs are slower than those of the others has that as evidence") {
    CHECK(said_of_cpus(1200, 3500) ==
          "the CPUs that the ranks of host node-0 run on have a clock of 1200 of 3800 MHz (median; lowest 1200), those "
          "of 1 other host have 3500 MHz");
    CHECK(said_of_cpus(1200, 1200).empty());
    CHECK(said_of_cpus(3500, 1200).empty());
    CHECK(said_of_cpus(3000, 3500).empty());
}

TEST_CASE("titan-top's line of the host: the clocks of its CPUs, and what the OOM killer killed") {
    Scenario job = healthy_job(4);
    CHECK(titan::analyzer::host_brief(run_of(job).processes).empty());
    for (int rank = 0; rank < 2; ++rank) {
        read(job, rank, "cpu.clock_mhz", 1200 + 2300 * rank, 1200);
        read(job, rank, "cpu.max_clock_mhz", 3800, 3800);
        read(job, rank, "cgroup.oom_kills", kKills + 2, kKills);
    }
    CHECK(titan::analyzer::host_brief(run_of(job).processes) ==
          "CPUs at 1200 to 3500 of 3800 MHz; 2 processes killed by the OOM killer");
}
