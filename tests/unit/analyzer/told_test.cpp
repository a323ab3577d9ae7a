// What the program itself told, as evidence for a rank that is named.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "played.h"
#include "says.h"

using namespace titan::test;
using titan::analyzer::Sentence;
using titan::format::AttributeType;
using titan::format::MarkerEntry;
using titan::format::MarkerKind;
using titan::synth::RingBuilder;

namespace {

MarkerEntry& add(RingBuilder& ring, MarkerKind kind, const char* name, int64_t step) {
    MarkerEntry& marker = ring.add_marker(kind);
    marker.name = ring.text(name);
    marker.step = step;
    marker.ticks = titan::synth::kEpochTicks + titan::synth::kSecond;
    return marker;
}

void add_fact(RingBuilder& ring, uint32_t about, const char* key, int64_t value) {
    MarkerEntry& fact = add(ring, MarkerKind::kAttribute, key, 8);
    fact.span = about;
    fact.detail = static_cast<uint8_t>(AttributeType::kInteger);
    fact.value = static_cast<uint64_t>(value);
}

void add_fact(RingBuilder& ring, uint32_t about, const char* key, const char* value) {
    const uint32_t text = ring.text(value);
    MarkerEntry& fact = add(ring, MarkerKind::kAttribute, key, 8);
    fact.span = about;
    fact.detail = static_cast<uint8_t>(AttributeType::kText);
    fact.text = text;
}

void add_metric(RingBuilder& ring, const char* name, double value, int64_t step) {
    add(ring, MarkerKind::kMetric, name, step).value = std::bit_cast<uint64_t>(value);
}

bool any_says(const std::vector<Sentence>& lines, const std::string& part) {
    return std::any_of(lines.begin(), lines.end(), [&](const Sentence& line) { return says(line.text(), part); });
}

}  // namespace

TEST_CASE("the open span, the newest event and the newest metrics of a named rank, with what was told of them") {
    Scenario job = job_with_a_sleeper(4, 2);
    RingBuilder& ring = job.ring(2);
    const uint32_t caller = ring.call(ring.next_ticket() - 1).thread;
    auto& outer = ring.add_open_span("step", caller, titan::synth::kEpochTicks);
    const uint32_t inner = ring.add_open_span("forward", caller, outer.begin_ticks + titan::synth::kSecond).id;
    ring.add_open_span("loader", caller + 1, outer.begin_ticks + 2 * titan::synth::kSecond);
    add_fact(ring, inner, "microbatch", 3);
    add_fact(ring, inner, "microbatch", 4);
    add_fact(ring, inner, "kind", "train");
    for (const uint32_t id : {901U, 902U}) {
        add(ring, MarkerKind::kEvent, "checkpoint saved", 7).span = id;
        add_fact(ring, id, "bytes", id);
    }
    add_metric(ring, "loss", 2.5, 7);
    add_metric(ring, "loss", 2.25, 8);
    add_metric(ring, "tokens", 4096, 8);
    add_metric(ring, "accuracy", 0.5, 3);
    const std::vector<Sentence> evidence = titan::analyzer::diagnose(run_of(job), {}).findings.front().evidence;
    CHECK(any_says(evidence, "is in span forward (kind=train, microbatch=4), begun "));
    CHECK(any_says(evidence, "\"checkpoint saved\" (bytes=902) in step 7"));
    CHECK(any_says(evidence, " are of step 8: loss 2.25, tokens 4096"));
    CHECK_FALSE(any_says(evidence, "accuracy"));
}

TEST_CASE("where nothing was told, nothing is said") {
    Scenario job = job_with_a_sleeper(4, 2);
    const std::vector<Sentence> evidence = titan::analyzer::diagnose(run_of(job), {}).findings.front().evidence;
    CHECK_FALSE(any_says(evidence, "is in span"));
    CHECK_FALSE(any_says(evidence, "newest metrics"));
}

namespace {

// The findings on the loss of a job in which rank 1 tells these values, and dies after them or not.
std::vector<Finding> findings_on_loss(const std::vector<double>& values, bool dies) {
    Scenario job(4, {});
    titan::synth::write_training(job, 6);
    if (dies) {
        Program die;
        die.die();
        job.program(1).insert_before("world", 5, die);
    }
    job.play();
    for (size_t step = 0; step < values.size(); ++step) {
        add_metric(job.ring(1), "loss", values[step], static_cast<int64_t>(step));
    }
    std::vector<Finding> findings = titan::analyzer::diagnose(run_of(job), {}).findings;
    std::erase_if(findings, [](const Finding& finding) { return finding.kind != FindingKind::kMetricNotFinite; });
    return findings;
}

}  // namespace

TEST_CASE("one value that is no number may be meant, two are told, and one is where the rank is gone") {
    const double nan = std::nan("");
    CHECK(findings_on_loss({2.5, 2.25}, false).empty());
    CHECK(findings_on_loss({2.5, nan}, false).empty());
    CHECK(findings_on_loss({2.5, nan, nan, 2.25}, false).empty());
    for (const bool dies : {false, true}) {
        const std::vector<Finding> found = findings_on_loss({2.5, nan, nan}, dies);
        REQUIRE(found.size() == 1);
        CHECK(found[0].ranks == std::vector<int>{1});
        CHECK(says(found[0].summary.text(), "metric loss is nan on rank 1"));
        CHECK(says(found[0].summary.text(), " since step 1"));
    }
    CHECK(findings_on_loss({2.5, nan}, true).size() == 1);
}
