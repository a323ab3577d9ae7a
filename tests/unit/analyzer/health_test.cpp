// What readings of GPUs and hosts say of a straggler, and titan-top of the host. What they become is in
// verdicts/health.txt.
#include <doctest/doctest.h>

#include <optional>
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

namespace {

// The kernels of rank 2 are slow from step 15 on; the first half of the ranks is on one host, the other on another.
struct ReadStraggler {
    ReadStraggler() {
        titan::synth::TimedOptions options = with_slow_kernels(2);
        options.fault.from_step = 15;
        options.fault.share = 0.4;
        job.emplace(options);
    }
    void read(int rank, const char* name, double value, double first_value) {
        job->ring(rank).add_reading(name, value, first_value, kEpochTicks + kSecond).since_step = 15;
    }
    std::string evidence() {
        const Diagnosis diagnosis = titan::analyzer::diagnose(run_of(*job), {});
        REQUIRE(!diagnosis.findings.empty());
        CHECK(diagnosis.findings[0].kind == FindingKind::kStraggler);
        CHECK(diagnosis.findings[0].ranks == std::vector<int>{2});
        std::string lines;
        for (const std::string& line : titan::analyzer::texts_of(diagnosis.findings[0].evidence)) {
            lines += line + "\n";
        }
        return lines;
    }
    std::optional<titan::synth::TimedJob> job;
};

// What is said of the CPUs of the straggler's host.
std::string said_of_cpus(double its_mhz, double others_mhz) {
    ReadStraggler slow;
    for (int rank = 0; rank < slow.job->size(); ++rank) {
        const double mhz = rank < slow.job->size() / 2 ? its_mhz : others_mhz;
        slow.read(rank, "cpu.clock_mhz", mhz, mhz);
        slow.read(rank, "cpu.max_clock_mhz", 3800, 3800);
    }
    const std::string all = slow.evidence();
    const size_t begin = all.find("the CPUs");
    return begin == std::string::npos ? "" : all.substr(begin, all.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("the GPU of a straggler is told, and why it is slow") {
    ReadStraggler slow;
    slow.read(2, "gpu.0.clock_limits", 0x40, 0);
    slow.read(2, "gpu.0.utilization_percent", 100, 100);
    slow.read(2, "gpu.0.sm_clock_mhz", 810, 1755);
    slow.read(2, "gpu.0.max_sm_clock_mhz", 1980, 1980);
    const std::string evidence = slow.evidence();
    CHECK(says(evidence, "GPU 0 of rank 2"));
    CHECK(says(evidence, "100 % busy, 810 of 1980 MHz"));
    CHECK(says(evidence, "is throttled (too hot (hardware)) since step 15"));
}

TEST_CASE("a straggler on a host whose CPUs are slower than those of the others has that as evidence") {
    CHECK(said_of_cpus(1200, 3500) ==
          "the CPUs that the ranks of host node-0 run on have a clock of 1200 of 3800 MHz (median; lowest 1200), those "
          "of 1 other host have 3500 MHz");
    CHECK(said_of_cpus(1200, 1200).empty());
    CHECK(said_of_cpus(3500, 1200).empty());
    CHECK(said_of_cpus(3000, 3500).empty());
}

TEST_CASE("titan-top's line of the host: the clocks of its CPUs, and what the OOM killer killed") {
    Scenario job(4);
    titan::synth::write_training(job, 20);
    job.play();
    CHECK(titan::analyzer::host_brief(run_of(job).processes).empty());
    for (int rank = 0; rank < 2; ++rank) {
        for (const auto& [name, value, first] :
             {std::tuple{"cpu.clock_mhz", 1200 + 2300 * rank, 1200}, std::tuple{"cpu.max_clock_mhz", 3800, 3800},
              std::tuple{"cgroup.oom_kills", 5, 3}}) {
            job.ring(rank).add_reading(name, value, first, kEpochTicks + kSecond);
        }
    }
    CHECK(titan::analyzer::host_brief(run_of(job).processes) ==
          "CPUs at 1200 to 3500 of 3800 MHz; 2 processes killed by the OOM killer");
}
