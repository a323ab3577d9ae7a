#include "lanes.h"

#include <vector>

namespace titan::analyzer {

void visit_lanes(std::span<const Slice> slices, LaneVisitor& visitor) {
    std::vector<std::vector<int64_t>> ends_of;  // by lane: ends of the slices that are open, the innermost last
    const auto end_before = [&](size_t lane, int64_t at_ns) {
        std::vector<int64_t>& ends = ends_of[lane];
        while (!ends.empty() && ends.back() <= at_ns) {
            visitor.end(lane, ends.back());
            ends.pop_back();
        }
    };
    for (const Slice& slice : slices) {
        size_t lane = 0;
        for (; lane < ends_of.size(); ++lane) {
            end_before(lane, slice.begin_ns);
            if (ends_of[lane].empty() || slice.end_ns <= ends_of[lane].back()) {
                break;
            }
        }
        if (lane == ends_of.size()) {
            ends_of.emplace_back();
        }
        visitor.begin(lane, slice);
        ends_of[lane].push_back(slice.end_ns);
    }
    for (size_t lane = 0; lane < ends_of.size(); ++lane) {
        end_before(lane, INT64_MAX);
    }
}

}  // namespace titan::analyzer
