#include "decode_device.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "host_threads.h"

namespace titan::analyzer {
namespace {

using format::CollectiveEntry;
using format::CudaCallEntry;
using format::StreamWorkEntry;

// Newest pieces that are kept of a process. A stream takes in about a thousand launches before the host blocks.
constexpr size_t kMaxWork = 8192;
constexpr size_t kMaxChannels = 4096;

struct RawWork {
    StreamWorkEntry entry;
    uint32_t record = kNoIndex;
    bool done = false;
};

// Progress of each stream: everything handed over before that tick is known to be done.
class DoneStreams {
  public:
    void note(uint64_t stream, uint64_t ticks) {
        uint64_t& until = until_[stream];
        until = std::max(until, ticks);
    }
    void note_all(uint64_t ticks) { all_ = std::max(all_, ticks); }
    bool is_done(uint64_t stream, uint64_t ticks) const {
        const auto found = until_.find(stream);
        return ticks <= all_ || (found != until_.end() && ticks <= found->second);
    }

  private:
    std::unordered_map<uint64_t, uint64_t> until_;
    uint64_t all_ = 0;
};

std::vector<RawWork> read_work(const format::RingImage& image, StreamCoverage& coverage) {
    std::vector<RawWork> work;
    const auto losses = image.for_each_stream_work([&](uint64_t ticket, const StreamWorkEntry& entry) {
        coverage.recorded = std::max(coverage.recorded, ticket + 1);
        if ((entry.flags & format::kWorkCaptured) == 0) {
            work.push_back({entry, kNoIndex, false});
        }
    });
    coverage.overwritten = losses.overwritten;
    coverage.torn = losses.torn;
    return work;
}

// An event wait waits for the newest record of its event before it, whichever thread and stream made that.
void resolve_waits(std::vector<RawWork>& work) {
    std::unordered_map<uint64_t, uint32_t> newest;
    for (uint32_t i = 0; i < work.size(); ++i) {
        const StreamWorkEntry& entry = work[i].entry;
        if (entry.kind == WorkKind::kEventRecord) {
            newest[entry.object] = i;
        } else if (entry.kind == WorkKind::kEventWait) {
            const auto found = newest.find(entry.object);
            work[i].record = found == newest.end() ? kNoIndex : found->second;
        }
    }
}

void note_calls(const format::RingImage& image, uint64_t until_ticks, DoneStreams& done) {
    image.for_each_collective([&](uint64_t, const CollectiveEntry& raw) {
        const DeviceState state = device_state(raw, image);
        if (raw.gpu_started_ticks >= until_ticks) {
            return;
        }
        if (state == DeviceState::kFinished && raw.gpu_finished_ticks < until_ticks) {
            done.note(raw.stream, raw.entered_ticks);
        } else if ((state == DeviceState::kStarted || state == DeviceState::kGraphStarted ||
                    (state == DeviceState::kFinished && raw.gpu_started_ticks != 0)) &&
                   raw.entered_ticks != 0) {
            done.note(raw.stream, raw.entered_ticks - 1);  // its stream came to it
        }
    });
}

bool has_several_devices(const Process& process) {
    int32_t device = -1;
    for (const Member& member : process.members) {
        if (member.device >= 0 && device >= 0 && member.device != device) {
            return true;
        }
        device = std::max(device, member.device);
    }
    return false;
}

// The host waited for the GPU and came back without an error.
void note_synchronisations(const format::RingImage& image, const std::vector<RawWork>& work, bool several_devices,
                           uint64_t until_ticks, DoneStreams& done) {
    std::unordered_map<uint64_t, std::vector<uint32_t>> records;  // records of each event, in ring order
    for (uint32_t i = 0; i < work.size(); ++i) {
        if (work[i].entry.kind == WorkKind::kEventRecord) {
            records[work[i].entry.object].push_back(i);
        }
    }
    image.for_each_cuda_call([&](uint64_t, const CudaCallEntry& call) {
        if (call.returned_ticks == 0 || call.returned_ticks >= until_ticks || call.result != 0) {
            return;
        }
        const std::string_view name = image.text(call.name);
        if (name.find("StreamSynchronize") != std::string_view::npos) {
            done.note(call.object, call.entered_ticks);
        } else if (name.find("DeviceSynchronize") != std::string_view::npos ||
                   name.find("CtxSynchronize") != std::string_view::npos) {
            if (!several_devices) {
                done.note_all(call.entered_ticks);
            }
        } else if (name.find("EventSynchronize") != std::string_view::npos) {
            const auto of_event = records.find(call.object);
            if (of_event == records.end()) {
                return;
            }
            for (auto i = of_event->second.rbegin(); i != of_event->second.rend(); ++i) {
                if (work[*i].entry.entered_ticks <= call.entered_ticks) {
                    done.note(work[*i].entry.stream, work[*i].entry.entered_ticks);
                    return;
                }
            }
        }
    });
}

// Goes from the newest to the oldest: a wait that is done proves that its record, which is older, is done.
void find_done(std::vector<RawWork>& work, DoneStreams& done) {
    for (size_t i = work.size(); i-- > 0;) {
        const StreamWorkEntry& entry = work[i].entry;
        work[i].done = done.is_done(entry.stream, entry.entered_ticks);
        if (work[i].done && work[i].record != kNoIndex) {
            const StreamWorkEntry& record = work[work[i].record].entry;
            done.note(record.stream, record.entered_ticks);
        }
    }
}

// What the streams were through with by then, also piece by piece in `work`.
DoneStreams done_until(const format::RingImage& image, const Process& process, std::vector<RawWork>& work,
                       uint64_t until_ticks) {
    DoneStreams done;
    note_calls(image, until_ticks, done);
    note_synchronisations(image, work, has_several_devices(process), until_ticks, done);
    find_done(work, done);
    return done;
}

void undo_end(Entry& entry, Member& member) {
    const bool seen = entry.started_ns != 0;
    const bool started = seen && entry.started_ns < member.closed_ns;
    entry.state = started ? CallState::kStarted : CallState::kPending;
    entry.device = started ? DeviceState::kStarted : seen ? DeviceState::kNotReached : DeviceState::kUnknown;
    entry.started_ns = started ? entry.started_ns : 0;
    entry.finished_ns = 0;
    if (format::is_collective(entry.kind) && entry.sequence != kNoSequence) {
        member.finished = std::min(member.finished, entry.sequence);
    }
}

void keep_unfinished(const std::vector<RawWork>& raw, const format::RingClock& clock, TextTable& texts,
                     Process& process) {
    size_t unfinished = 0;
    for (const RawWork& work : raw) {
        unfinished += work.done ? 0 : 1;
    }
    size_t to_skip = unfinished > kMaxWork ? unfinished - kMaxWork : 0;
    process.streams_seen.cut = to_skip != 0;
    std::vector<uint32_t> place(raw.size(), kNoIndex);
    std::unordered_map<uint32_t, uint32_t> ended;  // key: id in the ring
    process.work.reserve(unfinished - to_skip);
    for (uint32_t i = 0; i < raw.size(); ++i) {
        const StreamWorkEntry& entry = raw[i].entry;
        if (raw[i].done) {
            ended[entry.name] += entry.kind == WorkKind::kEventWait || entry.kind == WorkKind::kEventRecord ? 0 : 1;
            continue;
        }
        if (to_skip != 0) {
            --to_skip;
            continue;
        }
        place[i] = static_cast<uint32_t>(process.work.size());
        StreamWork work;
        work.stream = entry.stream;
        work.object = entry.object;
        work.amount = entry.amount;
        work.entered_ns = clock.realtime_ns(entry.entered_ticks);
        work.name = texts.use(entry.name);
        work.call = texts.use(entry.call);
        work.kind = entry.kind;
        if (raw[i].record != kNoIndex) {
            work.record = place[raw[i].record];
            work.satisfied = raw[raw[i].record].done;
        }
        process.work.push_back(work);
    }
    // Only names that are asked for later: those of unfinished work, here and on other ranks. Few programs have many.
    for (const auto& [id, count] : ended) {
        if (count != 0) {
            process.work_done.emplace_back(texts.use(id), count);
        }
    }
    std::sort(process.work_done.begin(), process.work_done.end());
}

// Calls whose end nobody watched, on streams that the host waited for since.
void finish_unwatched_calls(const format::RingImage& image, const DoneStreams& done, Process& process) {
    image.for_each_collective([&](uint64_t ticket, const CollectiveEntry& raw) {
        if (raw.state != CallState::kEnqueued || raw.returned_ticks == 0 ||
            !done.is_done(raw.stream, raw.returned_ticks)) {
            return;
        }
        if (const Entry* entry = process.entry_of_ticket(ticket); entry != nullptr && !entry->captured) {
            Entry& ended = process.entries[static_cast<size_t>(entry - process.entries.data())];
            ended.state = CallState::kFinished;
            ended.device = DeviceState::kFinished;
        }
    });
}

}  // namespace

DeviceState device_state(const CollectiveEntry& raw, const format::RingImage& image) {
    if ((raw.flags & format::kCaptured) != 0 || raw.state == CallState::kCaptured) {
        return DeviceState::kUnknown;  // the device ran the launch of its graph, not the call itself
    }
    const auto marks = image.launch_marks(raw.launch);
    const bool channels_done = raw.channels != 0 && raw.channels_finished >= raw.channels;
    if (raw.state == CallState::kFinished || raw.gpu_finished_ticks != 0 || channels_done ||
        (marks && marks->finished == raw.launch)) {
        return DeviceState::kFinished;
    }
    if (raw.channels_started != 0) {
        return DeviceState::kStarted;
    }
    if (raw.state == CallState::kStarted || raw.gpu_started_ticks != 0 || (marks && marks->started == raw.launch)) {
        return (raw.flags & format::kReplayed) != 0 ? DeviceState::kGraphStarted : DeviceState::kStarted;
    }
    const bool watched =
        raw.state == CallState::kPending && format::marks_of(image.header(), raw) == format::GpuProgressMethod::kWrites;
    // A row with a later number was taken over by a later launch and tells nothing.
    return watched && marks && marks->started < raw.launch ? DeviceState::kNotReached : DeviceState::kUnknown;
}

void complete_device_states(Process& process) {
    for (const Entry& entry : process.entries) {
        process.starts_seen |= entry.started_ns != 0;
    }
    const bool polled = process.gpu_method == format::GpuProgressMethod::kEvents ||
                        process.gpu_method == format::GpuProgressMethod::kTiming;
    for (Entry& entry : process.entries) {
        const bool handed_over = entry.state == CallState::kPending || entry.state == CallState::kStarted ||
                                 entry.state == CallState::kEnqueued || entry.state == CallState::kLaunching;
        if (polled && process.starts_seen && entry.state == CallState::kPending &&
            entry.device == DeviceState::kUnknown && !entry.captured) {
            entry.device = DeviceState::kNotReached;
        } else if (entry.device == DeviceState::kFinished && handed_over) {
            entry.state = CallState::kFinished;
        } else if (entry.device == DeviceState::kStarted && handed_over) {
            entry.state = CallState::kStarted;
        }
    }
}

void undo_ends_by_abort(const format::RingImage& image, Process& process) {
    std::map<uint32_t, std::vector<uint32_t>> late;  // row of an aborted communicator -> calls seen to end since
    for (uint32_t i = 0; i < process.entries.size(); ++i) {
        const Entry& entry = process.entries[i];
        if (entry.row == kNoIndex || entry.state != CallState::kFinished) {
            continue;
        }
        const Member& member = process.members[entry.row];
        if (member.state == format::CommState::kAborted && member.closed_ns != 0 &&
            entry.finished_ns >= member.closed_ns) {
            late[entry.row].push_back(i);
        }
    }
    if (late.empty()) {
        return;
    }
    StreamCoverage unused;
    std::vector<RawWork> work = read_work(image, unused);
    resolve_waits(work);
    for (const auto& [row, calls] : late) {
        Member& member = process.members[row];
        const DoneStreams before = done_until(image, process, work, image.clock().ticks_at_realtime(member.closed_ns));
        for (const uint32_t call : calls) {
            Entry& entry = process.entries[call];
            if (entry.returned_ns == 0 ||
                !before.is_done(entry.stream, image.clock().ticks_at_realtime(entry.returned_ns))) {
                undo_end(entry, member);
            }
        }
    }
}

void decode_stream_work(const OpenedSource& opened, TextTable& texts, Process& process) {
    const format::RingImage& image = opened.image;
    StreamCoverage& coverage = process.streams_seen;
    std::vector<RawWork> work = read_work(image, coverage);
    for (const ThreadState& thread : process.threads) {
        coverage.launches += thread.launches;
    }
    // Each thread may be between the count and the entry.
    const uint64_t slack = process.threads.size() + coverage.torn;
    coverage.sampled = opened.launch_sample != 1 || coverage.launches > coverage.recorded + slack;
    if (!work.empty()) {
        coverage.oldest_ns = image.clock().realtime_ns(work.front().entry.entered_ticks);
    }
    resolve_waits(work);
    // What returned or ended since the process gave up does not show that the GPU came to it.
    const int64_t until_ns = gave_up_ns(process);
    const DoneStreams done =
        done_until(image, process, work, until_ns == 0 ? UINT64_MAX : image.clock().ticks_at_realtime(until_ns));
    finish_unwatched_calls(image, done, process);
    keep_unfinished(work, image.clock(), texts, process);
}

void decode_channels(const format::RingImage& image, Process& process) {
    image.for_each_channel([&](uint64_t, const format::ChannelEntry& raw) {
        const Entry* entry = raw.collective == 0 ? nullptr : process.entry_of_ticket(raw.collective - 1);
        if (entry == nullptr || entry->state == CallState::kFinished || process.channels.size() >= kMaxChannels) {
            return;
        }
        process.channels.push_back({static_cast<uint32_t>(entry - process.entries.data()), raw.steps, raw.steps_done,
                                    raw.peer, raw.channel, raw.role, raw.state});
    });
}

}  // namespace titan::analyzer
