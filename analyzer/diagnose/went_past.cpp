#include "analyzer/went_past.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

// How far after the call that waits we look for calls that the absent member has made already.
constexpr size_t kCallsAhead = 64;

const CallShape* call_in(const Process& process, uint32_t communicator, uint64_t sequence) {
    for (const Member& member : process.members) {
        if (member.communicator == communicator && communicator != kNoIndex) {
            return process.shape_at(member, sequence);
        }
    }
    return nullptr;
}

bool queues_behind(const StreamOrder& order, uint32_t index, uint32_t head_entry) {
    const auto behind = order.behind.find(index);
    if (behind == order.behind.end()) {
        return false;
    }
    const std::vector<uint32_t>& entries = order.heads[behind->second].entries;
    return std::find(entries.begin(), entries.end(), head_entry) != entries.end();
}

}  // namespace

bool went_past(const Run& run, const std::vector<StreamOrder>& orders, MemberRef absent, const WaitNode& node) {
    const Process& process = run.process(absent);
    const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(),
                                   [&](const Entry& entry) { return entry.row == absent.row; });
    for (const Waiter& waiter : node.waiting) {
        if (waiter.entry == nullptr || last == process.entries.rend()) {
            continue;
        }
        const Process& other = run.process(waiter.member);
        const auto at = static_cast<uint32_t>(waiter.entry - other.entries.data());
        const size_t end = std::min(other.entries.size(), at + 1 + kCallsAhead);
        for (uint32_t i = at + 1; i < end; ++i) {
            const Entry& later = other.entries[i];
            const bool comparable = format::is_collective(later.kind) && later.row != kNoIndex &&
                                    later.sequence != kNoSequence && later.thread == waiter.entry->thread &&
                                    !queues_behind(orders[waiter.member.process], i, at);
            const CallShape* same =
                comparable ? call_in(process, other.members[later.row].communicator, later.sequence) : nullptr;
            if (same != nullptr && same->thread == last->thread) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace titan::analyzer
