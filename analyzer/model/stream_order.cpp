#include "stream_order.h"

#include <algorithm>

#include "host/mapped.h"
#include "host_calls.h"
#include "host_threads.h"

namespace titan::analyzer {
namespace {

bool is_stream_call(OpKind kind) {
    return format::is_collective(kind) || kind == OpKind::kSend || kind == OpKind::kRecv || kind == OpKind::kWaitSignal;
}

Progress own_progress(const Entry& entry) {
    if (!is_stream_call(entry.kind)) {
        return Progress::kNone;
    }
    if (entry.captured) {
        return Progress::kDone;  // did not run: it was written into a graph
    }
    switch (entry.state) {
        case CallState::kEntered:
        case CallState::kLaunching:
        case CallState::kPending:
        case CallState::kStarted: return Progress::kUnfinished;
        case CallState::kGrouped: return Progress::kUnlaunched;
        case CallState::kEnqueued: return Progress::kUnknown;
        default: return Progress::kDone;
    }
}

// A call that is so young when its communicator is aborted is no wait that was given up: nobody has seen its end yet.
constexpr int64_t kLeastWaitNs = 1'000'000'000;

bool is_inside_destroy(const Process& process) {
    return std::any_of(process.threads.begin(), process.threads.end(), [&](const ThreadState& thread) {
        return process.text(thread.call).find("Destroy") != std::string::npos;
    });
}

// A stream runs in order, and NCCL runs the collectives of one communicator in order whatever their streams: something
// later that is done proves everything earlier.
void infer_done(const Process& process, std::vector<Progress>& progress) {
    std::unordered_map<uint64_t, bool> stream_passed;
    std::unordered_map<uint64_t, const Entry*> stream_at;  // the oldest call that the stream has come to
    const bool destroying = is_inside_destroy(process);
    const bool went_on = went_on_after_aborts(process);
    for (size_t i = process.entries.size(); i-- > 0;) {
        const Entry& entry = process.entries[i];
        if (progress[i] == Progress::kNone) {
            continue;
        }
        if (entry.state == CallState::kFinished) {
            stream_passed[entry.stream] = true;
            continue;
        }
        const auto at = stream_at.find(entry.stream);
        const bool together = at != stream_at.end() && ((entry.group != 0 && entry.group == at->second->group) ||
                                                        (entry.replay != 0 && entry.replay == at->second->replay));
        if (entry.device == DeviceState::kStarted || entry.device == DeviceState::kGraphStarted) {
            stream_at.emplace(entry.stream, &entry);
        }
        if ((progress[i] != Progress::kUnfinished && progress[i] != Progress::kUnknown) ||
            entry.state == CallState::kEntered) {
            continue;
        }
        const Member* member = entry.row == kNoIndex ? nullptr : &process.members[entry.row];
        const bool passed_in_communicator =
            member != nullptr && format::is_collective(entry.kind) && entry.sequence < member->finished;
        const bool gone = member != nullptr && ((member->state == CommState::kDestroyed && !destroying) ||
                                                (member->state == CommState::kAborted && member->closed_ns != 0 &&
                                                 (went_on || member->closed_ns - entry.entered_ns < kLeastWaitNs)));
        const auto passed = stream_passed.find(entry.stream);
        const bool came_later = at != stream_at.end() && !together;
        if (passed_in_communicator || gone || came_later || passed != stream_passed.end()) {
            progress[i] = Progress::kDone;
        }
    }
}

// The host waits for the GPU and nothing is known to be unfinished: then it is the newest call that nobody watched.
bool infer_from_sync(const Process& process, std::vector<Progress>& progress) {
    bool blocked = false;
    for (const ThreadState* thread : issuing_threads(process)) {
        blocked |= thread->call != 0 && HostCall(process.text(thread->call)).waits_for_gpu();
    }
    const bool known = std::find(progress.begin(), progress.end(), Progress::kUnfinished) != progress.end();
    if (!blocked || known) {
        return false;
    }
    for (size_t i = progress.size(); i-- > 0;) {
        if (progress[i] == Progress::kUnknown) {
            progress[i] = Progress::kUnfinished;
            return true;
        }
    }
    return false;
}

class HeadFinder {
  public:
    HeadFinder(const Process& process, StreamOrder& order) : process_(process), order_(order) {}

    void add(uint32_t index) {
        const Entry& entry = process_.entries[index];
        const bool collective = format::is_collective(entry.kind);
        const auto on_stream = head_of_stream_.find(entry.stream);
        const auto on_communicator = collective ? head_of_row_.find(entry.row) : head_of_row_.end();
        if (on_stream != head_of_stream_.end() && !joins(on_stream->second, entry)) {
            order_.behind.emplace(index, on_stream->second);
            return;
        }
        if (on_communicator != head_of_row_.end() && !joins(on_communicator->second, entry)) {
            order_.behind.emplace(index, on_communicator->second);
            head_of_stream_.try_emplace(entry.stream, on_communicator->second);
            return;
        }
        uint32_t head = 0;
        if (on_stream != head_of_stream_.end()) {
            head = on_stream->second;
        } else {
            head = static_cast<uint32_t>(order_.heads.size());
            order_.heads.push_back({entry.stream, entry.group, {}});
            head_of_stream_.emplace(entry.stream, head);
        }
        order_.heads[head].entries.push_back(index);
        if (collective && entry.row != kNoIndex) {
            head_of_row_.try_emplace(entry.row, head);
        }
    }

  private:
    bool joins(uint32_t head, const Entry& entry) const {
        const Entry& first = process_.entries[order_.heads[head].entries.front()];
        // The branches of a graph run side by side, and only the end of all of them is seen.
        return (entry.group != 0 && order_.heads[head].group == entry.group) ||
               (entry.replay != 0 && first.replay == entry.replay);
    }

    const Process& process_;
    StreamOrder& order_;
    std::unordered_map<uint64_t, uint32_t> head_of_stream_;
    std::unordered_map<uint32_t, uint32_t> head_of_row_;
};

}  // namespace

std::vector<Progress> local_progress(const Process& process) {
    std::vector<Progress> progress = mapped(process.entries, own_progress);
    infer_done(process, progress);
    return progress;
}

StreamOrder order_streams(const Process& process, std::vector<Progress> progress) {
    StreamOrder order;
    order.progress = std::move(progress);
    order.inferred = infer_from_sync(process, order.progress);
    HeadFinder finder(process, order);
    for (uint32_t i = 0; i < process.entries.size(); ++i) {
        if (order.progress[i] == Progress::kUnfinished) {
            finder.add(i);
        }
    }
    return order;
}

}  // namespace titan::analyzer
