#include "queue_ahead.h"

#include <fmt/format.h>

#include <algorithm>

#include "function_name.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr uint64_t kLegacyHandle = 1;  // cudaStreamLegacy
constexpr size_t kLongestName = 160;
constexpr size_t kMaxDepth = 256;  // streams that wait for one another: a hostile file must not exhaust the stack

// True if this work can keep later work on its stream from starting.
bool can_block(WorkKind kind) {
    switch (kind) {
        case WorkKind::kKernel:
        case WorkKind::kCopy:
        case WorkKind::kSet:
        case WorkKind::kHostFunction:
        case WorkKind::kGraphLaunch:
        case WorkKind::kValueWait: return true;
        default: return false;
    }
}

}  // namespace

struct QueueReader::Search {
    std::set<uint32_t> work;
    std::set<uint32_t> calls;
    std::unordered_map<uint64_t, int64_t> seen;  // stream, up to when
    size_t depth = 0;
    bool by_events = false;
    bool implicit = false;
};

QueueReader::QueueReader(const Process& process, const StreamOrder& order) : process_(process) {
    for (uint32_t i = 0; i < process.work.size(); ++i) {
        work_of_[process.work[i].stream].push_back(i);
    }
    for (uint32_t i = 0; i < process.entries.size(); ++i) {
        if (order.progress[i] == Progress::kUnfinished) {
            calls_of_[process.entries[i].stream].push_back(i);
        }
    }
}

// An unfinished call on the stream is what everything behind it waits for, and what lies ahead of that call is its own
// matter. The calls of one group, and those of one graph launch, run together.
void QueueReader::collect(uint64_t stream, int64_t before_ns, uint32_t self, Search& search) const {
    int64_t& seen = search.seen[stream];
    if (seen >= before_ns) {
        return;
    }
    seen = before_ns;
    const Entry* own = self == kNoIndex ? nullptr : &process_.entries[self];
    if (const auto calls = calls_of_.find(stream); calls != calls_of_.end()) {
        for (const uint32_t index : calls->second) {
            const Entry& call = process_.entries[index];
            const bool together = own != nullptr && ((own->group != 0 && call.group == own->group) ||
                                                     (own->replay != 0 && call.replay == own->replay));
            if (index != self && !together && call.entered_ns < before_ns) {
                search.calls.insert(index);
                return;
            }
        }
    }
    const auto pieces = work_of_.find(stream);
    if (pieces == work_of_.end()) {
        return;
    }
    // Newest first: one look at another stream then covers all older waits for it.
    for (auto place = pieces->second.rbegin(); place != pieces->second.rend(); ++place) {
        const uint32_t index = *place;
        const StreamWork& piece = process_.work[index];
        const bool own_launch = own != nullptr && own->replay != 0 && piece.kind == WorkKind::kGraphLaunch &&
                                static_cast<uint32_t>(piece.amount) == own->replay;
        if (piece.entered_ns >= before_ns || own_launch) {
            continue;
        }
        if (can_block(piece.kind)) {
            search.work.insert(index);
        } else if (piece.kind == WorkKind::kEventWait && !piece.satisfied) {
            follow(index, search);
        }
    }
}

void QueueReader::follow(uint32_t wait, Search& search) const {
    const StreamWork& piece = process_.work[wait];
    if (piece.record == kNoIndex) {
        search.work.insert(wait);  // its record was made out of our sight, or never
        return;
    }
    if (search.depth >= kMaxDepth) {
        return;
    }
    const size_t before = search.work.size() + search.calls.size();
    const StreamWork& record = process_.work[piece.record];
    ++search.depth;
    collect(record.stream, record.entered_ns, kNoIndex, search);
    --search.depth;
    search.by_events |= search.work.size() + search.calls.size() != before;
}

// The legacy default stream waits for all streams that were not made non-blocking, and they for it. Which are is not
// recorded, so this is only looked at where nothing else is ahead.
void QueueReader::collect_implicit(uint64_t stream, int64_t before_ns, uint32_t self, Search& search) const {
    for (const auto& [other, pieces] : work_of_) {
        if (other != stream && is_legacy_stream(other) != is_legacy_stream(stream)) {
            collect(other, before_ns, self, search);
        }
    }
    // A call of NCCL on the other stream may as well run beside it.
    search.calls.clear();
    search.implicit = !search.work.empty();
}

Ahead QueueReader::finished(Search& search) const {
    Ahead ahead;
    ahead.calls.assign(search.calls.begin(), search.calls.end());
    ahead.work.assign(search.work.begin(), search.work.end());
    std::ranges::stable_sort(
        ahead.work, [&](uint32_t a, uint32_t b) { return process_.work[a].entered_ns < process_.work[b].entered_ns; });
    if (ahead.work.size() > kMaxAhead) {
        ahead.more_work = ahead.work.size() - kMaxAhead;
        ahead.work.resize(kMaxAhead);
    }
    ahead.by_events = search.by_events;
    ahead.implicit = search.implicit;
    return ahead;
}

Ahead QueueReader::ahead_of(uint32_t entry) const {
    const Entry& call = process_.entries[entry];
    Search search;
    collect(call.stream, call.entered_ns, entry, search);
    if (search.work.empty() && search.calls.empty()) {
        collect_implicit(call.stream, call.entered_ns, entry, search);
    }
    return finished(search);
}

Ahead QueueReader::on_stream(uint64_t stream) const {
    Search search;
    collect(stream, INT64_MAX, kNoIndex, search);
    return finished(search);
}

Ahead QueueReader::before_record(uint64_t event) const {
    Search search;
    for (auto piece = process_.work.rbegin(); piece != process_.work.rend(); ++piece) {
        if (piece->kind == WorkKind::kEventRecord && piece->object == event) {
            collect(piece->stream, piece->entered_ns, kNoIndex, search);
            break;
        }
    }
    return finished(search);
}

Ahead QueueReader::anywhere() const {
    Search search;
    for (const auto& [stream, pieces] : work_of_) {
        collect(stream, INT64_MAX, kNoIndex, search);
    }
    for (const auto& [stream, calls] : calls_of_) {
        collect(stream, INT64_MAX, kNoIndex, search);
    }
    return finished(search);
}

bool is_legacy_stream(uint64_t stream) { return stream <= kLegacyHandle; }

bool waits_by_default_stream(const Process& process) {
    return std::ranges::any_of(process.work, [](const StreamWork& piece) { return is_legacy_stream(piece.stream); });
}

std::string work_text(const Process& process, const StreamWork& work) {
    const std::string& name = process.text(work.name);
    const std::string& call = process.text(work.call);
    const std::string by = call.empty() ? std::string() : " (" + call + ")";
    switch (work.kind) {
        case WorkKind::kKernel:
            return name.empty() || name == call ? "a kernel of unknown name" + by : "kernel " + short_kernel_name(name);
        case WorkKind::kCopy: return fmt::format("a copy of {} bytes{}", grouped_digits(work.amount), by);
        case WorkKind::kSet: return fmt::format("a memory set of {} bytes{}", grouped_digits(work.amount), by);
        case WorkKind::kHostFunction: return "a host function" + by;
        case WorkKind::kGraphLaunch:
            return work.amount == 0 ? "a graph launch" : fmt::format("graph launch (replay {})", work.amount);
        case WorkKind::kValueWait: return "a wait for a value in memory" + by;
        case WorkKind::kEventWait: return "a wait for an event whose record was not seen";
        default: return std::string(format::name_of(work.kind)) + by;
    }
}

std::string work_details(const Process& process, const StreamWork& work) {
    const std::string& name = process.text(work.name);
    const bool kernel = work.kind == WorkKind::kKernel && !name.empty() && name != process.text(work.call);
    std::string text = kernel ? "kernel " + full_kernel_name(name) : work_text(process, work);
    if (text.size() > kLongestName) {
        text = printable(text.substr(0, kLongestName)) + "...";
    }
    if (work.kind == WorkKind::kKernel && work.amount != 0) {
        text += fmt::format(" of {}", many_counted(work.amount, "thread block"));
    }
    text += is_legacy_stream(work.stream) ? std::string(" on the legacy default stream")
                                          : fmt::format(" on stream {:#x}", work.stream);
    return text + ", handed over " + duration_text(process.now_ns - work.entered_ns) + " before the dump";
}

}  // namespace titan::analyzer
