// Markers of a process that lie in a dump's ring and in a journal: told once, in order, and what is lost is counted.
#include "records.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "journal_file.h"
#include "load_run.h"
#include "ring_builder.h"
#include "temporary_directory.h"

using namespace titan;
using namespace titan::analyzer;

namespace {

struct JournaledRun {
    uint64_t first = 0;
    uint64_t count = 0;
    bool calls = false;  // each of which is a step of its own; otherwise markers
};

// The value of a marker is its ticket.
std::vector<std::byte> journal_of(const format::RingHeader& header, const std::vector<JournaledRun>& blocks) {
    test::JournalFile file;
    const format::MarkerWords words{nullptr, [](void*, uint32_t, char*, size_t) { return size_t{0}; },
                                    [](void*, uint32_t) { return format::MarkerSiteRecord{}; }};
    for (const auto& [first, count, calls] : blocks) {
        std::vector<format::MarkerEntry> markers(calls ? 0 : count);
        std::vector<format::StepSum> steps(calls ? count : 0);
        for (uint64_t i = 0; i < steps.size(); ++i) {
            steps[i].step = static_cast<int64_t>(first + i);
            steps[i].calls = 1;
        }
        for (uint64_t i = 0; i < markers.size(); ++i) {
            markers[i].kind = format::MarkerKind::kStep;
            markers[i].value = first + i;
            markers[i].ticks = synth::kEpochTicks + first + i;
        }
        file.add_block(header, {calls ? 0 : first, markers}, {calls ? first : 0, calls ? first + count : 0, steps},
                       words);
    }
    return file.bytes();
}

struct ToldMarkers {
    std::vector<uint64_t> tickets;
    uint64_t lost = 0;
    uint64_t torn = 0;
    std::vector<std::string> problems;
};

// A dump with a ring of 16 markers when `markers` were written, without those `torn`, and a journal with these blocks.
ToldMarkers told_of(uint64_t markers, const std::vector<JournaledRun>& blocks, const std::vector<uint64_t>& torn = {},
                    size_t damaged_byte_from_end = 0, RecordKind kind = RecordKind::kMarker) {
    synth::RingBuilder ring({});
    std::vector<format::MarkerEntry*> entries;
    for (uint64_t ticket = 0; ticket < markers; ++ticket) {
        format::MarkerEntry& entry = ring.add_marker(format::MarkerKind::kStep);
        entry.value = ticket;
        entry.ticks = synth::kEpochTicks + ticket;
        entries.push_back(&entry);
    }
    for (const uint64_t ticket : torn) {
        --entries[ticket]->slot_sequence;
    }
    const test::TemporaryDirectory place;
    const std::string directory = place.path + "/synth/0/";
    synth::write_file(directory + "rank00000.0.titan",
                      synth::make_dump(ring, synth::dump_meta(synth::kEpochTicks + 1000, "signal", true)));
    std::vector<std::byte> journal = journal_of(ring.header(), blocks);
    if (damaged_byte_from_end != 0) {
        journal[journal.size() - damaged_byte_from_end] ^= std::byte{0xFF};
    }
    synth::write_file(directory + "node-0-00000000.0.journal", journal);
    LoadOptions load;
    load.paths = {place.path};
    load.with_journals = true;
    const auto run = load_run(load);
    REQUIRE(run);
    Symbols symbols(Symbols::Search::kNearby);
    RecordReader reader(*run, symbols);
    REQUIRE(reader.processes().size() == 1);
    const auto records = reader.open(*reader.processes().front());
    REQUIRE(records);
    std::vector<uint64_t> tickets;
    const auto take = [&tickets](const auto& record) {
        if constexpr (std::is_same_v<decltype(record), const MarkerRecord&>) {
            CHECK(record.raw.value == record.ticket);
            tickets.push_back(record.ticket);
        } else if constexpr (std::is_same_v<decltype(record), const StepRecord&>) {
            tickets.push_back(static_cast<uint64_t>(record.raw.step));
        }
    };
    const format::RingLosses losses = records->each(kind, take);
    return {tickets, losses.overwritten, losses.torn, reader.problems()};
}

std::vector<uint64_t> tickets_between(uint64_t from, uint64_t until) {
    std::vector<uint64_t> all;
    for (uint64_t number = from; number < until; ++number) {
        all.push_back(number);
    }
    return all;
}

}  // namespace

TEST_CASE("a journal that goes on after the dump is read before and behind the dump's ring") {
    const ToldMarkers all = told_of(40, {{0, 30}, {30, 30}, {60, 40}});
    CHECK(all.tickets == tickets_between(0, 100));
    CHECK(all.lost == 0);
    CHECK(all.problems.empty());
}

TEST_CASE("blocks of two writers that overlap behind the ring are told once") {
    CHECK(told_of(40, {{0, 50}, {35, 45}, {70, 30}}).tickets == tickets_between(0, 100));
}

TEST_CASE("a dump that is newer than the journal ends the record") {
    const ToldMarkers all = told_of(40, {{0, 30}});
    CHECK(all.tickets == tickets_between(0, 40));
    CHECK(all.lost == 0);
}

TEST_CASE("a marker that was being written during the dump is taken from the journal") {
    const ToldMarkers all = told_of(40, {{0, 100}}, {30, 39});
    CHECK(all.tickets == tickets_between(0, 100));
    CHECK(all.torn == 0);
    CHECK(told_of(40, {{0, 24}}, {30, 39}).torn == 2);
}

TEST_CASE("markers between the dump and the rest of the journal that nobody has are counted") {
    const ToldMarkers all = told_of(40, {{0, 30}, {50, 10}});
    CHECK(all.tickets.size() == 50);
    CHECK(all.tickets.back() == 59);
    CHECK(all.lost == 10);
}

TEST_CASE("a damaged block behind the dump is said") {
    const ToldMarkers all = told_of(40, {{0, 40}, {40, 60}}, {}, 4);
    CHECK(all.tickets == tickets_between(0, 40));
    CHECK(all.problems.size() == 1);
}

TEST_CASE("of two sums of the same calls the one that goes further is told") {
    const std::vector<JournaledRun> blocks = {{0, 30, true}, {30, 20, true}, {30, 40, true}, {70, 30, true}};
    CHECK(told_of(16, blocks, {}, 0, RecordKind::kStep).tickets == tickets_between(0, 100));
}
