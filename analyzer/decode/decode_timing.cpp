#include "decode_timing.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace titan::analyzer {
namespace {

using format::CudaCallEntry;
using format::MarkerEntry;
using format::MarkerKind;
using format::StreamWorkEntry;

struct Interval {
    int64_t begin_ns;
    int64_t end_ns;
};

// Intervals that may overlap, and how much of the time before a moment they cover.
class Covered {
  public:
    void add(int64_t begin_ns, int64_t end_ns) {
        if (begin_ns > 0 && end_ns >= begin_ns) {
            parts_.push_back({begin_ns, end_ns});
        }
    }
    void finish() {
        const auto by_begin = [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; };
        if (!std::is_sorted(parts_.begin(), parts_.end(), by_begin)) {
            std::sort(parts_.begin(), parts_.end(), by_begin);
        }
        size_t kept = 0;
        for (const Interval& part : parts_) {
            if (kept != 0 && part.begin_ns <= parts_[kept - 1].end_ns) {
                parts_[kept - 1].end_ns = std::max(parts_[kept - 1].end_ns, part.end_ns);
            } else {
                parts_[kept++] = part;
            }
        }
        parts_.resize(kept);
        sums_.resize(kept + 1, 0);
        for (size_t i = 0; i < kept; ++i) {
            sums_[i + 1] = sums_[i] + parts_[i].end_ns - parts_[i].begin_ns;
        }
    }
    int64_t before(int64_t moment_ns) const {
        const size_t i = first_after(moment_ns);
        const int64_t beyond = i == 0 ? 0 : std::max<int64_t>(0, parts_[i - 1].end_ns - moment_ns);
        return sums_[i] - beyond;
    }
    int64_t within(int64_t begin_ns, int64_t end_ns) const { return before(end_ns) - before(begin_ns); }
    // The first part that begins at or after the moment.
    std::optional<Interval> next(int64_t moment_ns) const {
        const auto found = std::lower_bound(parts_.begin(), parts_.end(), moment_ns,
                                            [](const Interval& part, int64_t value) { return part.begin_ns < value; });
        return found == parts_.end() ? std::nullopt : std::optional(*found);
    }
    int64_t longest_gap(int64_t begin_ns, int64_t end_ns) const {
        int64_t longest = 0;
        int64_t since = begin_ns;
        size_t i = first_after(begin_ns);
        since = i == 0 ? since : std::max(since, parts_[i - 1].end_ns);
        for (; i < parts_.size() && parts_[i].begin_ns < end_ns; ++i) {
            longest = std::max(longest, parts_[i].begin_ns - since);
            since = parts_[i].end_ns;
        }
        return std::max(longest, end_ns - since);
    }

  private:
    // Index of the first part that begins after the moment.
    size_t first_after(int64_t moment_ns) const {
        const auto found = std::upper_bound(parts_.begin(), parts_.end(), moment_ns,
                                            [](int64_t value, const Interval& part) { return value < part.begin_ns; });
        return static_cast<size_t>(found - parts_.begin());
    }

    std::vector<Interval> parts_;
    std::vector<int64_t> sums_{0};
};

uint64_t bytes_of(const Entry& entry) {
    const uint64_t size = format::datatype_size_bytes(entry.datatype);
    return size != 0 && entry.count > UINT64_MAX / size ? 0 : entry.count * size;
}

bool has_steps(const Process& process, const Member& member) {
    return !member.calls.empty() && process.entries[member.calls.back()].step >= 0;
}

// A step of which the ring may have lost the beginning has no first call that all members agree on.
int32_t cut_step(const Process& process) {
    if (process.overwritten == 0 || process.entries.empty()) {
        return -1;
    }
    return process.entries.front().step;
}

// Chooses the first call of each step, the largest and the last.
void choose_by_step(const Process& process, const Member& member, std::vector<uint32_t>& chosen) {
    const int32_t cut = cut_step(process);
    const auto step_of = [&](uint32_t index) { return process.entries[index].step; };
    const auto is_smaller = [&](uint32_t a, uint32_t b) {
        return bytes_of(process.entries[a]) < bytes_of(process.entries[b]);
    };
    for (auto first = member.calls.begin(), end = first; first != member.calls.end(); first = end) {
        const int32_t step = step_of(*first);
        end = std::find_if(first, member.calls.end(), [&](uint32_t index) { return step_of(index) != step; });
        if (step >= 0 && step != cut) {
            chosen.insert(chosen.end(), {*first, *std::max_element(first, end, is_smaller), *std::prev(end)});
        }
    }
}

void choose_by_number(const Process& process, const Member& member, std::vector<uint32_t>& chosen) {
    const size_t share = kMaxArrivals / 3;
    uint64_t every = 1;
    while (member.calls.size() / every > share) {
        every *= 3;
    }
    for (const uint32_t index : member.calls) {
        if (process.entries[index].sequence % every == 0) {
            chosen.push_back(index);
        }
    }
}

// If another recorder timed the call, its duration is exact, but its moment is not: it is counted from the host's call.
std::pair<int64_t, int64_t> device_times(const Process& process, const Entry& entry) {
    if (process.sees.moments) {
        return {entry.started_ns, entry.finished_ns};
    }
    const bool timed = entry.started_ns != 0 && entry.finished_ns > entry.started_ns && entry.entered_ns > 0;
    return timed ? std::pair(entry.entered_ns, entry.entered_ns + (entry.finished_ns - entry.started_ns))
                 : std::pair<int64_t, int64_t>(0, 0);
}

void keep_arrivals(const Covered& waited, Process& process) {
    std::vector<uint32_t> chosen;
    for (Member& member : process.members) {
        member.arrivals.clear();
        has_steps(process, member) ? choose_by_step(process, member, chosen)
                                   : choose_by_number(process, member, chosen);
    }
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    if (chosen.size() > kMaxArrivals) {
        chosen.erase(chosen.begin(), chosen.end() - static_cast<std::ptrdiff_t>(kMaxArrivals));
    }
    for (const uint32_t index : chosen) {
        const Entry& entry = process.entries[index];
        Arrival arrival;
        arrival.sequence = entry.sequence;
        arrival.bytes = bytes_of(entry);
        arrival.entered_ns = entry.entered_ns;
        std::tie(arrival.started_ns, arrival.ended_ns) = device_times(process, entry);
        arrival.step = entry.step;
        arrival.kind = entry.kind;
        arrival.waited_ns = waited.before(arrival.arrived_ns());
        const bool told = process.sees.moments || arrival.started_ns != 0;
        if (entry.entered_ns > 0 && !entry.captured && told) {
            process.members[entry.row].arrivals.push_back(arrival);
        }
    }
    for (Member& member : process.members) {
        const auto by_sequence = [](const Arrival& a, const Arrival& b) { return a.sequence < b.sequence; };
        std::sort(member.arrivals.begin(), member.arrivals.end(), by_sequence);
        member.arrivals.shrink_to_fit();
    }
}

void cover_device_times(const Process& process, Covered& covered) {
    for (const Entry& entry : process.entries) {
        if (entry.finished_ns != 0) {
            covered.add(entry.started_ns, entry.finished_ns);
        }
    }
}

// Activity of the threads that issue NCCL's calls; other threads (loaders, savers) do not delay a step.
struct HostTime {
    std::unordered_set<uint32_t> threads;
    Covered sync, copy, memory, load, nccl;
    std::vector<int64_t> memory_calls;  // sorted
    Covered blocked;                    // all of them
    Covered any_call;
    std::vector<int64_t> launches;  // sorted
    std::vector<int64_t> kernels;   // those of them that are no events: kernels, copies, graphs
    int64_t launches_since_ns = 0;  // all that were made since then are known
};

HostTime read_host_time(const format::RingImage& image, const Process& process) {
    const format::RingClock& clock = image.clock();
    HostTime host;
    for (const Entry& entry : process.entries) {
        host.threads.insert(entry.thread);
        const int64_t returned_ns = entry.replay != 0 ? entry.entered_ns : entry.returned_ns;
        host.nccl.add(entry.entered_ns, returned_ns);
        host.blocked.add(entry.entered_ns, returned_ns);
        host.any_call.add(entry.entered_ns, returned_ns);
    }
    std::unordered_map<uint32_t, Covered*> kind_of_name;
    image.for_each_cuda_call([&](uint64_t, const CudaCallEntry& call) {
        if (!host.threads.contains(call.thread) || call.returned_ticks == 0) {
            return;
        }
        auto [kind, inserted] = kind_of_name.try_emplace(call.name, &host.memory);
        if (inserted) {
            const std::string_view name = image.text(call.name);
            const auto says = [name](std::string_view word) { return name.find(word) != std::string_view::npos; };
            kind->second = says("Synchronize")                                 ? &host.sync
                           : says("Memcpy") || says("Memset")                  ? &host.copy
                           : says("Module") || says("Library") || says("Link") ? &host.load
                                                                               : &host.memory;
        }
        const int64_t entered_ns = clock.realtime_ns(call.entered_ticks);
        const int64_t returned_ns = clock.realtime_ns(call.returned_ticks);
        kind->second->add(entered_ns, returned_ns);
        if (kind->second == &host.memory) {
            host.memory_calls.push_back(entered_ns);
        }
        host.blocked.add(entered_ns, returned_ns);
        host.any_call.add(entered_ns, returned_ns);
    });
    const auto losses = image.for_each_stream_work([&](uint64_t, const StreamWorkEntry& work) {
        const int64_t entered_ns = clock.realtime_ns(work.entered_ticks);
        if (host.threads.contains(work.thread)) {
            host.any_call.add(entered_ns, entered_ns);
            host.launches.push_back(entered_ns);
            if (work.kind != WorkKind::kEventRecord && work.kind != WorkKind::kEventWait) {
                host.kernels.push_back(entered_ns);
            }
        }
    });
    std::sort(host.launches.begin(), host.launches.end());
    std::sort(host.kernels.begin(), host.kernels.end());
    std::sort(host.memory_calls.begin(), host.memory_calls.end());
    host.launches_since_ns = losses.overwritten == 0 ? 0 : host.launches.empty() ? INT64_MAX : host.launches.front();
    for (Covered* covered :
         {&host.sync, &host.copy, &host.memory, &host.load, &host.nccl, &host.blocked, &host.any_call}) {
        covered->finish();
    }
    return host;
}

// A stretch of one thread in its innermost span.
struct Stretch {
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t name;  // id in the ring
};

struct Marks {
    std::vector<StepProfile> steps;
    std::vector<Stretch> stretches;
};

// The open spans of a thread, from its markers.
class SpanStack {
  public:
    void begin(int64_t now_ns, uint32_t name, std::vector<Stretch>& stretches) {
        close(now_ns, stretches);
        names_.push_back(name);
    }
    void end(int64_t now_ns, int64_t begun_ns, uint32_t name, std::vector<Stretch>& stretches) {
        if (names_.empty()) {  // its begin is overwritten, but the end knows when it was
            const int64_t from_ns = std::max(begun_ns, since_ns_);
            if (from_ns > 0 && from_ns < now_ns) {
                stretches.push_back({from_ns, now_ns, name});
            }
            since_ns_ = now_ns;
            return;
        }
        close(now_ns, stretches);
        names_.pop_back();
    }

  private:
    void close(int64_t now_ns, std::vector<Stretch>& stretches) {
        if (!names_.empty() && since_ns_ < now_ns) {
            stretches.push_back({since_ns_, now_ns, names_.back()});
        }
        since_ns_ = now_ns;
    }

    std::vector<uint32_t> names_;
    int64_t since_ns_ = 0;
};

// Where no thread calls NCCL, those that mark steps are the ones that work.
Marks read_marks(const format::RingImage& image, std::unordered_set<uint32_t> threads) {
    const bool calls_nccl = !threads.empty();
    const format::RingClock& clock = image.clock();
    Marks marks;
    std::unordered_map<uint32_t, SpanStack> stacks;
    image.for_each_marker([&](uint64_t, const MarkerEntry& marker) {
        const int64_t now_ns = clock.realtime_ns(marker.ticks);
        if (now_ns <= 0) {
            return;
        }
        if (marker.kind == MarkerKind::kStep) {
            const auto step = static_cast<int32_t>(std::min<uint64_t>(marker.value, INT32_MAX));
            if (!marks.steps.empty() && (marks.steps.back().step == step || marks.steps.back().begin_ns > now_ns)) {
                return;
            }
            if (!marks.steps.empty()) {
                marks.steps.back().end_ns = now_ns;
            }
            StepProfile profile;
            profile.begin_ns = now_ns;
            profile.step = step;
            marks.steps.push_back(profile);
            if (!calls_nccl) {
                threads.insert(marker.thread);
            }
        } else if (!threads.contains(marker.thread) || (marker.detail & format::kSpanOfTask) != 0) {
            return;  // spans of tasks take turns on their thread
        } else if (marker.kind == MarkerKind::kSpanBegin) {
            stacks[marker.thread].begin(now_ns, marker.name, marks.stretches);
        } else if (marker.kind == MarkerKind::kSpanEnd) {
            const int64_t begun_ns = clock.realtime_ns(marker.value);
            stacks[marker.thread].end(now_ns, begun_ns, marker.name, marks.stretches);
        }
    });
    if (!marks.steps.empty()) {
        marks.steps.pop_back();  // has not ended
    }
    return marks;
}

void measure(const HostTime& host, StepProfile& step) {
    step.sync_ns = host.sync.within(step.begin_ns, step.end_ns);
    step.copy_ns = host.copy.within(step.begin_ns, step.end_ns);
    step.memory_ns = host.memory.within(step.begin_ns, step.end_ns);
    step.load_ns = host.load.within(step.begin_ns, step.end_ns);
    step.nccl_ns = host.nccl.within(step.begin_ns, step.end_ns);
    const auto in_step = [&step](const std::vector<int64_t>& sorted) {
        const auto first = std::lower_bound(sorted.begin(), sorted.end(), step.begin_ns);
        return static_cast<uint32_t>(std::lower_bound(first, sorted.end(), step.end_ns) - first);
    };
    step.memory_calls = in_step(host.memory_calls);
    if (step.begin_ns < host.launches_since_ns) {
        return;
    }
    step.launches = in_step(host.kernels);
    step.gap_ns = host.any_call.longest_gap(step.begin_ns, step.end_ns);
}

void measure_spans(const HostTime& host, const std::vector<Stretch>& stretches, TextTable& texts, Process& process) {
    std::vector<std::unordered_map<uint32_t, SpanTime>> of_step(process.steps.size());
    for (const Stretch& stretch : stretches) {
        const auto found = std::upper_bound(process.steps.begin(), process.steps.end(), stretch.begin_ns,
                                            [](int64_t value, const StepProfile& step) { return value < step.end_ns; });
        for (auto step = found; step != process.steps.end() && step->begin_ns < stretch.end_ns; ++step) {
            const int64_t begin_ns = std::max(stretch.begin_ns, step->begin_ns);
            const int64_t end_ns = std::min(stretch.end_ns, step->end_ns);
            if (begin_ns < end_ns) {
                SpanTime& span = of_step[static_cast<size_t>(step - process.steps.begin())][stretch.name];
                span.busy_ns += end_ns - begin_ns - host.blocked.within(begin_ns, end_ns);
                span.ended_ns = std::max(span.ended_ns, end_ns - step->begin_ns);
            }
        }
    }
    for (size_t i = 0; i < of_step.size(); ++i) {
        std::vector<SpanTime> spans;
        for (auto& [name, span] : of_step[i]) {
            span.name = name;
            spans.push_back(span);
        }
        std::sort(spans.begin(), spans.end(), [](const SpanTime& a, const SpanTime& b) {
            return std::tie(b.busy_ns, a.name) < std::tie(a.busy_ns, b.name);
        });
        spans.resize(std::min(spans.size(), kMaxSpansOfStep));
        process.steps[i].first_span = static_cast<uint32_t>(process.step_spans.size());
        process.steps[i].span_count = static_cast<uint32_t>(spans.size());
        for (SpanTime& span : spans) {
            span.name = texts.use(span.name);
            process.step_spans.push_back(span);
        }
    }
}

void place_steps(const Process& process, std::vector<StepProfile>& steps) {
    uint32_t place = 0;
    for (StepProfile& step : steps) {
        while (place < process.entries.size() && process.entries[place].entered_ns < step.begin_ns) {
            ++place;
        }
        step.first_call = place;
    }
}

uint32_t in_units(int64_t since_ns) {
    return static_cast<uint32_t>(std::clamp<int64_t>(since_ns / CallTimes::kUnitNs, 0, kNoIndex - 1));
}

// Where no GPU is watched, a synchronisation tells when the calls before it had ended: those of which it is the next.
int64_t synchronized_ns(const Process& process, const HostTime& host, size_t place) {
    const Entry& entry = process.entries[place];
    const auto part = host.sync.next(entry.entered_ns);
    const bool next =
        place + 1 == process.entries.size() || (part && process.entries[place + 1].entered_ns >= part->begin_ns);
    return part && next ? part->end_ns : 0;
}

void keep_call_times(const HostTime& host, Process& process) {
    const size_t first = process.entries.size() > kMaxCallTimes ? process.entries.size() - kMaxCallTimes : 0;
    process.call_times.clear();
    process.call_times.reserve(process.entries.size() - first);
    int64_t before_ns = first < process.entries.size() ? process.entries[first].entered_ns : 0;
    process.call_times_from_ns = before_ns;
    for (size_t i = first; i < process.entries.size(); ++i) {
        const Entry& entry = process.entries[i];
        CallTimes times;
        times.since_before = in_units(entry.entered_ns - before_ns);
        before_ns += int64_t{times.since_before} * CallTimes::kUnitNs;
        // Short ones are seen to start and to end at one look: they came shortly before it.
        if (entry.started_ns != 0 && (entry.started_ns != entry.finished_ns || !process.starts_with_ends)) {
            times.started = in_units(entry.started_ns - before_ns);
        }
        const int64_t ended_ns = process.gpu_progress ? entry.finished_ns : synchronized_ns(process, host, i);
        if (ended_ns != 0) {
            times.ended = in_units(ended_ns - before_ns);
        }
        times.sequence = entry.sequence == kNoSequence
                             ? CallTimes::kWithBefore - 1
                             : static_cast<uint32_t>(entry.sequence) & (CallTimes::kWithBefore - 1);
        if (i != first && entry.group != 0 && entry.group == process.entries[i - 1].group) {
            times.sequence |= CallTimes::kWithBefore;
        }
        process.call_times.push_back(times);
    }
}

}  // namespace

void sample_arrivals(Process& process) {
    keep_arrivals(Covered(), process);
    sum_durations(process);
}

void decode_timing(const format::RingImage& image, TextTable& texts, Process& process) {
    const HostTime host = read_host_time(image, process);
    Covered waited;
    cover_device_times(process, waited);
    waited.finish();
    keep_arrivals(process.starts_seen ? waited : host.sync, process);
    Marks marks = read_marks(image, host.threads);
    process.steps_by_period = marks.steps.empty() && process.step < 0;
    process.steps = process.steps_by_period ? steps_by_period(process, host.launches, host.launches_since_ns)
                                            : std::move(marks.steps);
    if (process.steps.size() > kMaxSteps) {
        process.steps.erase(process.steps.begin(), process.steps.end() - static_cast<std::ptrdiff_t>(kMaxSteps));
    }
    place_steps(process, process.steps);
    process.step_streams = step_streams(image, process);
    keep_call_times(host, process);
    for (StepProfile& step : process.steps) {
        measure(host, step);
    }
    measure_spans(host, marks.stretches, texts, process);
}

}  // namespace titan::analyzer
