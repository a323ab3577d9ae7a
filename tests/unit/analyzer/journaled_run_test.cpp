// Runs of which a journal is all that is left: how they ended, and what was slow.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "diagnose.h"
#include "goodput.h"
#include "journal_file.h"
#include "journals.h"
#include "late_ranks.h"
#include "load_run.h"
#include "rank_state.h"
#include "ring_builder.h"
#include "starts.h"
#include "temporary_directory.h"

using namespace titan;
using namespace titan::analyzer;

namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kSteps = 30;

// A rank that marks steps: it loads data, computes, and waits for the others in its optimizer.
struct JournaledRank {
    int rank = 0;
    int world_size = 2;
    uint64_t data_ms = 5;
    uint64_t compute_ms = 20;
    format::ProcessState state = format::ProcessState::kExited;
    int exit_status = 0;
    int bad_step = -1;  // in which its loss is no number
    uint64_t begins_s = 0;
    int pid = 0;
    std::string role{};
    int host = 0;
    format::GpuProgressMethod gpu = format::GpuProgressMethod::kOff;
    uint32_t gpu_sample = 1;
    uint64_t call_ms = 0;  // that its call of a step takes on the GPU, behind its computation; 0: it makes none
    OpKind call = OpKind::kAllReduce;
    // Which of its markers each block has, in hundredths of all: two, and one that tells the end alone.
    struct Block {
        size_t from, until;
        bool tells_end;
    };
    std::vector<Block> blocks{{0, 50, false}, {50, 100, false}, {100, 100, true}};
};

using Texts = std::vector<std::string>;

uint32_t id_of(Texts& texts, const std::string& text) {
    for (size_t i = 0; i < texts.size(); ++i) {
        if (texts[i] == text) {
            return static_cast<uint32_t>(i + 1);
        }
    }
    texts.push_back(text);
    return static_cast<uint32_t>(texts.size());
}

size_t copy_text(void* texts, uint32_t id, char* into, size_t capacity_bytes) {
    const std::string& text = static_cast<Texts*>(texts)->at(id - 1);
    return text.copy(into, capacity_bytes);
}

class MarkerList {
  public:
    explicit MarkerList(uint64_t begins_s) : now_(synth::kEpochTicks + begins_s * synth::kSecond) {}

    void add(format::MarkerKind kind, uint64_t value, const char* name = "", const char* text = "") {
        format::MarkerEntry marker{};
        marker.kind = kind;
        marker.value = value;
        marker.ticks = now_;
        marker.thread = 7;
        marker.step = step_;
        marker.name = *name == '\0' ? 0 : id_of(texts, name);
        marker.text = *text == '\0' ? 0 : id_of(texts, text);
        all.push_back(marker);
    }
    void step(uint64_t step) {
        step_ = static_cast<int64_t>(step);
        add(format::MarkerKind::kStep, step);
    }
    void span(const char* name, uint64_t until) {
        const uint64_t begun = now_;
        add(format::MarkerKind::kSpanBegin, 0, name);
        now_ = until;
        add(format::MarkerKind::kSpanEnd, begun, name);
    }
    uint64_t now() const { return now_; }

    std::vector<format::MarkerEntry> all;
    Texts texts;

  private:
    uint64_t now_;
    int64_t step_ = format::kNoStep;
};

// All ranks leave the optimizer when the last one has come to it.
void mark_steps(const JournaledRank& rank, uint64_t longest_ms, MarkerList& markers) {
    if (!rank.role.empty()) {
        markers.add(format::MarkerKind::kLabel, 0, "role", rank.role.c_str());
    }
    for (uint64_t step = 0; step < kSteps; ++step) {
        markers.step(step);
        const uint64_t begun = markers.now();
        markers.span("data_loading", begun + rank.data_ms * kMillisecond);
        markers.span("forward_backward", markers.now() + rank.compute_ms * kMillisecond);
        markers.span("optimizer", begun + (longest_ms + 1) * kMillisecond);
        const double loss = static_cast<int>(step) == rank.bad_step ? std::nan("") : 1.0;
        markers.add(format::MarkerKind::kMetric, std::bit_cast<uint64_t>(loss), "loss");
    }
}

// A call a step as a journal keeps it. One of 1 ms was over when somebody looked at the GPU.
std::vector<format::StepCalls> sums_of(const JournaledRank& rank, uint64_t longest_ms) {
    std::vector<format::StepCalls> sums;
    for (uint64_t step = 0; step < kSteps && rank.call_ms != 0; ++step) {
        format::StepCalls& sum = sums.emplace_back();
        sum.step = static_cast<int64_t>(step);
        sum.communicator_id = 0xd0;
        sum.kind = rank.call;
        sum.calls = 1;
        sum.timed_calls = rank.call_ms > 1 ? 1 : 0;
        sum.device_ticks = sum.timed_calls * rank.call_ms * kMillisecond;
        sum.first_ticks = synth::kEpochTicks + rank.begins_s * synth::kSecond +
                          (step * (longest_ms + 1) + rank.data_ms + rank.compute_ms) * kMillisecond;
    }
    return sums;
}

std::vector<std::byte> journal_of(const std::vector<JournaledRank>& ranks) {
    test::JournalFile file;
    uint64_t longest_ms = 0;
    for (const JournaledRank& rank : ranks) {
        longest_ms = std::max(longest_ms, rank.data_ms + rank.compute_ms + rank.call_ms);
    }
    for (const JournaledRank& rank : ranks) {
        synth::RingSpec spec;
        spec.rank = rank.rank;
        spec.world_size = rank.world_size;
        spec.pid = rank.pid != 0 ? rank.pid : 1000 + rank.rank;
        spec.host = "node-" + std::to_string(rank.host);
        spec.boot_id = std::to_string(rank.host) + "0000000-synthetic-boot";
        synth::RingBuilder ring(spec);
        MarkerList markers(rank.begins_s);
        mark_steps(rank, longest_ms, markers);
        ring.header().first_anchor.ticks += rank.begins_s * synth::kSecond;
        ring.header().first_anchor.realtime_ns += rank.begins_s * synth::kSecond;
        ring.header().last_anchor = ring.header().first_anchor;
        ring.header().step = kSteps - 1;
        ring.header().gpu_progress = rank.gpu;
        ring.header().gpu_progress_sample = rank.gpu_sample;
        ring.header().step_ticks = ring.header().heartbeat_ticks = markers.now();
        std::vector<format::StepCalls> calls = sums_of(rank, longest_ms);
        std::vector<format::StepSum> steps(calls.size());
        std::vector<format::StepCommunicator> communicators = {{0xd0, 2, id_of(markers.texts, "dp:0")}};
        for (size_t i = 0; i < calls.size(); ++i) {
            steps[i].step = calls[i].step;
            steps[i].calls = 1;
        }
        const format::MarkerWords words{&markers.texts, copy_text,
                                        [](void*, uint32_t) { return format::MarkerSiteRecord{}; }};
        for (const JournaledRank::Block& block : rank.blocks) {
            if (block.tells_end) {
                ring.header().state = rank.state;
                ring.header().exit_status_next = rank.state == format::ProcessState::kExited ? rank.exit_status + 1 : 0;
            }
            const size_t first = markers.all.size() * block.from / 100;
            std::vector<format::MarkerEntry> some(
                markers.all.begin() + static_cast<std::ptrdiff_t>(first),
                markers.all.begin() + static_cast<std::ptrdiff_t>(markers.all.size() * block.until / 100));
            const bool has_sums = block.from == 0 && !calls.empty();
            file.add_block(ring.header(), {first, some},
                           has_sums ? format::StepSums{0, kSteps, steps, calls, communicators} : format::StepSums{},
                           words);
        }
    }
    return file.bytes();
}

// `second`: what another file of the node has.
Run load(const std::vector<JournaledRank>& ranks, const std::string& role = "",
         const std::vector<JournaledRank>& second = {}) {
    const test::TemporaryDirectory place;
    synth::write_file(place.path + "/synth/0/node-0-00000000.0.journal", journal_of(ranks));
    if (!second.empty()) {
        synth::write_file(place.path + "/synth/0/node-0-00000000.1.journal", journal_of(second));
    }
    LoadOptions options;
    options.paths = {place.path};
    options.role = role;
    auto run = load_run(options);
    REQUIRE(run);
    return std::move(*run);
}

}  // namespace

TEST_CASE("a job that ended well says so, with its steps and the metric that was no number for a while") {
    const Run run = load({{.rank = 0, .bad_step = 20}, {.rank = 1}});
    const Diagnosis diagnosis = diagnose(run);
    CHECK(outcome_of(diagnosis) == Outcome::kNothingWrong);
    CHECK(diagnosis.ended ==
          "ended well after 30 steps, 2 of 2 ranks; 26 ms a step; metrics not finite: loss, rank 0, step 20");
}

TEST_CASE("whoever left no record is not said to have ended well") {
    Run run = load({{.rank = 0}, {.rank = 1}});
    run.world_size = 4;
    run.missing_ranks = {2, 3};
    CHECK(diagnose(run).ended ==
          "ranks 0-1 ended well after 30 steps, 2 of 4 ranks; no record of ranks 2-3; 26 ms a step");
}

TEST_CASE("a metric whose name found no room in the recorder") {
    Run run = load({{.rank = 0, .bad_step = 20}, {.rank = 1}});
    run.processes[0].metrics[0].name = 0;
    CHECK(diagnose(run).ended.ends_with("metrics not finite: (no name), rank 0, step 20"));
}

TEST_CASE("whoever loads data for long makes the others wait where they all leave a span at one time") {
    for (const int slow : {0, 1}) {
        std::vector<JournaledRank> ranks = {{.rank = 0}, {.rank = 1}};
        ranks[static_cast<size_t>(slow)].data_ms = 29;
        const Run run = load(ranks);
        const Diagnosis diagnosis = diagnose(run);
        CHECK(outcome_of(diagnosis) == Outcome::kNothingWrong);
        CHECK(diagnosis.slow == "24 ms of each step: waits for data on rank " + std::to_string(slow));
        CHECK(diagnosis.ended == "ended well after 30 steps, 2 of 2 ranks; 50 ms a step");
    }
}

TEST_CASE("where no GPU is on record, none is slow") {
    const Run run = load({{.rank = 0}, {.rank = 1, .compute_ms = 44}});
    CHECK(diagnose(run).slow.starts_with("24 ms of each step: the host of rank 1 is slow;"));
}

TEST_CASE("what a GPU may hide is no cause") {
    const Run run = load({{.rank = 0, .gpu = format::GpuProgressMethod::kWrites},
                          {.rank = 1, .data_ms = 29, .gpu = format::GpuProgressMethod::kWrites}});
    const Diagnosis diagnosis = diagnose(run);
    CHECK(diagnosis.findings.empty());
    CHECK(diagnosis.slow.empty());
    CHECK(!diagnosis.ended.empty());
}

JournaledRank with_call(JournaledRank rank, uint64_t call_ms, uint32_t gpu_sample = 1) {
    rank.gpu = format::GpuProgressMethod::kWrites;
    rank.call_ms = call_ms;
    rank.gpu_sample = gpu_sample;
    return rank;
}

// One cause, which costs 24 ms a step, to within what one of 29 steps costs.
void check_cause(const Run& run, const std::string& what) {
    const SlowCauses causes = slowness_of(run).causes;
    REQUIRE(causes.causes.size() == 1);
    CHECK(what_text(causes.causes.front()) == what);
    CHECK(causes.causes.front().cost_ns == doctest::Approx(24e6).epsilon(0.05));
    CHECK(diagnose(run).slow.ends_with(" ms of each step: " + what));
}

TEST_CASE("sums of calls show whom the others wait for") {
    // Its host comes late, on whatever clock.
    check_cause(load({with_call({.rank = 0}, 25), with_call({.rank = 1, .data_ms = 29}, 1)}),
                "waits for data on rank 1");
    check_cause(
        load({with_call({.rank = 0}, 25), with_call({.rank = 1, .data_ms = 29, .begins_s = 3 * 3600, .host = 1}, 1)}),
        "waits for data on rank 1");
    // Its GPU does: the shorter call may have taken 2 ms.
    const Run run = load({with_call({.rank = 0}, 25), with_call({.rank = 1}, 1)});
    check_cause(run, "the GPU of rank 1 is slow");
    const std::vector<std::string> missing = slowness_of(run).causes.missing;
    REQUIRE(missing.size() == 1);
    CHECK(missing.front().find("most of all in all_reduce on dp:0") != std::string::npos);
    // Nobody waits for anybody; nor does the root of a broadcast.
    CHECK(diagnose(load({with_call({.rank = 0, .call = OpKind::kBroadcast}, 25),
                         with_call({.rank = 1, .call = OpKind::kBroadcast}, 1)}))
              .slow.empty());
    CHECK(diagnose(load({with_call({.rank = 0}, 25), with_call({.rank = 1}, 25)})).slow.empty());
}

TEST_CASE("sums of calls of GPUs that were not watched in each step: hosts of one clock show who is late") {
    check_cause(load({with_call({.rank = 0}, 25, 4), with_call({.rank = 1, .data_ms = 29}, 1, 4)}),
                "waits for data on rank 1");
    const Run run = load({with_call({.rank = 0}, 25, 4), with_call({.rank = 1, .data_ms = 29, .host = 1}, 1, 4)});
    CHECK(diagnose(run).slow.empty());
    CHECK(slowness_of(run).causes.why_none.find("clocks of several hosts are not compared") != std::string::npos);
}

TEST_CASE("and while the job runs, that is a finding") {
    const Run run = load({{.rank = 0, .state = format::ProcessState::kRunning},
                          {.rank = 1, .data_ms = 29, .state = format::ProcessState::kRunning}});
    const Diagnosis diagnosis = diagnose(run);
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings.front().kind == FindingKind::kSlowStep);
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{1});
}

TEST_CASE("what a journal does not tell is said") {
    const Run run = load({{.rank = 0}, {.rank = 1, .state = format::ProcessState::kRunning}});
    const Diagnosis diagnosis = diagnose(run);
    CHECK(outcome_of(diagnosis) == Outcome::kCannotTell);
    CHECK(diagnosis.cannot_tell.find("rank 1 left only a journal: it goes to ") == 0);
    CHECK(diagnosis.ended.empty());
}

TEST_CASE("where two ranks write as both leave, the one that tells the end counts") {
    const Run run = load({{.rank = 0}, {.rank = 1, .blocks = {{0, 50, false}, {50, 100, false}}}}, "",
                         {{.rank = 1, .blocks = {{25, 100, true}}}});
    CHECK(diagnose(run).ended == "ended well after 30 steps, 2 of 2 ranks; 26 ms a step");
}

TEST_CASE("a rank that failed is told by its journal") {
    const Run run = load({{.rank = 0}, {.rank = 1, .exit_status = 3}});
    const Diagnosis diagnosis = diagnose(run);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().kind == FindingKind::kRankDead);
    CHECK(diagnosis.findings.front().ranks == std::vector<int>{1});
}

TEST_CASE("a rank without any record is missing") {
    const Run run = load({{.rank = 0, .world_size = 3}, {.rank = 1, .world_size = 3}});
    CHECK(run.missing_ranks == std::vector<int>{2});
    CHECK(diagnose(run).ended.find("2 of 3 ranks") != std::string::npos);
}

TEST_CASE("of two starts with one name the newer one counts") {
    const Run run = load({{.rank = 0, .exit_status = 1},
                          {.rank = 1},
                          {.rank = 0, .begins_s = 100, .pid = 2000},
                          {.rank = 1, .begins_s = 100, .pid = 2001}});
    REQUIRE(run.processes.size() == 2);
    CHECK(run.processes[0].pid == 2000);
    CHECK(run.processes[1].pid == 2001);
    CHECK(!diagnose(run).ended.empty());
}

TEST_CASE("the journal of a later start counts more than the dumps of an earlier one") {
    const test::TemporaryDirectory place;
    const std::string directory = place.path + "/synth/0/";
    for (int rank = 0; rank < 2; ++rank) {
        synth::RingBuilder ring({.rank = rank, .world_size = 2, .pid = 500 + rank});
        synth::write_file(directory + "rank0000" + std::to_string(rank) + ".0.titan",
                          synth::make_dump(ring, synth::dump_meta(synth::kEpochTicks + 1000, "crash", rank == 0)));
    }
    const auto at = [](uint64_t since_epoch_s) {
        return std::filesystem::file_time_type::clock::now() +
               (std::chrono::system_clock::time_point(
                    std::chrono::nanoseconds(synth::kEpochRealtimeNs + since_epoch_s * synth::kSecond)) -
                std::chrono::system_clock::now());
    };
    for (const auto& dump : std::filesystem::directory_iterator(directory)) {
        std::filesystem::last_write_time(dump.path(), at(1));
    }
    const std::string journal = directory + "node-0-00000000.1.journal";
    synth::write_file(journal, journal_of({{.rank = 0, .begins_s = 10}, {.rank = 1, .begins_s = 10}}));
    std::filesystem::last_write_time(journal, at(20));
    LoadOptions options;
    options.paths = {place.path};
    const auto run = load_run(options);
    REQUIRE(run);
    REQUIRE(run->processes.size() == 2);
    CHECK(run->processes[0].source.is_journal);
    CHECK(diagnose(*run).ended.find("ended well after 30 steps") == 0);
    CHECK(std::any_of(run->warnings.begin(), run->warnings.end(), [](const Warning& warning) {
        return warning.summary ==
               "the job was started 2 times in this directory under one run id: start 2 is read (--start)";
    }));
}

TEST_CASE("clocks of hosts may differ by hours") {
    const Run run = load({{.rank = 0}, {.rank = 1, .begins_s = 3 * 3600, .host = 1}});
    CHECK(run.processes.size() == 2);
    CHECK(run.warnings.empty());
    CHECK(diagnose(run).ended == "ended well after 30 steps, 2 of 2 ranks; 26 ms a step");
    // Not on one host, whose clock tells.
    CHECK(load({{.rank = 0}, {.rank = 1, .begins_s = 3 * 3600}}).processes.size() == 1);
    // Nor where a rank is there again: that is another start.
    const Run again = load({{.rank = 0}, {.rank = 1, .host = 1}, {.rank = 0, .begins_s = 100, .pid = 2000}});
    REQUIRE(again.processes.size() == 1);
    CHECK(again.processes.front().pid == 2000);
}

TEST_CASE("steps without calls, and without a span in which ranks meet, are marked steps nevertheless") {
    const Run run = load({{.rank = 0}, {.rank = 1}});
    CHECK(slowness_of(run).causes.why_none.starts_with("steps are marked, but no call of NCCL"));
    CHECK(rank_state(run, run.processes.front()) == "exited with status 0 (pid 1000), step 29");
}

TEST_CASE("each attempt of a run knows what it left") {
    const test::TemporaryDirectory place;
    for (int attempt = 0; attempt < 3; ++attempt) {
        synth::write_file(place.path + "/synth/" + std::to_string(attempt) + "/node-0-00000000.0.journal",
                          journal_of({{.rank = 0, .world_size = 1, .begins_s = static_cast<uint64_t>(attempt) * 10}}));
    }
    LoadOptions options;
    options.paths = {place.path};
    const auto attempts = attempts_of(options);
    REQUIRE(attempts);
    REQUIRE(attempts->size() == 3);
    CHECK(attempts->back().paths == std::vector{place.path + "/synth/2/node-0-00000000.0.journal"});
}

TEST_CASE("roles whose ranks are numbered alike are two worlds") {
    const std::vector<JournaledRank> ranks = {{.rank = 0, .role = "trainer"},
                                              {.rank = 1, .role = "trainer"},
                                              {.rank = 0, .pid = 2000, .role = "generator"},
                                              {.rank = 1, .pid = 2001, .role = "generator"}};
    for (const char* role : {"trainer", "generator"}) {
        const Run run = load(ranks, role);
        CHECK(run.world == role);
        REQUIRE(run.processes.size() == 2);
        CHECK(run.processes[0].role() == role);
        CHECK(run.beside.empty());
    }
    CHECK(load(ranks).beside.size() == 1);
}

TEST_CASE("blocks of a journal are joined: texts get new numbers, and lost markers leave holes") {
    const auto block_of = [](uint64_t first, size_t count, const Texts& texts) {
        format::MarkerBlock block;
        block.first_ticket = first;
        block.markers.resize(count);
        for (size_t i = 0; i < count; ++i) {
            block.markers[i].slot_sequence = 2 * (first + i) + 2;
            block.markers[i].name = static_cast<uint32_t>(i % texts.size() + 1);
        }
        block.texts = texts;
        return block;
    };
    BlockJoiner joiner({});
    joiner.add(block_of(10, 2, {"a", "b"}));
    joiner.add(block_of(14, 2, {"b", "c"}));
    joiner.put_before(block_of(0, 1, {"label"}));
    const format::MarkerBlock& joined = joiner.joined();
    CHECK(joined.first_ticket == 9);
    REQUIRE(joined.markers.size() == 7);
    Texts names;
    for (const format::MarkerEntry& marker : joined.markers) {
        names.push_back(marker.name == 0 ? "" : joined.texts[marker.name - 1]);
    }
    CHECK(names == Texts{"label", "a", "b", "", "", "b", "c"});
    CHECK(joined.markers[0].slot_sequence == 2 * 9 + 2);
    CHECK(joined.markers[3].slot_sequence == 0);
}

TEST_CASE("starts in one directory under one run id are told apart, and one can be chosen") {
    const test::TemporaryDirectory place;
    const std::string directory = place.path + "/synth/0/node-0-00000000.";
    constexpr int kStarts = 300;
    for (int start = 0; start < kStarts; ++start) {
        synth::write_file(
            directory + std::to_string(start) + ".journal",
            journal_of(
                {{.rank = 0, .world_size = 1, .begins_s = static_cast<uint64_t>(start) * 10, .pid = 2000 + start}}));
    }
    LoadOptions options;
    options.paths = {place.path};
    const auto attempts = attempts_of(options);
    REQUIRE(attempts);
    REQUIRE(attempts->size() == kStarts);
    CHECK(attempts->front().start->number == 1);
    CHECK(attempts->back().start->number == kStarts);
    const auto times = read_attempts(options, {}, [](const std::string& problem) { FAIL_CHECK(problem); });
    REQUIRE(times);
    REQUIRE(times->size() == kStarts);
    CHECK(times->back().start == kStarts);
    const auto newest = load_run(options);
    REQUIRE(newest);
    CHECK(newest->start == kStarts);
    CHECK(newest->starts == kStarts);
    REQUIRE(newest->processes.size() == 1);
    CHECK(newest->processes.front().pid == 2000 + kStarts - 1);
    options.start = 2;
    const auto second = load_run(options);
    REQUIRE(second);
    CHECK(second->start == 2);
    CHECK(second->processes.front().pid == 2001);
    CHECK(second->journals.size() == 1);
    options.start = kStarts + 1;
    const auto none = load_run(options);
    REQUIRE(!none);
    CHECK(none.error().text() == "no start 301; found: 300 starts of synth attempt 0 (--list-runs shows them)");
}

TEST_CASE("ranks that come one after another are of one start") {
    const Run run = load({{.rank = 0, .begins_s = 0}, {.rank = 1, .begins_s = 50}});
    CHECK(run.starts == 0);
    // And the same once more: rank 0 is there again.
    const Run again = load({{.rank = 0, .begins_s = 0},
                            {.rank = 1, .begins_s = 50},
                            {.rank = 0, .begins_s = 100, .pid = 2000},
                            {.rank = 1, .begins_s = 150, .pid = 2001}});
    CHECK(again.starts == 2);
    CHECK(again.start == 2);
}
