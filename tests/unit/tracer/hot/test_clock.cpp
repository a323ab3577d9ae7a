#include <doctest/doctest.h>
#include <time.h>

#include "base/clock.h"
#include "fixture.h"
#include "tick_times.h"

using namespace titan;

TEST_CASE("ticks advance with the monotonic clock") {
    test::recording();
    const uint64_t ticks = now_ticks();
    const uint64_t ns = monotonic_now_ns();
    const timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
    nanosleep(&pause, nullptr);
    const double measured = static_cast<double>(ticks_to_ns(now_ticks() - ticks));
    const double expected = static_cast<double>(monotonic_now_ns() - ns);
    CHECK(measured / expected == doctest::Approx(1.0).epsilon(0.01));
}

TEST_CASE("ticks and nanoseconds convert both ways, also for years") {
    test::recording();
    constexpr uint64_t kYearNs = 365ull * 86'400 * 1'000'000'000;
    const uint64_t back = ticks_to_ns(ns_to_ticks(kYearNs));
    CHECK(kYearNs - back < 2);
}

TEST_CASE("an anchor is whole: even sequence, all clocks set") {
    test::recording();
    format::ClockAnchor anchor{};
    tracer::write_anchor(anchor);
    CHECK(anchor.sequence == 2);
    CHECK(anchor.ticks != 0);
    CHECK(anchor.realtime_ns > 1'700'000'000'000'000'000);
    CHECK(monotonic_now_ns() - anchor.monotonic_ns < 1'000'000'000);
}
