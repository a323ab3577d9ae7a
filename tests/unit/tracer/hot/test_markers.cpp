#define TITAN_IN_TRACER
#include "titantrace.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string_view>

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
