#include "later_step.h"

#include <algorithm>

#include "call_order.h"

namespace titan::analyzer {
namespace {

// Do the two number their common calls alike: the same call, the same step? Threads that run on their own do not.
bool keep_steps_together(const Process& a, const Member& one, const Process& b, const Member& other) {
    constexpr size_t kCompared = 16;
    for (size_t i = one.call_log.size(), seen = 0; i-- > 0 && seen < kCompared; ++seen) {
        const uint64_t sequence = one.call_log.sequence(i);
        if (other.call_log.find(sequence) && step_at(a, one, sequence) != step_at(b, other, sequence)) {
            return false;
        }
    }
    return true;
}

bool keeps_steps(const Run& run, MemberRef absent, const WaitNode& node) {
    const Process& process = run.process(absent);
    return absent.row == kNoIndex || std::all_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
               const Process& other = run.process(waiter.member);
               return (process.callers.size() < 2 && other.callers.size() < 2) ||
                      keep_steps_together(process, run.member(absent), other, run.member(waiter.member));
           });
}

}  // namespace

const Entry* newest_call_of(const Process& process, uint32_t row) {
    const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
        return entry.row == row && row != kNoIndex && moves_data(entry.kind);
    });
    return last == process.entries.rend() ? nullptr : &*last;
}

int32_t first_step(const WaitNode& node) {
    int32_t step = INT32_MAX;
    for (const Waiter& waiter : node.waiting) {
        step = waiter.entry != nullptr && waiter.entry->step >= 0 ? std::min(step, waiter.entry->step) : step;
    }
    return step;
}

bool went_to_a_later_step(const Run& run, MemberRef absent, const WaitNode& node) {
    const Process& process = run.process(absent);
    const Entry* own = newest_call_of(process, absent.row);
    const int32_t step = first_step(node);
    return (own != nullptr || process.callers.size() < 2) && keeps_steps(run, absent, node) &&
           std::any_of(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
               return entry.step > step && (own == nullptr || entry.thread == own->thread);
           });
}

bool is_of_a_later_step(const Run& run, MemberRef member, const Entry& call, const WaitNode& node) {
    return call.step > first_step(node) && keeps_steps(run, member, node);
}

}  // namespace titan::analyzer
