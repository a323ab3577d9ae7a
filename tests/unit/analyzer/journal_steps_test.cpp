// Who wants some steps of a journal reads their blocks alone, and is told what all blocks tell of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "formats/container/journal_reader.h"
#include "journal_file.h"
#include "journals.h"
#include "load_run.h"
#include "nightly.h"
#include "parts.h"
#include "ring_builder.h"
#include "step_metrics.h"
#include "temporary_directory.h"

using namespace titan;
using namespace titan::analyzer;

namespace {

constexpr const char* kNames[] = {"", "step", "forward", "epoch", "loss"};

format::MarkerWords words() {
    return {nullptr,
            [](void*, uint32_t id, char* into, size_t capacity_bytes) {
                return std::string_view(kNames[id]).copy(into, capacity_bytes);
            },
            [](void*, uint32_t) { return format::MarkerSiteRecord{}; }};
}

// Steps of 10 ms with a span and a metric, in epochs of five; as the tracer marks them.
class Marking {
  public:
    void mark(int64_t step) {
        if (epoch_ != 0 && step % 5 == 0) {
            add(format::MarkerKind::kSpanEnd, 3, epoch_);
        }
        add(format::MarkerKind::kStep, 0, static_cast<uint64_t>(step));
        step_ = step;
        if (step % 5 == 0) {
            epoch_ = now_;
            add(format::MarkerKind::kSpanBegin, 3, 0);
        }
        const uint64_t begun = now_;
        add(format::MarkerKind::kSpanBegin, 2, 0);
        now_ += 10'000'000;
        add(format::MarkerKind::kSpanEnd, 2, begun);
        add(format::MarkerKind::kMetric, 4, static_cast<uint64_t>(step));
    }
    std::vector<format::MarkerEntry> markers;

  private:
    void add(format::MarkerKind kind, uint32_t name, uint64_t value) {
        format::MarkerEntry& marker = markers.emplace_back();
        marker = {};
        marker.kind = kind;
        marker.name = name;
        marker.value = value;
        marker.ticks = now_ += 1000;
        marker.thread = 7;
        marker.step = step_;
    }
    uint64_t now_ = synth::kEpochTicks;
    uint64_t epoch_ = 0;
    int64_t step_ = format::kNoStep;
};

// A process that begins step 12 again after step 20.
std::vector<format::MarkerEntry> markers_of_a_run() {
    Marking marking;
    for (int64_t step = 3; step <= 20; ++step) {
        marking.mark(step);
    }
    for (int64_t step = 12; step <= 30; ++step) {
        marking.mark(step);
    }
    return marking.markers;
}

// In blocks of these sizes, the last one as often as need be.
test::JournalFile journal_of(std::vector<format::MarkerEntry> markers, const std::vector<size_t>& sizes) {
    test::JournalFile file;
    synth::RingBuilder ring(synth::RingSpec{});
    size_t first = 0;
    for (size_t block = 0; first < markers.size(); ++block) {
        const size_t count = std::min(sizes[std::min(block, sizes.size() - 1)], markers.size() - first);
        file.add_block(ring.header(), {first, std::span(markers).subspan(first, count)}, {}, words());
        first += count;
    }
    return file;
}

using Told = std::tuple<PartKind, std::string, int64_t, double, int64_t, bool>;

struct Parts {
    std::vector<Told> told;
    uint64_t overwritten = 0;
};

Parts parts_of(const Run& run, const WantedSteps& wanted) {
    Symbols symbols(Symbols::Search::kNearby);
    RecordReader reader(run, symbols);
    Parts parts;
    reader.visit_all({}, [&](const ProcessRecords& records) {
        parts.overwritten += visit_parts(run, records, wanted, [&](const Part& part) {
            parts.told.emplace_back(part.kind, part.name, part.begin_ns, part.value.value_or(-1), part.step,
                                    part.in_steps);
        });
    });
    CHECK(reader.problems().empty());
    return parts;
}

Run load(const std::string& directory) {
    LoadOptions options;
    options.paths = {directory};
    options.with_journals = true;
    auto run = load_run(options);
    REQUIRE(run);
    return std::move(*run);
}

}  // namespace

TEST_CASE("parts of some steps are what all blocks tell of them") {
    std::mt19937 random(5);
    for (int round = 0; round < test::rounds(5, 20); ++round) {
        CAPTURE(round);
        std::vector<size_t> sizes(200);
        std::generate(sizes.begin(), sizes.end(), [&] { return 1 + random() % 12; });
        test::JournalFile file = journal_of(markers_of_a_run(), sizes);
        const test::TemporaryDirectory whole, indexed;
        synth::write_file(whole.path + "/synth/0/node-0-00000000.0.journal", file.bytes());
        file.add_index();
        synth::write_file(indexed.path + "/synth/0/node-0-00000000.0.journal", file.bytes());
        const Run of_all = load(whole.path), of_some = load(indexed.path);
        for (int64_t first = 0; first < 33; first += 4) {
            for (int64_t last = first; last < 33; last += 3) {
                CAPTURE(first);
                CAPTURE(last);
                for (const uint64_t skip : {0, 8}) {
                    const WantedSteps wanted{std::pair(first, last), skip};
                    const Parts all = parts_of(of_all, wanted), some = parts_of(of_some, wanted);
                    CHECK(all.told == some.told);
                    CHECK(all.overwritten == some.overwritten);
                    CHECK(all.told.empty() == (first > 30 || last < 3 + static_cast<int64_t>(skip)));
                }
            }
        }
    }
}

TEST_CASE("parts: between steps that a host marked ahead of its GPU and those seen to end there no time is lost") {
    constexpr uint64_t kMs = 1'000'000, kStepMs = 100, kAhead = 10;
    synth::RingSpec spec;
    spec.markers = 64;
    synth::RingBuilder ring(spec);
    const uint32_t row = ring.add_communicator(1, 2, 0, "dp");
    // The host makes ten steps in 100 ms and waits for its GPU then, which takes 100 ms for each. Of the first nine no
    // call is on record.
    for (uint64_t step = 1; step <= 31; ++step) {
        const uint64_t behind = (step - 1) % kAhead;
        const uint64_t begun = synth::kEpochTicks + kMs * ((step - 1 - behind) * kStepMs + behind * kStepMs / kAhead);
        format::MarkerEntry& mark = ring.add_marker(format::MarkerKind::kStep);
        mark.value = step;
        mark.ticks = begun;
        mark.step = static_cast<int64_t>(step) - 1;
        if (step >= kAhead && step <= 30) {
            format::CollectiveEntry& call = ring.add_call(row, format::OpKind::kAllReduce);
            call.step = static_cast<int64_t>(step);
            call.entered_ticks = begun + kMs;
            call.returned_ticks = call.entered_ticks + 1;
            call.gpu_finished_ticks = synth::kEpochTicks + kMs * step * kStepMs;
            call.gpu_started_ticks = call.gpu_finished_ticks - kMs;
        }
    }
    const test::TemporaryDirectory place;
    synth::write_file(place.path + "/synth/0/rank00000.0.titan",
                      synth::make_dump(ring, synth::dump_meta(synth::kEpochTicks + 4000 * kMs, "signal", true)));
    double sum_ns = 0;
    uint64_t steps = 0;
    for (const Told& told : parts_of(load(place.path), {}).told) {
        sum_ns += std::get<0>(told) == PartKind::kStep ? std::get<3>(told) : 0;
        steps += std::get<0>(told) == PartKind::kStep ? 1 : 0;
    }
    CHECK(steps == 30);
    CHECK(sum_ns / static_cast<double>(steps) == doctest::Approx(kStepMs * kMs));
}

TEST_CASE("the journal of a process that a digest tells of is read") {
    const test::TemporaryDirectory place;
    synth::write_file(place.path + "/synth/0/node-0-00000000.0.journal", journal_of(markers_of_a_run(), {20}).bytes());
    Run run = load(place.path);
    const auto metrics = [&run] {
        Symbols symbols(Symbols::Search::kNearby);
        RecordReader reader(run, symbols);
        StepMetrics all(28);
        reader.visit_ours({}, [&](const ProcessRecords& records) { all.add(records, {}); });
        return all.joined().size();
    };
    CHECK(metrics() == 28);
    run.processes.front().source.is_journal = false;
    run.processes.front().source.is_digest = true;
    CHECK(metrics() == 28);
}

TEST_CASE("metrics of more steps than are kept") {
    const test::TemporaryDirectory place;
    synth::write_file(place.path + "/synth/0/node-0-00000000.0.journal", journal_of(markers_of_a_run(), {20}).bytes());
    const Run run = load(place.path);
    const auto metrics_of = [&run](size_t most_rows, const StepRange& steps) {
        Symbols symbols(Symbols::Search::kNearby);
        RecordReader reader(run, symbols);
        StepMetrics metrics(most_rows);
        for (int rank = 0; rank < 2; ++rank) {  // the same one twice
            reader.visit_ours({}, [&](const ProcessRecords& records) { metrics.add(records, steps); });
        }
        return metrics;
    };
    const StepMetrics all = metrics_of(28, {}), some = metrics_of(10, {}), wanted = metrics_of(10, {{5, 9}});
    CHECK(all.left_out().empty());
    CHECK(all.joined().size() == 28);  // from 3 to 30
    CHECK(some.left_out().starts_with("metrics of steps before 21 are left out"));
    const std::vector<StepMetric> kept = some.joined(), whole = all.joined();
    REQUIRE(kept.size() == 10);
    for (size_t i = 0; i < kept.size(); ++i) {
        CHECK(kept[i].step == whole[i + 18].step);
        CHECK(kept[i].value == whole[i + 18].value);
        CHECK(kept[i].values == 2);
        CHECK(kept[i].reported == 2);
    }
    CHECK(wanted.left_out().empty());
    REQUIRE(wanted.joined().size() == 5);
    CHECK(wanted.joined().front().step == 5);
}

TEST_CASE("a file of any size") {
    test::JournalFile file = journal_of(markers_of_a_run(), {20});
    const test::TemporaryDirectory place;
    const std::string path = place.path + "/node-0-00000000.0.journal";
    synth::write_file(path, file.bytes());
    std::filesystem::resize_file(path, kMaxFileBytes + 1);  // the disk gives zeros, and takes no room
    Journals journals({path});
    REQUIRE(journals.processes().size() == 1);
    const size_t markers = markers_of_a_run().size();
    CHECK(journals.visit(journals.processes().front(), 0, markers, {}, [](const format::RingImage&) {}) == 0);
    REQUIRE(journals.problems().size() == 1);
    CHECK(journals.problems().front().ends_with("bad header checksum: the file is damaged from here on"));
}

TEST_CASE("blocks of other steps are not read") {
    test::JournalFile file = journal_of(markers_of_a_run(), {20});
    file.add_index();
    std::vector<std::byte> bytes = file.bytes();
    const auto index = format::index_journal(bytes);
    REQUIRE(index);
    size_t damaged = 0;
    for (size_t i = 1; i < index->parts.size(); ++i) {
        const bool is_read = index->parts[i].overlaps(5, 6) || index->parts[i - 1].overlaps(5, 6);
        damaged += is_read ? 0 : 1;
        bytes[index->parts[i].offset_bytes + index->parts[i].size_bytes - 1] ^=
            is_read ? std::byte{0} : std::byte{0x41};
    }
    CHECK(damaged > 5);
    const test::TemporaryDirectory place;
    const std::string path = place.path + "/node-0-00000000.0.journal";
    synth::write_file(path, bytes);
    Journals journals({path});
    const ProcessKey process = journals.processes().front();
    uint64_t seen = 0;
    const auto count = [&](const format::RingImage& image) {
        image.for_each_marker([&seen](uint64_t, const format::MarkerEntry&) { ++seen; });
    };
    CHECK(journals.visit(process, 0, UINT64_MAX, std::pair<int64_t, int64_t>(5, 6), count) == 0);
    CHECK(seen == 20 * (index->parts.size() - damaged));
    CHECK(journals.problems().empty());
    seen = 0;
    CHECK(journals.visit(process, 0, UINT64_MAX, {}, count) == 20 * (damaged - 1) + index->parts.back().markers);
    CHECK(journals.problems().size() == 1);
}
