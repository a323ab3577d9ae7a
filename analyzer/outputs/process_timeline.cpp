#include "process_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "bandwidth.h"
#include "base/hash.h"
#include "decode_metrics.h"
#include "host/words.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

using format::CallState;
using format::CollectiveEntry;
using format::MarkerEntry;
using format::MarkerKind;

constexpr size_t kSliceBytes = 64;  // of the begin and the end of a slice in a file, beside its details

// Equal on all ranks that take part. A send and its receive are a flow of their own.
uint64_t flow_of(const CollectiveEntry& call) {
    if (!format::moves_data(call.kind) || call.sequence == kNoSequence || (call.flags & format::kCaptured) != 0) {
        return 0;
    }
    int32_t from = -1;
    int32_t to = -1;
    if (format::class_of(call.kind) == format::OpClass::p2p) {
        const bool sends = call.kind == OpKind::kSend;
        from = sends ? call.comm_rank : call.peer;
        to = sends ? call.peer : call.comm_rank;
    }
    const std::string key = fmt::format("{} {} {} {}", call.communicator_id, call.sequence, from, to);
    return fnv1a64(key.data(), key.size());
}

// `number` as of the call.
uint64_t flow_of(const TorchCallRecord& record, int64_t number) {
    const std::string key = fmt::format("{} {}", record.group(), number);
    return record.raw.is_p2p || number < 0 ? 0 : fnv1a64(key.data(), key.size());
}

}  // namespace

ProcessTimeline::ProcessTimeline(const Run& run, PerfettoFormat& format, Options options)
    : run_(run), format_(format), options_(std::move(options)) {}

void ProcessTimeline::collect(const ProcessRecords& records) {
    if (!records.process().source.is_flight_recorder) {
        for (const format::OpenSpanRecord& open : records.image().open_spans()) {
            still_open_.insert(open.id);
        }
    }
    const auto take = [this](const auto& record) {
        if constexpr (requires { add(record); }) {
            add(record);
        }
    };
    for (const RecordKind kind :
         {RecordKind::kMarker, RecordKind::kCollective, RecordKind::kCudaCall, RecordKind::kHealth}) {
        records.each(kind, take, options_.steps);
    }
    const int64_t end_ns = std::max(options_.end_ns, newest_marker_ns_);
    // If the process has ended, its newest step did not go on for longer than its last record.
    const bool goes_on = !records.process().has_ended() || newest_marker_ns_ == 0;
    end_step(goes_on ? end_ns : newest_marker_ns_, true);
    if (!records.process().source.is_flight_recorder) {
        add_open_spans(records);
    }
    for (auto& [id, span] : open_spans_) {
        end_span(span, end_ns, true);
    }
    open_spans_.clear();
}

uint32_t ProcessTimeline::track_of(Group group, uint64_t number, const std::string& name) {
    const auto next = static_cast<uint32_t>(tracks_.size());
    return tracks_.try_emplace({group, number, name}, next).first->second;
}

uint32_t ProcessTimeline::thread_track(const ProcessRecords& of, uint32_t thread) {
    const bool is_main = static_cast<int32_t>(thread) == of.process().pid;
    return track_of(Group::kThread, is_main ? 0 : thread, is_main ? "main thread" : fmt::format("thread {}", thread));
}

uint32_t ProcessTimeline::span_track(const ProcessRecords& of, uint32_t thread, uint64_t task) {
    return task == 0 ? thread_track(of, thread)
                     : track_of(Group::kTasks, thread, fmt::format("tasks of thread {}", thread));
}

bool ProcessTimeline::is_in_window(int64_t begin_ns, int64_t end_ns) const {
    return begin_ns > 0 && begin_ns < options_.window.until_ns && end_ns >= options_.window.from_ns;
}

int64_t ProcessTimeline::common(const ProcessRecords& of, uint64_t ticks) const {
    return options_.common_ns(of.realtime_ns(ticks));
}

void ProcessTimeline::add_slice(uint32_t track, int64_t begin_ns, int64_t end_ns, const TraceDetails& details) {
    end_ns = std::max(begin_ns, end_ns);
    if (!is_in_window(begin_ns, end_ns)) {
        return;
    }
    const size_t at = bytes_.size();
    format_.encode(details, bytes_);
    slices_.push_back({begin_ns, end_ns, track, static_cast<uint32_t>(bytes_.size() - at), at, details.flow != 0});
    if (bytes_.size() + slices_.size() * kSliceBytes > options_.most_bytes) {
        drop_oldest();
    }
}

// Half of the slices: seldom enough to cost little, and the newest matter most.
void ProcessTimeline::drop_oldest() {
    const auto middle = slices_.begin() + static_cast<std::ptrdiff_t>(slices_.size() / 2);
    std::nth_element(slices_.begin(), middle, slices_.end(),
                     [](const Slice& a, const Slice& b) { return a.end_ns < b.end_ns; });
    const int64_t from_ns = middle == slices_.end() ? INT64_MAX : middle->end_ns;
    std::string kept;
    const auto keep = [&](uint64_t& details, uint32_t bytes) {
        const size_t at = kept.size();
        kept.append(bytes_, details, bytes);
        details = at;
    };
    counts_.left_out += static_cast<uint64_t>(middle - slices_.begin());
    slices_.erase(slices_.begin(), middle);
    std::ranges::for_each(slices_, [&](Slice& slice) { keep(slice.details, slice.details_bytes); });
    std::erase_if(points_, [&](const Point& point) { return point.at_ns < from_ns; });
    std::ranges::for_each(points_, [&](Point& point) { keep(point.details, point.details_bytes); });
    bytes_ = std::move(kept);
}

void ProcessTimeline::add_instant(uint32_t track, int64_t at_ns, const TraceDetails& details) {
    if (is_in_window(at_ns, at_ns)) {
        const size_t at = bytes_.size();
        format_.encode(details, bytes_);
        points_.push_back({at_ns, track, static_cast<uint32_t>(bytes_.size() - at), at, 0});
    }
}

void ProcessTimeline::add_value(const std::string& track, int64_t at_ns, double value) {
    if (is_in_window(at_ns, at_ns)) {
        points_.push_back({at_ns, track_of(Group::kValue, 0, track), 0, 0, value});
    }
}

void ProcessTimeline::add(const CollectiveRecord& record) {
    const CollectiveEntry& raw = record.raw;
    const std::string communicator = record.of.communicator(raw.communicator_id).name;
    const std::string operation = op_text(raw.kind);
    const bool moves = format::moves_data(raw.kind);
    const std::string name = moves ? operation + " on " + communicator : operation;
    const std::string datatype = datatype_text(raw.datatype);
    const std::string reduction = reduction_text(raw.reduction);
    const std::string span = record.of.text(raw.span);
    const std::string id = id_text(raw.communicator_id);
    TraceDetails details;
    details.name = name;
    std::vector<TraceArgument>& told = details.arguments;
    told.push_back({"state", format::name_of(raw.state)});
    if (moves) {
        told.push_back({"seq", static_cast<int64_t>(raw.sequence)});
        told.push_back({"communicator", std::string_view(id)});
        told.push_back({"count", static_cast<int64_t>(raw.count)});
        told.push_back({"datatype", std::string_view(datatype)});
        told.push_back({"bytes", static_cast<int64_t>(bytes_of(record))});
    }
    if (raw.reduction != Reduction::kNoReduction) {
        told.push_back({"reduction", std::string_view(reduction)});
    }
    if (raw.peer >= 0) {
        const bool is_rooted = format::class_of(raw.kind) == format::OpClass::rooted;
        const int rank = record.of.global_rank(raw.communicator_id, raw.peer);
        told.push_back({is_rooted ? "root" : "peer", int64_t{rank >= 0 ? rank : raw.peer}});
    }
    if (raw.step >= 0) {
        told.push_back({"step", static_cast<int64_t>(raw.step)});
    }
    if (!span.empty()) {
        told.push_back({"span", std::string_view(span)});
    }
    if (record.of.sites().recorded()) {
        told.push_back({"called at", std::string_view(record.of.sites().place(raw.stack))});
    }
    const bool ran = raw.gpu_started_ticks != 0 && (raw.flags & format::kCaptured) == 0;
    details.flow = ran ? 0 : flow_of(raw);
    const bool returned = raw.returned_ticks != 0;
    add_slice(thread_track(record.of, raw.thread), common(record.of, raw.entered_ticks),
              returned ? common(record.of, raw.returned_ticks) : options_.end_ns, details);
    if (!ran) {
        return;
    }
    const bool finished = raw.gpu_finished_ticks != 0;
    const int64_t started_ns = common(record.of, raw.gpu_started_ticks);
    const int64_t finished_ns = finished ? common(record.of, raw.gpu_finished_ticks) : options_.end_ns;
    details.flow = flow_of(raw);
    const auto index = run_.find_communicator(raw.communicator_id);
    if (finished && finished_ns > started_ns && index) {
        const double bytes = bus_bytes(raw.kind, bytes_of(record), run_.communicators[*index].size);
        told.push_back({"bus GB/s", bytes / static_cast<double>(finished_ns - started_ns)});
        add_value("bus GB/s of " + communicator, started_ns, bytes / static_cast<double>(finished_ns - started_ns));
    }
    add_slice(track_of(Group::kStream, raw.stream, fmt::format("GPU stream {:#x}", raw.stream)), started_ns,
              finished_ns, details);
}

// PyTorch notes when it found that a call had begun or ended, up to a second late.
void ProcessTimeline::add(const TorchCallRecord& record) {
    const format::fr::Entry& raw = record.raw;
    const int64_t number = raw.is_p2p ? raw.p2p_seq_id : raw.collective_seq_id;
    const std::string name = printable(record.name.op) + " on " + record.group();
    TraceDetails details;
    details.name = name;
    details.flow = flow_of(record, number);
    details.arguments.push_back({"state", std::string_view(record.state())});
    if (number >= 0) {
        details.arguments.push_back({"seq", number});
    }
    add_slice(track_of(Group::kStream, 0, record.group()),
              options_.common_ns(std::max<int64_t>(raw.time_created_ns, 0)),
              raw.time_completed_ns > 0 ? options_.common_ns(raw.time_completed_ns) : options_.end_ns, details);
}

void ProcessTimeline::add(const CudaCallRecord& record) {
    const std::string name = record.of.text(record.raw.name);
    TraceDetails details;
    details.name = name;
    const bool returned = record.raw.returned_ticks != 0;
    details.arguments.push_back({"object", static_cast<int64_t>(record.raw.object)});
    if (!returned) {
        details.arguments.push_back({"state", std::string_view("inside")});
    }
    add_slice(thread_track(record.of, record.raw.thread), common(record.of, record.raw.entered_ticks),
              returned ? common(record.of, record.raw.returned_ticks) : options_.end_ns, details);
}

void ProcessTimeline::end_step(int64_t at_ns, bool is_open) {
    if (step_ >= 0) {
        const std::string name = fmt::format("step {}", step_);
        TraceDetails details{name, {}, 0};
        if (relative_step_) {
            details.arguments.push_back({"relative_step", *relative_step_});
        }
        if (is_open) {
            details.arguments.push_back({"state", std::string_view("newest: no step ends it")});
        }
        add_slice(track_of(Group::kSteps, 0, "steps"), step_begin_ns_, at_ns, details);
    }
    step_ = -1;
}

void ProcessTimeline::span_begin(const MarkerRecord& record) {
    const MarkerEntry& raw = record.raw;
    OpenSpan span;
    span.begin_ns = common(record.of, raw.ticks);
    span.name = record.of.text(raw.name);
    span.track = span_track(record.of, raw.thread, raw.extra);
    if (const std::string& place = record.of.places().place(raw.site); !place.empty()) {
        span.arguments.emplace_back("called at", place);
    }
    open_spans_.insert_or_assign(raw.span, std::move(span));
}

// Their begins may be overwritten.
void ProcessTimeline::add_open_spans(const ProcessRecords& of) {
    for (const format::OpenSpanRecord& open : of.image().open_spans()) {
        if (!still_open_.contains(open.id)) {
            continue;
        }
        OpenSpan span;
        span.begin_ns = common(of, open.begin_ticks);
        span.name = of.text(open.name);
        span.track = span_track(of, open.thread, open.task);
        open_spans_.try_emplace(open.id, std::move(span));
    }
}

// Where its begin is overwritten, the end tells when it was.
void ProcessTimeline::span_end(const MarkerRecord& record) {
    const MarkerEntry& raw = record.raw;
    still_open_.erase(raw.span);
    OpenSpan span;
    if (const auto open = open_spans_.extract(raw.span); !open.empty()) {
        span = std::move(open.mapped());
    } else if (raw.value != 0) {
        span.begin_ns = common(record.of, raw.value);
        span.name = record.of.text(raw.name);
        span.track = thread_track(record.of, raw.thread);
    } else {
        return;
    }
    end_span(span, common(record.of, raw.ticks), false);
}

void ProcessTimeline::end_span(const OpenSpan& span, int64_t end_ns, bool is_open) {
    TraceDetails details;
    details.name = span.name;
    for (const auto& [key, value] : span.arguments) {
        details.arguments.push_back({key, std::string_view(value)});
    }
    if (is_open) {
        details.arguments.push_back({"state", std::string_view("open")});
    }
    add_slice(span.track, span.begin_ns, end_ns, details);
}

void ProcessTimeline::add(const MarkerRecord& record) {
    const MarkerEntry& raw = record.raw;
    const int64_t at_ns = common(record.of, raw.ticks);
    newest_marker_ns_ = std::max(newest_marker_ns_, at_ns);
    const std::string name = record.of.text(raw.name);
    switch (raw.kind) {
        case MarkerKind::kStep:
            end_step(at_ns, false);
            step_ = static_cast<int64_t>(raw.value);
            relative_step_ = raw.detail != 0 ? std::optional(static_cast<int64_t>(raw.extra)) : std::nullopt;
            step_begin_ns_ = at_ns;
            break;
        case MarkerKind::kSpanBegin: span_begin(record); break;
        case MarkerKind::kSpanEnd: span_end(record); break;
        case MarkerKind::kMetric: add_value(name, at_ns, std::bit_cast<double>(raw.value)); break;
        case MarkerKind::kEvent: add_instant(thread_track(record.of, raw.thread), at_ns, {name, {}, 0}); break;
        case MarkerKind::kStepTag: add_instant(track_of(Group::kSteps, 0, "steps"), at_ns, {name, {}, 0}); break;
        case MarkerKind::kAttribute:
        case MarkerKind::kError:
            if (const auto span = open_spans_.find(raw.span); span != open_spans_.end()) {
                const std::string text = record.of.text(raw.text);
                const bool is_error = raw.kind == MarkerKind::kError;
                span->second.arguments.emplace_back(is_error ? "error" : name,
                                                    is_error ? text : attribute_text(raw, text));
            }
            break;
        case MarkerKind::kLabel: break;
    }
}

void ProcessTimeline::add(const HealthRecord& record) {
    const std::string name = record.of.text(record.raw.name);
    add_value(name, common(record.of, record.raw.since_ticks), record.raw.value);
    add_value(name, common(record.of, record.raw.ticks), record.raw.value);
}

namespace {

// Writes a track's slices, one track of the trace for each lane.
class LaneWriter : public LaneVisitor {
  public:
    LaneWriter(PerfettoFormat& format, TraceTrack track, const std::string& bytes, uint64_t& next_track)
        : format_(format), track_(track), bytes_(bytes), next_track_(next_track) {}

    const TraceTrack& lane(size_t number) {
        while (lanes_.size() <= number) {
            track_.id = next_track_++;
            format_.track(track_);
            lanes_.push_back(track_);
        }
        return lanes_[number];
    }
    void begin(size_t number, const Slice& slice) override {
        format_.begin(lane(number), slice.begin_ns,
                      std::string_view(bytes_).substr(slice.details, slice.details_bytes));
    }
    void end(size_t number, int64_t at_ns) override { format_.end(lane(number), at_ns); }

  private:
    PerfettoFormat& format_;
    TraceTrack track_;
    const std::string& bytes_;
    uint64_t& next_track_;
    std::vector<TraceTrack> lanes_;
};

}  // namespace

TimelineCounts ProcessTimeline::write(uint64_t process, uint64_t& next_track) {
    std::ranges::sort(slices_, [](const Slice& a, const Slice& b) {
        return std::tie(a.track, a.begin_ns, b.end_ns) < std::tie(b.track, b.begin_ns, a.end_ns);
    });
    std::ranges::stable_sort(points_, [](const Point& a, const Point& b) {
        return std::tie(a.track, a.at_ns) < std::tie(b.track, b.at_ns);
    });
    int32_t order = 0;
    for (const auto& [key, number] : tracks_) {
        const auto& [group, thread, name] = key;
        const auto slices = std::equal_range(slices_.begin(), slices_.end(), Slice{.track = number},
                                             [](const Slice& a, const Slice& b) { return a.track < b.track; });
        const auto points = std::equal_range(points_.begin(), points_.end(), Point{.track = number},
                                             [](const Point& a, const Point& b) { return a.track < b.track; });
        const bool is_value = group == Group::kValue;
        LaneWriter lanes(format_, {0, process, name, ++order, is_value}, bytes_, next_track);
        visit_lanes(std::span(slices.first, slices.second), lanes);
        std::for_each(points.first, points.second, [&](const Point& point) {
            is_value ? format_.value(lanes.lane(0), point.at_ns, point.value)
                     : format_.instant(lanes.lane(0), point.at_ns,
                                       std::string_view(bytes_).substr(point.details, point.details_bytes));
            ++(is_value ? counts_.values : counts_.instants);
        });
    }
    counts_.slices = slices_.size();
    counts_.joined =
        static_cast<uint64_t>(std::ranges::count_if(slices_, [](const Slice& slice) { return slice.joined; }));
    return counts_;
}

// --- slices that overlap

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
