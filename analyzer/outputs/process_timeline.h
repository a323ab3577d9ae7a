// What one process did, as tracks of a timeline: its steps; each thread with its spans, calls and events; tasks; each
// stream of its GPU; metrics and readings of the machine. Everything is in memory until it is written, sorted by time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "perfetto_format.h"
#include "records.h"

namespace titan::analyzer {

// --- Slices of one track side by side where they overlap without one lying in the other: tasks of one thread, calls of
// one stream that were seen late. Each lane then nests, as viewers want.

struct Slice {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    uint32_t track = 0;
    uint32_t details_bytes = 0;
    uint64_t details = 0;  // place of the first of its bytes
    bool joined = false;   // with slices of other ranks
};

class LaneVisitor {
  public:
    virtual ~LaneVisitor() = default;
    virtual void begin(size_t lane, const Slice& slice) = 0;
    virtual void end(size_t lane, int64_t at_ns) = 0;
};

// Slices of one track, sorted by begin, the longer first. In each lane, begins and ends come in the order of time.
void visit_lanes(std::span<const Slice> slices, LaneVisitor& visitor);

// Times on the clock of all hosts.
struct TimeWindow {
    int64_t from_ns = INT64_MIN;
    int64_t until_ns = INT64_MAX;  // not in it any more

    // What lies in both; until_ns is not above from_ns where nothing does.
    TimeWindow both(const TimeWindow& other) const {
        return {std::max(from_ns, other.from_ns), std::min(until_ns, other.until_ns)};
    }
};

struct TimelineCounts {
    uint64_t slices = 0;
    uint64_t joined = 0;  // of them calls that arrows join with those of other ranks
    uint64_t instants = 0;
    uint64_t values = 0;
    uint64_t left_out = 0;  // slices, the oldest, for the limit of size
};

class ProcessTimeline {
  public:
    struct Options {
        TimeWindow window;
        StepRange steps;  // that lie in it, where only some are wanted
        uint64_t most_bytes = UINT64_MAX;
        std::function<int64_t(int64_t realtime_ns)> common_ns;
        int64_t end_ns = 0;  // of the record: slices that are open end here
    };

    ProcessTimeline(const Run& run, PerfettoFormat& format, Options options);

    void collect(const ProcessRecords& records);
    // A value of a track that the records do not hold.
    void add_value(const std::string& track, int64_t at_ns, double value);
    // `next_track`: number of the next track of the trace.
    TimelineCounts write(uint64_t process, uint64_t& next_track);

  private:
    // In the order in which they are shown.
    enum class Group : uint8_t { kSteps, kThread, kTasks, kStream, kValue };
    using TrackKey = std::tuple<Group, uint64_t, std::string>;
    struct Point {
        int64_t at_ns = 0;
        uint32_t track = 0;
        uint32_t details_bytes = 0;  // instants
        uint64_t details = 0;
        double value = 0;
    };
    struct OpenSpan {
        int64_t begin_ns;
        uint32_t track;
        std::string name;
        std::vector<std::pair<std::string, std::string>> arguments;
    };

    void add(const CollectiveRecord& record);
    void add(const TorchCallRecord& record);
    void add(const CudaCallRecord& record);
    void add(const MarkerRecord& record);
    void add(const HealthRecord& record);
    uint32_t track_of(Group group, uint64_t number, const std::string& name);
    uint32_t thread_track(const ProcessRecords& of, uint32_t thread);
    uint32_t span_track(const ProcessRecords& of, uint32_t thread, uint64_t task);
    bool is_in_window(int64_t begin_ns, int64_t end_ns) const;
    int64_t common(const ProcessRecords& of, uint64_t ticks) const;
    void add_slice(uint32_t track, int64_t begin_ns, int64_t end_ns, const TraceDetails& details);
    void add_instant(uint32_t track, int64_t at_ns, const TraceDetails& details);
    void span_begin(const MarkerRecord& record);
    void add_open_spans(const ProcessRecords& of);
    void span_end(const MarkerRecord& record);
    void end_span(const OpenSpan& span, int64_t end_ns, bool is_open);
    void end_step(int64_t at_ns, bool is_open);
    void drop_oldest();

    const Run& run_;
    PerfettoFormat& format_;
    Options options_;
    std::map<TrackKey, uint32_t> tracks_;
    std::vector<Slice> slices_;
    std::vector<Point> points_;
    std::string bytes_;  // details of slices and instants
    std::unordered_map<uint32_t, OpenSpan> open_spans_;
    std::unordered_set<uint32_t> still_open_;  // by the dump's table, and no later marker ends them
    int64_t newest_marker_ns_ = 0;             // a journal may go on after the dump
    int64_t step_ = -1;
    std::optional<int64_t> relative_step_;
    int64_t step_begin_ns_ = 0;
    TimelineCounts counts_;
};

}  // namespace titan::analyzer
