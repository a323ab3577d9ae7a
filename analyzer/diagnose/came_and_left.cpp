// Members that a node of the wait-for graph has as waiting or absent, told by more than their own calls.
#include <algorithm>

#include "analyzer/wait_graph.h"

namespace titan::analyzer {

// A Flight Recorder file that was written long before the others', after a short wait, is no witness of the rest of it:
// its rank may have raised an exception, written the file and left.
void set_early_records_aside(const Run& run, WaitGraph& graph) {
    constexpr int64_t kEarlyNs = 10'000'000'000;
    for (WaitNode& node : graph.nodes) {
        int64_t latest_ns = 0;
        int64_t longest_ns = 0;
        for (const Waiter& waiter : node.waiting) {
            latest_ns = std::max(latest_ns, waiter.since_ns + waiter.age_ns);
            longest_ns = std::max(longest_ns, waiter.age_ns);
        }
        const auto is_early = [&](const Waiter& waiter) {
            const int64_t early_ns = latest_ns - (waiter.since_ns + waiter.age_ns);
            return run.process(waiter.member).only_calls && early_ns > kEarlyNs && waiter.age_ns < early_ns / 2 &&
                   longest_ns > early_ns / 2;
        };
        for (const Waiter& waiter : node.waiting) {
            if (is_early(waiter)) {
                const Member& member = run.member(waiter.member);
                node.absent.push_back(
                    {waiter.member, member.rank, member.global_rank, AbsenceReason::kLeft, {}, false});
            }
        }
        std::erase_if(node.waiting, is_early);
    }
}

void doubt_the_many(WaitNode& node) {
    const auto went_on = std::count_if(node.absent.begin(), node.absent.end(),
                                       [](const Absence& absence) { return absence.moved_on; });
    if (static_cast<size_t>(went_on) <= node.waiting.size()) {
        return;
    }
    for (Absence& absence : node.absent) {
        if (absence.moved_on && absence.passed.how == Passing::kNo) {
            absence.passed = {Passing::kUndecided, node.waiting.front().member};
        }
    }
}

bool entered_split(const Run& run, const WaitNode& node, MemberRef parent) {
    const Process& process = run.process(parent);
    const uint64_t parent_id = run.communicators[node.communicator].id;
    for (const Member& member : process.members) {
        if (member.parent_id == parent_id && member.origin == node.op && member.ordinal == node.sequence) {
            return true;
        }
    }
    // A member that asks for no communicator leaves only its call.
    const History& history = process.history;
    const auto is_it = [&](const CallShape& shape) { return shape.kind == node.op && shape.row == parent.row; };
    uint64_t calls = 0;
    if (std::any_of(history.shapes.begin(), history.shapes.end(), is_it)) {
        for (uint32_t i = 0; i < history.size(); ++i) {
            calls += is_it(history[i]) ? 1 : 0;
        }
    }
    return calls > node.sequence || process.overwritten != 0;
}

}  // namespace titan::analyzer
