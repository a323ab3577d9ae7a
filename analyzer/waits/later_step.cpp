#include "later_step.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "call_order.h"
#include "expected.h"

namespace titan::analyzer {
namespace {

// The newest calls that two members made together, each as the steps in which the one and the other made it.
using CommonSteps = std::vector<std::pair<int32_t, int32_t>>;
constexpr size_t kCompared = 16;

CommonSteps steps_of_collectives(const Run& run, MemberRef a, MemberRef b) {
    CommonSteps steps;
    const CallLog& log = run.member(a).call_log;
    for (size_t i = log.size(), seen = 0; i-- > 0 && seen < kCompared; ++seen) {
        const uint64_t sequence = log.sequence(i);
        if (run.member(b).call_log.find(sequence)) {
            steps.emplace_back(step_at(run.process(a), run.member(a), sequence),
                               step_at(run.process(b), run.member(b), sequence));
        }
    }
    return steps;
}

// The steps of the newest messages of a member to or from a peer, by number.
std::map<uint64_t, int32_t> steps_of_messages(const Run& run, MemberRef ref, OpKind kind, int32_t peer) {
    constexpr size_t kNewest = 64;
    const Member& member = run.member(ref);
    const History& history = run.process(ref).history;
    std::map<uint64_t, int32_t> steps;
    uint64_t sequence = kind == OpKind::kSend ? member.sent_to(peer) : member.received_from(peer);
    const uint32_t oldest = history.size() - std::min<uint32_t>(history.size(), kMaxHistory);
    for (uint32_t place = history.size(); place-- > oldest && sequence > 0 && steps.size() < kNewest;) {
        const CallSignature& call = history[place];
        if (call.row == ref.row && call.kind == kind && call.peer == peer && !call.captured) {
            steps[--sequence] = history.steps.at(place);
        }
    }
    return steps;
}

CommonSteps steps_of_pairs(const Run& run, MemberRef a, MemberRef b) {
    CommonSteps steps;
    if (!run.member(a).p2p_counted || !run.member(b).p2p_counted) {
        return steps;
    }
    for (const auto& [kind, half] :
         {std::pair(OpKind::kSend, OpKind::kRecv), std::pair(OpKind::kRecv, OpKind::kSend)}) {
        const auto own = steps_of_messages(run, a, kind, run.member(b).rank);
        const auto others = steps_of_messages(run, b, half, run.member(a).rank);
        size_t seen = 0;
        for (auto call = own.rbegin(); call != own.rend() && seen < kCompared; ++call) {
            if (const auto met = others.find(call->first); met != others.end()) {
                steps.emplace_back(call->second, met->second);
                ++seen;
            }
        }
    }
    return steps;
}

// One thread alone makes calls, and it is the one that does the program's work: the steps are its own.
bool calls_from_main_only(const Process& process) {
    return std::all_of(process.callers.begin(), process.callers.end(),
                       [&](uint32_t thread) { return thread == static_cast<uint32_t>(process.pid); });
}

// Are steps the same thing to both? Where other threads are at work, only calls that they made together show it.
bool keep_steps_together(const Run& run, MemberRef absent, const WaitNode& node, MemberRef waiter) {
    constexpr size_t kLeastShown = 2;
    if (calls_from_main_only(run.process(absent)) && calls_from_main_only(run.process(waiter))) {
        return true;
    }
    const CommonSteps steps = node.kind == WaitKind::kPointToPoint ? steps_of_pairs(run, absent, waiter)
                                                                   : steps_of_collectives(run, absent, waiter);
    return steps.size() >= kLeastShown &&
           std::all_of(steps.begin(), steps.end(), [](const auto& both) { return both.first == both.second; });
}

bool keeps_steps(const Run& run, MemberRef absent, const WaitNode& node) {
    return absent.row == kNoIndex || std::all_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
               return keep_steps_together(run, absent, node, waiter.member);
           });
}

}  // namespace

const Entry* newest_call_of(const Process& process, uint32_t row) {
    const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
        return entry.row == row && row != kNoIndex && moves_data(entry.kind);
    });
    return last == process.entries.rend() ? nullptr : &*last;
}

const Entry* newest_call_beside(const Process& process, uint32_t row) {
    const Entry* own = newest_call_of(process, row);
    const auto last = std::find_if(process.entries.rbegin(), process.entries.rend(), [&](const Entry& entry) {
        return moves_data(entry.kind) && (own == nullptr || entry.thread == own->thread);
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
