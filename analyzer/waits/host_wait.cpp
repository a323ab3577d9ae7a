#include "host_wait.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/words.h"
#include "host_calls.h"
#include "host_threads.h"
#include "run_text.h"
#include "wait_graph.h"

namespace titan::analyzer {
namespace {

// A launch that takes longer than this waits for room in the queue.
constexpr int64_t kLongLaunchNs = 1'000'000'000;

}  // namespace

Ahead awaited_by(const Process& process, const ThreadState& thread, const QueueReader& queues) {
    const HostCall call(process.text(thread.call));
    const bool launches = call.launches() && process.now_ns - thread.entered_ns > kLongLaunchNs;
    if (!call.waits_for_gpu() && !launches) {
        return {};
    }
    if (call.of_event()) {
        return queues.before_record(thread.object);
    }
    if (call.of_stream() || launches) {
        return queues.on_stream(thread.object);
    }
    return call.of_device() ? queues.anywhere() : Ahead{};
}

std::string awaited_text(const Run& run, const Process& process, const ThreadState& thread, const QueueReader& queues) {
    const Ahead ahead = awaited_by(process, thread, queues);
    const auto oldest = std::ranges::min_element(ahead.calls, [&](uint32_t a, uint32_t b) {
        return process.entries[a].entered_ns < process.entries[b].entered_ns;
    });
    if (oldest != ahead.calls.end()) {
        const Entry& entry = process.entries[*oldest];
        const uint32_t communicator = entry.row == kNoIndex ? kNoIndex : process.members[entry.row].communicator;
        return communicator == kNoIndex ? std::string()
                                        : call_text(run.communicators[communicator], entry.kind, entry.sequence);
    }
    if (ahead.work.empty()) {
        return {};
    }
    const std::string first = work_text(process, process.work[ahead.work.front()]);
    return ahead.size() == 1
               ? first
               : fmt::format("one of {} pieces of work, the oldest {}", grouped_digits(ahead.size()), first);
}

}  // namespace titan::analyzer
