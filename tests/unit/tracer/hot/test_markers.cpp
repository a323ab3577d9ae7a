#define TITAN_IN_TRACER
#include "titantrace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "fixture.h"

using namespace titan;
using format::MarkerKind;
using format::OpKind;

namespace {

const format::MarkerEntry& newest() {
    auto& session = test::recording();
    uint32_t region = 0;
    while (session.header->regions[region].kind != format::RegionKind::kMarkers) {
        ++region;
    }
    const format::MarkerEntry* const entry = session.markers.find(session.header->cursors[region].head - 1);
    REQUIRE(entry != nullptr);
    return *entry;
}

uint64_t lost(format::Loss loss) { return test::recording().header->losses[static_cast<size_t>(loss)]; }

titan_mark mark_of() {
    titan_mark mark{};
    mark.bytes = sizeof(mark);
    return mark;
}

[[gnu::noinline]] void from_one_place() {
    titan_event("from one place");
    asm volatile("");  // no tail call, whose place would be the caller's
}

uint32_t innermost() { return test::call({.kind = OpKind::kAllReduce, .comm = test::create(63, 2, 0)}).span; }

}  // namespace

TEST_CASE("the step is the process', and calls carry it") {
    titan_step(41);
    titan_step(42);
    CHECK(test::recording().header->step == 42);
    CHECK(newest().kind == MarkerKind::kStep);
    CHECK(newest().value == 42);
    CHECK(test::call({.kind = OpKind::kAllReduce, .comm = test::create(60, 2, 0)}).step == 42);
}

TEST_CASE("spans nest, calls carry the innermost, deep ones are counted and not lost count of") {
    auto& strings = test::recording().strings;
    void* const comm = test::create(61, 2, 0);
    titan_span_begin("step");
    titan_span_begin("forward");
    CHECK(test::call({.kind = OpKind::kAllReduce, .comm = comm}).span == strings.intern("forward"));
    for (uint32_t i = 0; i < format::kSpanDepth; ++i) {
        titan_span_begin("deep");
    }
    for (uint32_t i = 0; i < format::kSpanDepth; ++i) {
        titan_span_end();
    }
    titan_span_end();
    CHECK(newest().kind == MarkerKind::kSpanEnd);
    CHECK(newest().name == strings.intern("forward"));
    CHECK(newest().value != 0);
    CHECK(test::call({.kind = OpKind::kAllReduce, .comm = comm}).span == strings.intern("step"));
    titan_span_end();
    titan_span_end();  // one too many
    CHECK(test::call({.kind = OpKind::kAllReduce, .comm = comm}).span == 0);
}

TEST_CASE("metrics keep their bits, labels their value, null is empty") {
    titan_metric("loss", 2.25);
    double value = 0;
    memcpy(&value, &newest().value, sizeof(value));
    CHECK(value == 2.25);
    titan_label("tp", "3");
    CHECK(newest().text == test::recording().strings.intern("3"));
    titan_event(nullptr);
    CHECK(newest().kind == MarkerKind::kEvent);
    CHECK(newest().name == 0);
}

TEST_CASE("a communicator's name hangs off its row; unknown handles are ignored") {
    void* const comm = test::create(62, 2, 0);
    titan_comm_name(comm, "dp");
    CHECK(test::record_of(comm).name == test::recording().strings.intern("dp"));
    titan_comm_name(test::new_handle(), "nobody");
}

TEST_CASE("a span with an id is ended by any thread, and leaves the stack of the one that began it") {
    auto& strings = test::recording().strings;
    const uint64_t outer = titan_span_open("outer", nullptr);
    REQUIRE(outer != 0);
    const uint64_t inner = titan_span_open("inner", nullptr);
    CHECK(newest().kind == MarkerKind::kSpanBegin);
    CHECK(newest().span == static_cast<uint32_t>(inner));
    CHECK(newest().value == static_cast<uint32_t>(outer));
    CHECK(innermost() == strings.intern("inner"));
    std::thread([&] { titan_span_close(inner, nullptr); }).join();
    CHECK(newest().kind == MarkerKind::kSpanEnd);
    CHECK(newest().name == strings.intern("inner"));
    CHECK(newest().span == static_cast<uint32_t>(inner));
    CHECK(newest().value != 0);
    titan_span_begin("next");
    CHECK(newest().value == static_cast<uint32_t>(outer));
    CHECK(newest().depth == 1);
    titan_span_end();
    CHECK(innermost() == strings.intern("outer"));
    titan_span_close(outer, nullptr);
    CHECK(innermost() == 0);
}

TEST_CASE("an outer span that ends first takes nothing with it") {
    auto& strings = test::recording().strings;
    const uint64_t outer = titan_span_open("outer", nullptr);
    const uint64_t inner = titan_span_open("inner", nullptr);
    titan_span_close(outer, nullptr);
    CHECK(newest().name == strings.intern("outer"));
    CHECK(innermost() == strings.intern("inner"));
    titan_span_close(inner, nullptr);
    CHECK(innermost() == 0);
}

TEST_CASE("ends of what is not open are counted: twice, or of another process") {
    const uint64_t before = lost(format::Loss::kSpansUnmatched);
    const uint64_t span = titan_span_open("once", nullptr);
    titan_span_close(span, nullptr);
    const uint64_t head = test::recording().markers.head();
    titan_span_close(span, nullptr);
    titan_span_close(span ^ uint64_t{1} << 40, nullptr);
    titan_span_close(UINT64_MAX, nullptr);
    titan_span_close(0, nullptr);  // of a program whose begin was not recorded
    CHECK(lost(format::Loss::kSpansUnmatched) == before + 3);
    CHECK(test::recording().markers.head() == head);
}

TEST_CASE("spans of tasks interleave and are no thread's innermost ones") {
    auto& strings = test::recording().strings;
    titan_mark mark = mark_of();
    titan_span_begin("loop");
    mark.task = 7;
    const uint64_t first = titan_span_open("first", &mark);
    CHECK(newest().detail == format::kSpanOfTask);
    CHECK(newest().extra == 7);
    CHECK(newest().value == 0);
    mark.task = 8;
    mark.parent = first;
    const uint64_t second = titan_span_open("second", &mark);
    CHECK(newest().value == static_cast<uint32_t>(first));
    CHECK(innermost() == strings.intern("loop"));
    titan_span_close(first, nullptr);
    CHECK(newest().name == strings.intern("first"));
    CHECK(innermost() == strings.intern("loop"));
    titan_span_close(second, nullptr);
    titan_span_end();
    CHECK(innermost() == 0);
}

TEST_CASE("deep spans with ids leave the stack as they found it") {
    auto& strings = test::recording().strings;
    std::vector<uint64_t> spans;
    for (int i = 0; i < 50; ++i) {
        spans.push_back(titan_span_open("deep", nullptr));
    }
    titan_span_begin("deepest");
    titan_span_end();
    for (; !spans.empty(); spans.pop_back()) {
        titan_span_close(spans.back(), nullptr);
    }
    CHECK(innermost() == 0);
    titan_span_begin("after");
    CHECK(newest().depth == 0);
    CHECK(innermost() == strings.intern("after"));
    titan_span_end();
}

TEST_CASE("more spans than rows are counted, and none ends another") {
    const uint64_t before = lost(format::Loss::kSpansDropped);
    titan_mark mark = mark_of();
    mark.task = 1;
    std::vector<uint64_t> spans;
    for (int i = 0; i < 10'000; ++i) {
        spans.push_back(titan_span_open("request", &mark));
    }
    const auto recorded =
        static_cast<uint64_t>(std::count_if(spans.begin(), spans.end(), [](uint64_t id) { return id != 0; }));
    CHECK(recorded > 8000);
    CHECK(lost(format::Loss::kSpansDropped) - before == 10'000 - recorded);
    const uint64_t unmatched = lost(format::Loss::kSpansUnmatched);
    for (const uint64_t span : spans) {
        titan_span_close(span, nullptr);
    }
    CHECK(lost(format::Loss::kSpansUnmatched) == unmatched);
    CHECK(titan_span_open("after", &mark) != 0);
}

TEST_CASE("moments that are told lie where they were, on either clock") {
    titan_mark mark = mark_of();
    for (const int clock : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
        mark.clock = clock;
        mark.time_ns = static_cast<int64_t>(clock_ns(clock)) - 2'000'000'000;
        titan_event_at("earlier", &mark);
        const double ago_ns = static_cast<double>(ticks_to_ns(now_ticks() - newest().ticks));
        CHECK(ago_ns > 1.9e9);
        CHECK(ago_ns < 2.5e9);
    }
    mark.time_ns = INT64_MAX;
    titan_event_at("ahead", &mark);
    CHECK(newest().ticks <= now_ticks());
    mark.time_ns = 1;
    titan_event_at("in 1970", &mark);
    CHECK(newest().ticks != 0);
}

TEST_CASE("attributes and errors are of a span, an event, or the innermost span") {
    auto& strings = test::recording().strings;
    const uint64_t event = titan_event_at("saved", nullptr);
    titan_attribute_integer(event, "bytes", -5);
    CHECK(newest().kind == MarkerKind::kAttribute);
    CHECK(newest().span == static_cast<uint32_t>(event));
    CHECK(static_cast<int64_t>(newest().value) == -5);
    CHECK(newest().name == strings.intern("bytes"));
    const uint64_t span = titan_span_open("save", nullptr);
    titan_attribute_double(0, "share", 0.5);
    CHECK(newest().span == static_cast<uint32_t>(span));
    CHECK(std::bit_cast<double>(newest().value) == 0.5);
    titan_span_close(span, nullptr);
    titan_attribute_text(span, "path", "/ckpt");
    CHECK(newest().text == strings.intern("/ckpt"));
    titan_error(span, "disk full");
    CHECK(newest().kind == MarkerKind::kError);
    CHECK(newest().text == strings.intern("disk full"));
    const uint64_t before = lost(format::Loss::kSpansUnmatched);
    titan_error(0, "outside of all spans");
    CHECK(lost(format::Loss::kSpansUnmatched) == before + 1);
}

TEST_CASE("metrics with a meaning, steps counted twice, tags") {
    titan_metric_as("loss", 2.0, 4096, TITAN_REDUCE_MEAN, nullptr);
    CHECK(newest().detail == static_cast<uint8_t>(format::MetricReduction::kMean));
    CHECK(std::bit_cast<double>(newest().extra) == 4096);
    titan_metric_as("loss", 2.0, 1, 99, nullptr);
    CHECK(newest().detail == 0);
    titan_step_relative(1000, 3);
    CHECK(newest().value == 1000);
    CHECK(newest().detail == 1);
    CHECK(newest().extra == 3);
    titan_step_tag("eval");
    CHECK(newest().kind == MarkerKind::kStepTag);
    CHECK(newest().step == 1000);
}

TEST_CASE("spans that are not among those wanted are known while they are open, and leave no markers") {
    auto& session = test::recording();
    const auto is_kept = [&](const char* list, const char* name) {
        snprintf(session.config.spans, sizeof(session.config.spans), "%s", list);
        titan_event("before");
        const uint64_t span = titan_span_open(name, nullptr);
        CHECK(span != 0);
        CHECK(test::call({.kind = OpKind::kAllReduce, .comm = test::create(64, 2, 0)}).span ==
              session.strings.intern(name));
        const bool begun = newest().kind == MarkerKind::kSpanBegin;
        titan_span_close(span, nullptr);
        CHECK((newest().kind == MarkerKind::kSpanEnd) == begun);
        titan_span_begin(name);
        titan_span_end();
        CHECK((newest().kind == MarkerKind::kSpanEnd) == begun);
        session.config.spans[0] = '\0';
        return begun;
    };
    CHECK(is_kept("", "forward"));
    CHECK(is_kept("forward", "forward"));
    CHECK(is_kept("step,forward*", "forward-compute"));
    CHECK_FALSE(is_kept("step,forward", "forward-compute"));
    CHECK_FALSE(is_kept("forward-compute", "forward"));
    CHECK(is_kept("-aten::*,-Optimizer.*", "forward"));
    CHECK_FALSE(is_kept("-aten::*,-Optimizer.*", "aten::mm"));
    CHECK_FALSE(is_kept("*,-aten::*", "aten::mm"));
    CHECK(is_kept("*", "aten::mm"));
    CHECK_FALSE(is_kept(",", "a"));
}

TEST_CASE("the sweep of names meets those of open spans alone") {
    auto& session = test::recording();
    const auto meets = [&](uint32_t wanted) {
        bool met = false;
        session.open_spans.each_name([&](uint32_t name) { met = met || name == wanted; });
        return met;
    };
    const uint64_t span = titan_span_open("swept", nullptr);
    const uint32_t name = session.strings.intern_for_now("swept");
    CHECK(meets(name));
    titan_span_close(span, nullptr);
    CHECK(!meets(name));
}

TEST_CASE("a place is one row, told or the caller's") {
    auto& session = test::recording();
    const uint32_t place = titan_site("train.py:40 step");
    CHECK(place != 0);
    CHECK(titan_site("train.py:40 step") == place);
    CHECK(titan_site("train.py:41 step") != place);
    CHECK(titan_site(nullptr) == 0);
    titan_mark mark = mark_of();
    mark.site = place;
    titan_event_at("here", &mark);
    CHECK(newest().site == place);
    uint32_t sites[2] = {};
    for (uint32_t& site : sites) {
        from_one_place();
        site = newest().site;
    }
    CHECK(sites[0] != 0);
    CHECK(sites[0] == sites[1]);
    titan_event("from elsewhere");
    CHECK(newest().site != sites[0]);
    CHECK(lost(format::Loss::kMarkerSitesDropped) == 0);
    CHECK(session.marker_sites_used >= 4);
}

TEST_CASE("a program that was built with a shorter header tells less") {
    titan_mark mark = mark_of();
    mark.task = 99;
    mark.bytes = offsetof(titan_mark, task);
    const uint64_t span = titan_span_open("short", &mark);
    CHECK(newest().detail == 0);
    titan_span_close(span, nullptr);
}
