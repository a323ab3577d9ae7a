// Stragglers in timed Flight Recorder files: who waits least.
#include <doctest/doctest.h>

#include "analyzer/stragglers.h"
#include "timed_files.h"

namespace {

using namespace titan;
using analyzer::Finding;
using test::FileJob;
using test::FileOptions;

std::vector<Finding> findings_of(const analyzer::Run& run) {
    std::vector<Finding> findings;
    analyzer::add_timing_findings(run, analyzer::analyze_timing(run), findings);
    return findings;
}

std::string summaries(const std::vector<Finding>& findings) {
    std::string all;
    for (const Finding& finding : findings) {
        all += finding.summary + "\n";
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
