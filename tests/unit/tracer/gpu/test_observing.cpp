// Launches under a budget of 2 % (TITANTRACE_BUDGET), where nobody chose a method.
#include <doctest/doctest.h>
#include <time.h>

#include <algorithm>

#include "base/atomic_field.h"
#include "base/clock.h"
#include "budget.h"
#include "fake_driver.h"
#include "fixture.h"
#include "observing.h"

using namespace titan;
using format::CallState;
using format::CollectiveEntry;
using format::GpuProgressMethod;
using format::OpKind;
using test::fake;
using test::FakeStream;

namespace {

constexpr double kShare = 0.02;
constexpr uint64_t kCalls = 20;  // of a step

int64_t next_step = 0;

template <typename T>
T now_in(const T& field) {
    return load_field(const_cast<T&>(field));
}

const format::RingHeader& header() { return *test::recording().header; }

const CollectiveEntry& all_reduce(FakeStream& stream) {
    static void* const communicator = test::create(91, 4, 0);
    const CollectiveEntry& entry = test::call({.kind = OpKind::kAllReduce, .comm = communicator, .stream = &stream});
    stream.run(stream.work.size() - stream.done);
    return entry;
}

bool is_full(const CollectiveEntry& entry) { return (entry.flags & format::kMarkedByWrites) != 0; }

struct Step {
    uint64_t full, light, none;
};

Step make_step(uint64_t calls, uint64_t least_ns) {
    store_field(test::recording().header->step, next_step++);
    FakeStream stream{.context = &fake.first};
    Step step{};
    for (uint64_t i = 0; i < calls; ++i) {
        const size_t before = stream.work.size();
        const CollectiveEntry& entry = all_reduce(stream);
        if (stream.work.size() == before) {
            ++step.none;
            CHECK(now_in(entry.state) == CallState::kEnqueued);
            CHECK(entry.launch == 0);
            continue;
        }
        REQUIRE(stream.work.size() == before + 2);
        (is_full(entry) ? step.full : step.light) += 1;
        for (size_t mark = before; mark < stream.work.size(); ++mark) {
            CHECK((stream.work[mark].event == nullptr) == is_full(entry));  // an entry tells what its marks are
        }
        CHECK((format::marks_of(header(), entry) == GpuProgressMethod::kWrites) == is_full(entry));
    }
    const timespec pause = timespec_of(least_ns);
    nanosleep(&pause, nullptr);
    return step;
}

}  // namespace

// All in one: each part goes on with what the ones before have taught.
TEST_CASE("a process keeps to its budget") {
    // Where a job has only begun, all launches have full marks.
    for (uint32_t i = 0; i < tracer::Budget::kFirstUnits; ++i) {
        CHECK(make_step(kCalls, 2'000'000).full == kCalls);
    }
    CHECK(now_in(header().gpu_budget) == 20'000);
    CHECK(now_in(header().gpu_progress) == GpuProgressMethod::kWrites);

    // Full marks would take 3.5 % of a step of 2 ms: some steps have them, whole.
    const uint64_t began = monotonic_now_ns();
    uint64_t full = 0, whole = 0;
    constexpr int kSteps = 200;
    for (int i = 0; i < kSteps; ++i) {
        const Step step = make_step(kCalls, 2'000'000);
        CHECK((step.full == 0 || step.full == kCalls));
        CHECK(step.none == 0);
        full += step.full;
        whole += step.full == kCalls ? 1 : 0;
    }
    const auto took_ns = static_cast<double>(monotonic_now_ns() - began);
    CHECK(static_cast<double>(full * tracer::kMarkCosts.full_gpu_ns) <= 2 * kShare * took_ns);
    CHECK(whole > 0);
    CHECK(now_in(header().gpu_unit_launches) == kCalls);
    CHECK(now_in(header().gpu_unit_ns) >= 2'000'000);
    CHECK(now_in(header().gpu_light_of) == 1);
    CHECK(now_in(header().gpu_progress_sample) == 1);
    // On a loaded machine steps may be so long by now that all may have them.
    const auto unit_ns = static_cast<double>(now_in(header().gpu_unit_ns));
    if (static_cast<double>(kCalls * tracer::kMarkCosts.full_gpu_ns) > kShare * unit_ns) {
        CHECK(now_in(header().gpu_full_of) > 1);
    }
    if (whole < kSteps) {
        CHECK(now_in(header().gpu_progress) == GpuProgressMethod::kEvents);
    }

    // Steps in which nothing but calls happens: even events are too dear for each, unless the machine is so loaded that
    // these steps are long.
    constexpr int kDenseSteps = 100, kLearned = 40;
    uint64_t none = 0;
    full = 0;
    uint64_t learned_at = 0;
    for (int i = 0; i < kDenseSteps; ++i) {
        learned_at = i == kLearned ? monotonic_now_ns() : learned_at;
        const Step step = make_step(500, 0);
        none += step.none;
        full += i < kLearned ? 0 : step.full;
    }
    const uint64_t step_ns = (monotonic_now_ns() - learned_at) / (kDenseSteps - kLearned);
    const uint64_t full_ns = full * tracer::kMarkCosts.full_gpu_ns / (kDenseSteps - kLearned);
    CHECK(static_cast<double>(full_ns) <= 2 * kShare * static_cast<double>(step_ns));
    if (step_ns < 5'000'000) {
        CHECK(none > 0);
        CHECK(now_in(header().gpu_progress_sample) > 1);
    }

    // The program ceases to mark steps: units are launches then.
    FakeStream stream{.context = &fake.first};
    for (uint64_t i = 0; i < tracer::Observing::kMostLaunchesOfStep + 100 * tracer::Observing::kUnitLaunches; ++i) {
        all_reduce(stream);
    }
    CHECK(now_in(header().gpu_unit_launches) == tracer::Observing::kUnitLaunches);

    // A capture that never ends: nothing is put on its stream.
    FakeStream captured{.context = &fake.first};
    captured.begin_capture(&captured);
    for (int i = 0; i < 1000; ++i) {
        all_reduce(captured);
    }
    CHECK(captured.work.empty());

    // The driver refuses stream writes from now on. Events cost the GPU nothing, and take their place.
    fake.refuse_writes_with = tracer::kCudaErrorNotSupported;
    for (int i = 0; i < 100; ++i) {
        make_step(2, 2'000'000);
    }
    CHECK(now_in(header().gpu_full_of) == 1);
    CHECK(now_in(header().gpu_progress) == GpuProgressMethod::kEvents);
    FakeStream last{.context = &fake.first};
    CHECK_FALSE(is_full(all_reduce(last)));
    CHECK(last.work.size() == 2);
}
