#include "later_step.h"

#include <algorithm>
#include <map>

#include "expected.h"
#include "play.h"

namespace titan::analyzer {
namespace {

// The steps of a member's newest calls of a line, by number.
std::map<uint64_t, int32_t> newest_steps(const Run& run, const EditedNumbers::Line& line) {
    constexpr size_t kNewest = 64;
    const History& history = run.process(line.member).history;
    std::map<uint64_t, int32_t> steps;
    if (line.half == OpKind{}) {
        const CallLog& log = run.member(line.member).call_log;
        for (size_t i = log.size(); i-- > 0 && steps.size() < kNewest;) {
            steps[log.sequence(i)] = history.steps.at(log.place(i));
        }
        return steps;
    }
    uint64_t sequence = calls_made(run, line).value_or(0);
    const uint32_t oldest = history.size() - std::min<uint32_t>(history.size(), kMaxHistory);
    for (uint32_t place = history.size(); place-- > oldest && sequence > 0 && steps.size() < kNewest;) {
        const CallSignature& call = history[place];
        if (call.row == line.member.row && call.kind == line.half && call.peer == line.peer && !call.captured) {
            steps[--sequence] = history.steps.at(place);
        }
    }
    return steps;
}

// One thread alone makes calls, and it is the one that does the program's work: the steps are its own.
bool calls_from_main_only(const Process& process) {
    return std::ranges::all_of(process.callers,
                               [&](uint32_t thread) { return thread == static_cast<uint32_t>(process.pid); });
}

// Are steps the same thing to both? Where other threads are at work, only the newest calls that they made together show
// it.
bool keep_steps_together(const Run& run, MemberRef absent, const WaitNode& node, MemberRef waiter) {
    constexpr size_t kCompared = 16;
    constexpr size_t kLeastShown = 2;
    if (calls_from_main_only(run.process(absent)) && calls_from_main_only(run.process(waiter))) {
        return true;
    }
    size_t shown = 0;
    const auto agree = [&](const EditedNumbers::Line& own, const EditedNumbers::Line& other) {
        const std::map<uint64_t, int32_t> steps = newest_steps(run, own);
        const std::map<uint64_t, int32_t> theirs = newest_steps(run, other);
        size_t compared = 0;
        return std::all_of(steps.rbegin(), steps.rend(), [&](const auto& call) {
            const auto met = compared < kCompared ? theirs.find(call.first) : theirs.end();
            compared += met == theirs.end() ? 0 : 1;
            shown += met == theirs.end() ? 0 : 1;
            return met == theirs.end() || met->second == call.second;
        });
    };
    const int32_t own_rank = run.member(absent).rank;
    const int32_t rank = run.member(waiter).rank;
    const bool equal = node.kind != WaitKind::kPointToPoint
                           ? agree({absent}, {waiter})
                           : agree({absent, OpKind::kSend, rank}, {waiter, OpKind::kRecv, own_rank}) &&
                                 agree({absent, OpKind::kRecv, rank}, {waiter, OpKind::kSend, own_rank});
    return equal && shown >= kLeastShown;
}

bool keeps_steps(const Run& run, MemberRef absent, const WaitNode& node) {
    return absent.row == kNoIndex || std::ranges::all_of(node.waiting, [&](const Waiter& waiter) {
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
