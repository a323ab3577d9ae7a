// Overcommitted hosts: what dumps tell of processors, what digests keep of it, and what it does to a straggler.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "digests.h"
#include "findings_of.h"
#include "load_run.h"
#include "overcommitted_hosts.h"
#include "temporary_directory.h"
#include "timing_job.h"

namespace {

using namespace titan;
using analyzer::Confidence;
using analyzer::Finding;
using test::findings_of;

constexpr uint64_t kSecond = 1'000'000'000;

synth::TimedOptions slow_rank_5() {
    synth::TimedOptions options;
    options.seed = 7;
    options.clock_offset_ms = 40;
    options.clock_drift_ppm = 30;
    options.fault.kind = synth::TimedFault::kSlowSpan;
    options.fault.rank = 5;
    options.fault.from_step = 20;
    return options;
}

analyzer::Processors delayed(uint64_t run_s, uint64_t delay_s, uint32_t load_cent = 0) {
    analyzer::Processors seen;
    seen.online = 16;
    seen.threads = 2;
    seen.load_cent[0] = load_cent;
    seen.run_ns = run_s * kSecond;
    seen.run_delay_ns = delay_s * kSecond;
    return seen;
}

bool tells(const Finding& finding, const std::string& part) {
    return std::any_of(finding.evidence.begin(), finding.evidence.end(),
                       [&](const auto& line) { return line.text().find(part) != std::string::npos; });
}

std::string warning_of(const std::string& path) {
    analyzer::LoadOptions options;
    options.paths = {path};
    const auto run = analyzer::load_run(options);
    REQUIRE(run);
    for (const analyzer::Warning& warning : run->warnings) {
        if (warning.kind == analyzer::WarningKind::kOvercommittedHost) {
            return warning.summary;
        }
    }
    return "";
}

}  // namespace

TEST_CASE("a straggler on an overcommitted host is possible at most") {
    synth::TimedJob job(slow_rank_5());
    analyzer::Run run = test::run_of(job);
    for (analyzer::Process& process : run.processes) {
        process.processors = delayed(100, 1);
    }
    const auto sound = findings_of(run);
    REQUIRE(sound.size() == 1);
    CHECK(sound.front().confidence == Confidence::kCertain);
    CHECK_FALSE(tells(sound.front(), "processors"));

    run.processes[6].processors = delayed(100, 60, 4000);  // a neighbour of rank 5
    const auto crowded = findings_of(run);
    REQUIRE(crowded.size() == 1);
    CHECK(crowded.front().confidence == Confidence::kPossible);
    CHECK(tells(crowded.front(), "are overcommitted: threads of rank 6 waited for a processor for 38%"));
    CHECK(tells(crowded.front(), "load average 40.0 on 16 processors"));

    run.processes[6].processors = delayed(100, 1);
    run.processes[0].processors = delayed(100, 60);  // of the other host
    CHECK(findings_of(run).front().confidence == Confidence::kCertain);
}

TEST_CASE("waits for a processor that all ranks have alike do not explain why one of them is slow") {
    constexpr int64_t kSecondNs = 1'000'000'000;
    analyzer::Run run;
    run.processes.resize(4);
    for (analyzer::Process& process : run.processes) {
        process.rank = static_cast<int>(&process - run.processes.data());
        process.started_ns = 1;
        process.now_ns = 2 * kSecondNs;
        process.processors = delayed(1, 0);
        process.processors.run_delay_ns = kSecondNs / 10;  // 5 % of its life
    }
    CHECK(!analyzer::explained_by_processors(run, {2}, 0.06));
    run.processes[2].processors.run_delay_ns = kSecondNs / 5;
    const std::optional<std::string> explained = analyzer::explained_by_processors(run, {2}, 0.06);
    REQUIRE(explained);
    CHECK(explained->starts_with("threads of rank 2 waited for a processor for 17% of the time"));
    CHECK(!analyzer::explained_by_processors(run, {2}, 0.3));
}

TEST_CASE("what is not on record of processors is said") {
    synth::TimedJob job(slow_rank_5());
    analyzer::Run run = test::run_of(job);
    CHECK(tells(findings_of(run).front(), "is not known: its records do not say"));
    for (analyzer::Process& process : run.processes) {
        process.source.is_ring = true;
    }
    CHECK(tells(findings_of(run).front(), "is not known: its rings were read; only dumps say it"));
}

TEST_CASE("a high load alone counts where the kernel tells no delays") {
    analyzer::Run run;
    run.processes.resize(1);
    run.processes.front().host = "node-1";
    analyzer::Processors& seen = run.processes.front().processors;
    seen = delayed(100, 1, 4000);
    CHECK(analyzer::overcommitted_hosts(run).empty());  // threads that wait for a disk, perhaps
    seen = delayed(100, 15, 4000);
    CHECK(analyzer::overcommitted_hosts(run).size() == 1);
    seen = delayed(0, 0, 4000);
    seen.threads = 0;
    CHECK(analyzer::overcommitted_hosts(run).size() == 1);
    seen.load_cent[0] = 1600;
    CHECK(analyzer::overcommitted_hosts(run).empty());
}

TEST_CASE("dumps tell of processors, digests keep it, and odd values are no harm") {
    const test::TemporaryDirectory directory;
    const std::string& place = directory.path;
    synth::TimedJob job(slow_rank_5());
    const auto write = [&](const std::string& processors) {
        std::string meta = synth::dump_meta(job.now_ticks(0), "signal", true, 0);
        meta.insert(1, "\"processors\":" + processors + ",");
        synth::write_file(place + "/dumps/timed/0/rank00000.0.titan", synth::make_dump(job.ring(0), meta));
    };
    write(R"({"online":16,"allowed":8,"quota":2.5,"load_1min":40.25,"load_5min":3,"threads":2,)"
          R"("run_ns":100000000000,"run_delay_ns":60000000000})");
    const std::string told = warning_of(place + "/dumps");
    CHECK(told.find("load average 40.2 on 16 processors, 8 of them for it, a cgroup quota of 2.50") !=
          std::string::npos);
    analyzer::DigestOptions options;
    options.load.paths = {place + "/dumps"};
    options.into = place + "/digests";
    REQUIRE(analyzer::write_digests(options));
    CHECK(warning_of(place + "/digests") == told);
    for (const char* odd : {"[]", "7", "{}", R"({"online":-1})", R"({"online":1e99,"load_1min":1e300,"threads":2})",
                            R"({"online":99999999999999999,"load_1min":"x","quota":-3,"run_ns":{}})"}) {
        write(odd);
        CHECK(warning_of(place + "/dumps").empty());
    }
    write(R"({"online":1,"threads":1,"run_ns":18446744073709551615,"run_delay_ns":18446744073709551615})");
    CHECK(warning_of(place + "/dumps").find("50%") != std::string::npos);
}
