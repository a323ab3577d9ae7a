// Sums of calls by step, communicator and operation: of a journal, of a ring, and where both have some of them.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "journal_file.h"
#include "load_run.h"
#include "records.h"
#include "ring_builder.h"
#include "summary.h"
#include "temporary_directory.h"

using namespace titan;
using namespace titan::analyzer;

namespace {

constexpr uint64_t kDp = 0xd0, kUnseen = 0x99;
constexpr const char* kTexts[] = {"", "dp:0", "ep:1", "gpu.0.power_w"};
constexpr uint64_t kPerStep = 4;  // calls: three on one communicator, one on another that no ring knows

format::CollectiveEntry call_of(uint64_t ticket) {
    format::CollectiveEntry call{};
    call.communicator_id = ticket % kPerStep == 3 ? kUnseen : kDp;
    call.kind = OpKind::kAllReduce;
    call.datatype = Datatype::kFloat32;
    call.count = 1024;
    call.step = static_cast<int64_t>(ticket / kPerStep);
    call.entered_ticks = synth::kEpochTicks + 1000 * ticket;
    call.returned_ticks = call.entered_ticks + 100;
    return call;
}

// A dump with the newest 16 of so many calls, and a journal of blocks that begin and end at these calls.
class Recorded {
  public:
    Recorded(uint64_t calls, const std::vector<std::pair<uint64_t, uint64_t>>& blocks, bool by_kind = true) {
        synth::RingSpec spec;
        spec.collectives = 16;
        synth::RingBuilder ring(spec);
        const uint32_t row = ring.add_communicator(kDp, 8, 0, "dp:0");
        for (uint64_t ticket = 0; ticket < calls; ++ticket) {
            format::CollectiveEntry& entry = ring.add_call(row, OpKind::kAllReduce);
            const uint64_t slot_sequence = entry.slot_sequence;
            entry = call_of(ticket);
            entry.slot_sequence = slot_sequence;
        }
        test::JournalFile file;
        for (const auto& [first, next] : blocks) {
            add_block(file, ring.header(), first, next, by_kind);
        }
        synth::write_file(place_.path + "/synth/0/rank00000.0.titan",
                          synth::make_dump(ring, synth::dump_meta(synth::kEpochTicks + 1'000'000, "signal", true)));
        synth::write_file(place_.path + "/synth/0/node-0-00000000.0.journal", file.bytes());
        LoadOptions load;
        load.paths = {place_.path};
        load.with_journals = true;
        auto loaded = load_run(load);
        REQUIRE(loaded);
        run_ = std::move(*loaded);
    }

    template <typename Visit>
    void visit(const Visit& visit) const {
        Symbols symbols(Symbols::Search::kNearby);
        RecordReader reader(run_, symbols);
        const auto records = reader.open(*reader.processes().front());
        REQUIRE(records);
        visit(*records);
        CHECK(reader.problems().empty());
    }
    const Run& run() const { return run_; }

  private:
    static void add_block(test::JournalFile& file, const format::RingHeader& header, uint64_t first, uint64_t next,
                          bool by_kind) {
        std::vector<format::StepSum> steps;
        std::vector<format::StepCalls> calls;
        for (uint64_t ticket = first; ticket < next; ++ticket) {
            const format::CollectiveEntry call = call_of(ticket);
            if (steps.empty() || steps.back().step != call.step) {
                steps.push_back({});
                steps.back().step = call.step;
            }
            add_call(steps.back(), call);
            if (calls.empty() || calls.back().step != call.step ||
                calls.back().communicator_id != call.communicator_id) {
                calls.push_back({});
                calls.back().step = call.step;
                calls.back().communicator_id = call.communicator_id;
                calls.back().kind = call.kind;
            }
            add_call(calls.back(), call);
        }
        std::vector<format::StepCommunicator> communicators = {{kDp, 8, 1}, {kUnseen, 4, 2}};
        std::vector<format::HealthExtremes> health = {{3, 5, 300, 700, 2, 3, 1, 4, 10, 20},
                                                      {0, 7, 0, 0, 1, 1, 1, 1, 1, 1}};
        if (!by_kind) {
            calls.clear();
        }
        const format::MarkerWords words{nullptr,
                                        [](void*, uint32_t id, char* into, size_t capacity_bytes) {
                                            return std::string_view(kTexts[id]).copy(into, capacity_bytes);
                                        },
                                        [](void*, uint32_t) { return format::MarkerSiteRecord{}; }};
        file.add_block(header, {0, {}}, {first, next, steps, calls, communicators, health}, words);
    }

    test::TemporaryDirectory place_;
    Run run_;
};

}  // namespace

TEST_CASE("a journal's sums by communicator and the ring's calls are each told once") {
    for (const auto& blocks : std::vector<std::vector<std::pair<uint64_t, uint64_t>>>{
             {{0, 50}, {50, 90}}, {{0, 90}}, {{0, 30}, {20, 60}, {30, 90}}, {{0, 86}}}) {
        const Recorded recorded(100, blocks);
        std::map<std::pair<int64_t, std::string>, uint64_t> rows;
        std::set<std::string> roles;
        const auto take = [&](const StepCallsRecord& record) {
            rows[{record.raw.step, record.communicator_name()}] += record.raw.calls;
            roles.insert(record.communicator_role());
        };
        recorded.visit([&](const ProcessRecords& records) { records.each(RecordKind::kStepCalls, take); });
        CHECK(rows.size() == 50);
        for (const auto& [key, calls] : rows) {
            CHECK(calls == (key.second == "dp:0" ? 3 : 1));
        }
        CHECK(roles == std::set<std::string>{"dp", "ep"});  // the name of one is in the journal alone

        Summary summary(recorded.run(), {});
        recorded.visit([&](const ProcessRecords& records) { summary.add(records); });
        std::map<std::string, uint64_t> counts;
        for (const SummaryRow* row : summary.rows()) {
            counts[row->name] = row->calls;
            CHECK(row->bytes == 4096 * row->calls);
            CHECK(row->values.count() == row->calls);
            CHECK(row->values.mean() == doctest::Approx(100).epsilon(0.003));
        }
        CHECK(counts == std::map<std::string, uint64_t>{{"all_reduce on dp", 75}, {"all_reduce on ep", 25}});
    }
}

TEST_CASE("sums of some steps alone") {
    const Recorded recorded(100, {{0, 50}, {50, 90}});
    SummaryOptions options;
    options.steps.range = {{3, 5}};
    options.by = SummaryBy::kCommunicator;
    options.by_size = true;
    Summary summary(recorded.run(), options);
    recorded.visit([&](const ProcessRecords& records) { summary.add(records); });
    REQUIRE(summary.rows().size() == 2);
    CHECK(summary.rows()[0]->name == "all_reduce on dp:0");
    CHECK(summary.rows()[0]->calls == 9);
    CHECK(summary.rows()[0]->summed_calls == 9);
    CHECK(summary.rows()[1]->name == "all_reduce on ep:1");
    REQUIRE(summary.rows_by_size().size() == 2);
    CHECK(summary.rows_by_size()[0]->up_to_bytes == 4096);
}

TEST_CASE("a journal without sums by communicator hides no call of the ring") {
    const Recorded recorded(100, {{0, 90}}, false);
    Summary summary(recorded.run(), {});
    recorded.visit([&](const ProcessRecords& records) { summary.add(records); });
    uint64_t calls = 0;
    for (const SummaryRow* row : summary.rows()) {
        calls += row->calls;
    }
    CHECK(calls == 16);
}

TEST_CASE("extremes of readings") {
    const Recorded recorded(20, {{0, 20}});
    std::vector<std::string> extreme;
    const auto take = [&](const ExtremesRecord& record) { extreme.push_back(json_of(record).dump()); };
    recorded.visit([&](const ProcessRecords& records) { records.each(RecordKind::kExtremes, take); });
    REQUIRE(extreme.size() == 2);
    CHECK(extreme[0].find(R"("name":"gpu.0.power_w","readings":5,"least":300.0,"least_step":2)") != std::string::npos);
    CHECK(extreme[1].find(R"("least":null)") != std::string::npos);
}
