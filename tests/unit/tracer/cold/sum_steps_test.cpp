// What the journal's writer makes of a ring: sums of calls by step, communicator and operation, and extremes of
// readings.
#include "sum_steps.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ring_builder.h"
#include "scratch.h"

using namespace titan;
using namespace titan::tracer;
using format::OpKind;
using titan::test::Scratch;

namespace {

// A ring in a file, and what is read of it.
class RingInFile {
  public:
    explicit RingInFile(synth::RingBuilder& ring) {
        const std::string path = scratch_.ring_dir() + "/test.ring";
        synth::write_file(path, ring.bytes());
        chmod(scratch_.ring_dir().c_str(), 0700);
        format::JobProcess process{};
        path.copy(process.ring_path, sizeof(process.ring_path) - 1);
        process.start_ticks = ring.header().pid_start_ticks;
        REQUIRE(tail.open(process));
    }
    RingTail tail;
    std::unique_ptr<StepRoom> room = std::make_unique<StepRoom>();

  private:
    Scratch scratch_;
};

synth::RingSpec large() {
    synth::RingSpec spec;
    spec.collectives = 8192;
    spec.readings = 512;
    spec.texts = 512;
    return spec;
}

void add_call(synth::RingBuilder& ring, uint32_t communicator, OpKind kind, int64_t step, uint64_t entered_ticks) {
    format::CollectiveEntry& call = ring.add_call(communicator, kind);
    call.step = step;
    call.entered_ticks = entered_ticks;
    call.returned_ticks = entered_ticks + 10;
    call.count = 8;
    call.datatype = format::Datatype::kFloat32;
}

}  // namespace

TEST_CASE("calls are added up by step, communicator and operation") {
    synth::RingBuilder ring(large());
    const uint32_t dp = ring.add_communicator(0xd, 8, 1, "dp:0");
    const uint32_t tp = ring.add_communicator(0x7, 2, 0, "tp:0");
    for (int64_t step = 0; step < 5; ++step) {
        const auto begin = static_cast<uint64_t>(1000 * (step + 1));
        add_call(ring, dp, OpKind::kAllGather, step, begin);
        add_call(ring, tp, OpKind::kAllReduce, step, begin + 100);
        add_call(ring, dp, OpKind::kAllGather, step, begin + 200);
        add_call(ring, dp, OpKind::kReduceScatter, step, begin + 300);
        ring.add_call(dp, OpKind::kBufferRegister).step = step;
    }
    ring.header().step = 4;
    RingInFile file(ring);
    uint64_t next_call = 0;
    const format::StepSums sums = sum_steps(file.tail, next_call, false, *file.room);
    CHECK(next_call == 15);  // the GPU may be at work on the last two steps
    CHECK(sums.next_call == 15);
    CHECK(sums.steps.size() == 3);
    REQUIRE(sums.calls.size() == 9);
    const format::StepCalls& gathers = sums.calls[3];
    CHECK(gathers.is_of(0xd, OpKind::kAllGather));
    CHECK(gathers.step == 1);
    CHECK(gathers.calls == 2);
    CHECK(gathers.bytes == 64);
    CHECK(gathers.host_ticks == 20);
    CHECK(gathers.longest_ticks == 10);
    CHECK(gathers.entered_ticks() == 2100);
    REQUIRE(sums.communicators.size() == 2);
    CHECK(sums.communicators[1].id == 7);
    CHECK(sums.communicators[1].size == 2);
    char name[8] = {};
    CHECK(file.tail.words().text(&file.tail, sums.communicators[1].name, name, sizeof(name)) == 4);
    CHECK(std::string(name) == "tp:0");
    CHECK(sum_steps(file.tail, next_call, true, *file.room).steps.size() == 2);
    CHECK(next_call == 25);
}

TEST_CASE("the calls of a step with too many kinds are added up together") {
    synth::RingBuilder ring(large());
    for (uint32_t i = 0; i < 30; ++i) {
        const uint32_t row = ring.add_communicator(100 + i, 2, 0, "");
        add_call(ring, row, OpKind::kSend, 0, 1000 + i);
        add_call(ring, row, OpKind::kSend, 0, 2000 + i);
    }
    ring.header().step = 0;
    RingInFile file(ring);
    uint64_t next_call = 0;
    const format::StepSums sums = sum_steps(file.tail, next_call, true, *file.room);
    REQUIRE(sums.calls.size() == format::kJournalStepCalls);
    uint64_t calls = 0;
    for (const format::StepCalls& row : sums.calls) {
        calls += row.calls;
    }
    CHECK(calls == 60);
    CHECK(sums.calls.back().is_of(0, OpKind{}));
    CHECK(sums.calls.back().calls == 2 * (30 - (format::kJournalStepCalls - 1)));
    CHECK(sums.communicators.size() == format::kJournalStepCalls - 1);
}

TEST_CASE("more steps and kinds of calls than a block holds go into the next one") {
    synth::RingBuilder ring(large());
    uint32_t rows[4];
    for (uint32_t i = 0; i < 4; ++i) {
        rows[i] = ring.add_communicator(100 + i, 2, 0, "");
    }
    for (int64_t step = 0; step < 1000; ++step) {
        for (const uint32_t row : rows) {
            add_call(ring, row, OpKind::kAllReduce, step, 1000);
        }
    }
    ring.header().step = 1000;
    RingInFile file(ring);
    uint64_t next_call = 0, calls = 0, blocks = 0;
    int64_t next_step = 0;
    for (bool goes_on = true; goes_on;) {
        const format::StepSums sums = sum_steps(file.tail, next_call, true, *file.room);
        CHECK(sums.calls.size() <= format::kJournalBlockCalls);
        goes_on = !sums.steps.empty();
        blocks += goes_on ? 1 : 0;
        for (const format::StepSum& sum : sums.steps) {
            CHECK(sum.step == next_step++);
            CHECK(sum.calls == 4);
        }
        for (const format::StepCalls& row : sums.calls) {
            calls += row.calls;
        }
    }
    CHECK(blocks == 2);
    CHECK(calls == 4000);
}

TEST_CASE("readings of the machine: extremes, and what exceeds the names") {
    synth::RingBuilder ring(large());
    const auto read = [&ring](const std::string& name, double value, int64_t step) {
        ring.add_reading(name, value, 1, static_cast<uint64_t>(5000 + step)).since_step = step;
    };
    for (int64_t step = 0; step < 10; ++step) {
        read("gpu.0.power_w", step == 4 ? std::nan("") : step == 7 ? 700 : 300 + static_cast<double>(step % 3), step);
    }
    for (int i = 0; i < 130; ++i) {
        read("name." + std::to_string(i), i, 20);
    }
    RingInFile file(ring);
    uint64_t next_reading = 0;
    const auto rows = sum_health(file.tail, next_reading, *file.room);
    CHECK(next_reading == 140);
    REQUIRE(rows.size() == format::kJournalHealthNames);
    CHECK(rows[0].readings == 9);
    CHECK(rows[0].least == 300);
    CHECK(rows[0].least_step == 0);
    CHECK(rows[0].greatest == 700);
    CHECK(rows[0].greatest_step == 7);
    CHECK(rows[0].first_step == 0);
    CHECK(rows[0].last_step == 9);
    CHECK(rows[0].last_ticks == 5009);
    CHECK(rows.back().name == 0);
    CHECK(rows.back().readings == 130 - (format::kJournalHealthNames - 2));
    CHECK(rows.back().greatest == 0);
    CHECK(sum_health(file.tail, next_reading, *file.room).empty());
}
