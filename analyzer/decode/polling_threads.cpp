#include "polling_threads.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

// An allocator asks once in a while; a thread that waits asks in a row, until the end of its record.
constexpr uint32_t kLeastPolls = 3;
constexpr int64_t kStillPollsNs = 2'000'000'000;

}  // namespace

void take_polling_for_waiting(const format::RingImage& image, Process& process) {
    size_t index = 0;
    for (const format::ThreadRecord& record : image.threads()) {
        ThreadState& thread = process.threads[index++];
        const bool polls = thread.call == 0 && record.polls >= kLeastPolls && thread.last_call_ns != 0 &&
                           process.now_ns - thread.last_call_ns < kStillPollsNs;
        if (!polls) {
            continue;
        }
        thread.call = thread.last_call;
        thread.entered_ns = 0;
        thread.ticket = 0;
        for (const Entry& entry : process.entries) {
            thread.entered_ns =
                entry.thread == thread.thread ? std::max(thread.entered_ns, entry.entered_ns) : thread.entered_ns;
        }
        thread.entered_ns = thread.entered_ns == 0 ? thread.last_call_ns : thread.entered_ns;
    }
}

}  // namespace titan::analyzer
