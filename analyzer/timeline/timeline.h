// A run as a timeline: all ranks on one clock, for Perfetto and other viewers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clocks.h"
#include "perfetto_format.h"
#include "process_timeline.h"
#include "run.h"

namespace titan::analyzer {

struct TimelineOptions {
    std::set<int> ranks;  // empty: all
    std::optional<std::pair<int64_t, int64_t>> steps;
    bool overview = false;  // the whole run at low detail; in full only `steps`, or what is around the hang
    std::optional<int64_t> around_hang_ns;      // before and after the moment of the verdict's finding
    uint64_t most_bytes = uint64_t{200} << 20;  // about; the oldest is left out
    std::function<void(size_t done, size_t total)> progress;
};

struct Timeline {
    Clocks clocks;  // that it is drawn on
    TimelineCounts counts;
    size_t processes = 0;
    std::vector<std::string> notes;  // what is missing
};

// Opens the records of the run once more, a process at a time. Error: nothing can be drawn.
Result<Timeline> write_timeline(const Run& run, const TimelineOptions& options, const PerfettoFormat::Write& write);

}  // namespace titan::analyzer
