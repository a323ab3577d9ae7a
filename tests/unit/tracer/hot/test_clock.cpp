#include <doctest/doctest.h>
#include <time.h>

#include "clock.h"
#include "fixture.h"

using namespace titan;

TEST_CASE("ticks advance with the monotonic clock") {
    test::recording();
    const uint64_t ticks = tracer::now_ticks();
    const uint64_t ns = tracer::monotonic_now_ns();
    const timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
    nanosleep(&pause, nullptr);
    const double measured = static_cast<double>(tracer::ticks_to_ns(tracer::now_ticks() - ticks));
    const double expected = static_cast<double>(tracer::monotonic_now_ns() - ns);
    CHECK(measured / expected == doctest::Approx(1.0).epsilon(0.01));
}

TEST_CASE("ticks and nanoseconds convert both ways, also for years") {
    test::recording();
    constexpr uint64_t kYear_ns = 365ull * 86'400 * 1'000'000'000;
    const uint64_t back = tracer::ticks_to_ns(tracer::ns_to_ticks(kYear_ns));
    CHECK(kYear_ns - back < 2);
}

TEST_CASE("an anchor is whole: even sequence, all clocks set") {
    test::recording();
    format::ClockAnchor anchor{};
    tracer::write_anchor(anchor);
    CHECK(anchor.sequence == 2);
    CHECK(anchor.ticks != 0);
    CHECK(anchor.realtime_ns > 1'700'000'000'000'000'000);
    CHECK(tracer::monotonic_now_ns() - anchor.monotonic_ns < 1'000'000'000);
}
