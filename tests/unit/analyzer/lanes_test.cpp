// Slices side by side: each lane nests, and nothing is lost.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "process_timeline.h"

namespace {

using titan::analyzer::Slice;

// Checks Perfetto's rules: in a lane, time does not go back, and what begins inside of a slice ends inside of it.
class Checker : public titan::analyzer::LaneVisitor {
  public:
    void begin(size_t lane, const Slice& slice) override {
        Lane& in = lanes[lane];
        CHECK(slice.begin_ns >= in.newest_ns);
        CHECK((in.ends.empty() || slice.end_ns <= in.ends.back()));
        in.newest_ns = slice.begin_ns;
        in.ends.push_back(slice.end_ns);
        ++begins;
    }
    void end(size_t lane, int64_t at_ns) override {
        Lane& in = lanes[lane];
        REQUIRE(!in.ends.empty());
        CHECK(at_ns == in.ends.back());
        CHECK(at_ns >= in.newest_ns);
        in.newest_ns = at_ns;
        in.ends.pop_back();
        ++ends;
    }

    struct Lane {
        int64_t newest_ns = 0;
        std::vector<int64_t> ends;
    };
    std::map<size_t, Lane> lanes;
    size_t begins = 0;
    size_t ends = 0;
};

Checker visited(std::vector<Slice> slices) {
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
        return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    Checker checker;
    titan::analyzer::visit_lanes(slices, checker);
    CHECK(checker.begins == slices.size());
    CHECK(checker.ends == slices.size());
    return checker;
}

Slice slice(int64_t begin_ns, int64_t end_ns) { return {.begin_ns = begin_ns, .end_ns = end_ns}; }

}  // namespace

TEST_CASE("lanes: what nests or follows lies in one lane, what overlaps in two") {
    CHECK(visited({}).lanes.empty());
    CHECK(visited({slice(1, 9), slice(1, 5), slice(2, 5), slice(5, 9), slice(9, 10), slice(10, 10)}).lanes.size() == 1);
    CHECK(visited({slice(1, 5), slice(2, 6)}).lanes.size() == 2);
    CHECK(visited({slice(1, 5), slice(2, 6), slice(3, 4), slice(6, 7)}).lanes.size() == 2);
}

TEST_CASE("lanes: any slices keep the rules") {
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        std::vector<Slice> slices;
        for (unsigned i = 0; i < 1 + random() % 60; ++i) {
            const auto begin_ns = static_cast<int64_t>(1 + random() % 50);
            slices.push_back(slice(begin_ns, begin_ns + static_cast<int64_t>(random() % 20)));
        }
        visited(std::move(slices));
    }
}
