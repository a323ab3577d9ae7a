// Stragglers in timed Flight Recorder files: who waits least.
#include <doctest/doctest.h>

#include "findings_of.h"
#include "steps.h"
#include "timed_files.h"
#include "timing.h"

namespace {

using namespace titan;
using analyzer::Finding;
using test::FileJob;
using test::FileOptions;
using test::findings_of;

std::string summaries(const std::vector<Finding>& findings) {
    std::string all;
    for (const Finding& finding : findings) {
        all += finding.summary.text() + "\n";
    }
    return all;
}

}  // namespace

TEST_CASE("files: a slow GPU is named, its neighbours are not, whatever its hosts do") {
    for (const auto shape : {FileOptions::kFsdp, FileOptions::kHsdp, FileOptions::kTensorParallel}) {
        for (uint64_t seed = 1; seed <= 8; ++seed) {
            CAPTURE(shape);
            CAPTURE(seed);
            FileOptions options;
            options.shape = shape;
            options.seed = seed;
            options.slow_rank = static_cast<int>(seed) - 1;
            options.layers = seed % 2 == 0 ? 6 : 24;
            const auto findings = findings_of(FileJob(options).run());
            CAPTURE(summaries(findings));
            REQUIRE(findings.size() == 1);
            CHECK(findings.front().kind == analyzer::FindingKind::kStraggler);
            CHECK(findings.front().ranks == std::vector<int>{options.slow_rank});
            CHECK(findings.front().evidence.front().text().ends_with(" stretches of calls were compared"));
        }
    }
}

TEST_CASE("files: nobody is named where nobody is slow") {
    for (const auto shape : {FileOptions::kFsdp, FileOptions::kHsdp, FileOptions::kTensorParallel}) {
        for (uint64_t seed = 1; seed <= 10; ++seed) {
            CAPTURE(shape);
            CAPTURE(seed);
            FileOptions options;
            options.shape = shape;
            options.seed = seed;
            options.jitter = 0.05;
            CHECK(findings_of(FileJob(options).run()).empty());
        }
    }
}

TEST_CASE("files: what was not timed is not taken for having waited for nobody") {
    FileOptions options;
    FileJob job(options);
    for (auto& entry : job.dump(3).entries) {
        if (entry.collective_seq_id % 5 != 0) {
            entry.duration_ms = 0;
        }
    }
    CHECK(findings_of(job.run()).empty());
}

TEST_CASE("files: sure is who stands out of what others are late by") {
    FileOptions options;
    options.slow_rank = 2;
    const FileJob job(options);
    const analyzer::Run run = job.run();
    analyzer::Timing timing = analyzer::analyze_timing(run);
    const auto confidence = [](const analyzer::Run& of, analyzer::Timing told) {
        analyzer::Diagnosis found;
        analyzer::add_timing_findings(of, told, {}, found);
        REQUIRE(found.findings.size() == 1);
        return found.findings.front().confidence;
    };
    analyzer::RankTiming& slow = timing.ranks[2];
    CHECK(confidence(run, timing) == analyzer::Confidence::kCertain);
    slow.others_ns = slow.shape.typical_ns / 2;
    CHECK(confidence(run, timing) == analyzer::Confidence::kLikely);
    slow.others_ns = slow.shape.typical_ns * 2;
    CHECK(confidence(run, timing) == analyzer::Confidence::kPossible);

    // Others are late by half of it: with a rank's file missing that is too little.
    const analyzer::Run part = job.run({5});
    timing = analyzer::analyze_timing(part);
    CHECK(confidence(part, timing) == analyzer::Confidence::kCertain);
    timing.ranks[2].others_ns = timing.ranks[2].shape.typical_ns / 2;
    CHECK(confidence(part, timing) == analyzer::Confidence::kPossible);
}
