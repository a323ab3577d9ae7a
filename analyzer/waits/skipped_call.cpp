#include "skipped_call.h"

#include <algorithm>
#include <map>

#include "call_order.h"
#include "captures.h"
#include "expected.h"
#include "host_clocks.h"
#include "host_threads.h"
#include "later_step.h"
#include "match.h"

namespace titan::analyzer {
namespace {

// The number of calls after the one that waits among which we look for calls that the absent member has made already:
// the nearest tell, and a program may queue thousands.
constexpr size_t kCallsAhead = 64;
// Clocks of hosts may differ; this much is not taken for order.
constexpr int64_t kClockSlackNs = 100'000'000;
// A record whose program was silent for so long at its end shows a rank that waits or stands still.
constexpr int64_t kSilentNs = 1'000'000'000;

// The features by which we recognize the missing call among the member's calls.
struct MissingCall {
    uint32_t row;
    OpKind kind;
    int32_t peer;
    bool is(const CallSignature& call) const {
        const bool signals = kind == OpKind::kSignal && call.kind == OpKind::kPutSignal;  // with data, or without
        return call.row == row && (call.kind == kind || signals) &&
               (format::class_of(kind) != format::OpClass::p2p || call.peer == peer);
    }
};

MissingCall missing_call(const WaitNode& node, MemberRef absent, int comm_rank) {
    if (node.kind != WaitKind::kPointToPoint) {
        return {absent.row, node.waiting.front().entry != nullptr ? node.waiting.front().entry->kind : node.op, -1};
    }
    return {absent.row, node.half_of(comm_rank), comm_rank == node.source ? node.target : node.source};
}

// The sequence number of a call in the history, if it is a collective.
uint64_t sequence_at(const Member& member, uint32_t place) {
    for (size_t i = member.call_log.size(); i-- > 0 && member.call_log.place(i) >= place;) {
        if (member.call_log.place(i) == place) {
            return member.call_log.sequence(i);
        }
    }
    return kNoSequence;
}

// Did any of these processes make the call that is waited in?
bool is_made_by_any(const Run& run, const std::vector<uint32_t>& processes, const WaitNode& node) {
    return std::ranges::any_of(processes, [&](uint32_t process) {
        const Member* member = member_in(run.processes[process], node.communicator);
        return member != nullptr && member->issued > node.sequence;
    });
}

// Of the two ranks of a message, the one whose calls differ from those of ranks with the same role: those make the
// missing half, or do not make the one that waits.
SkipVerdict odd_beside_siblings(const Run& run, const SiblingEdits& edits, MemberRef absent, const WaitNode& node,
                                const Waiter& waiter) {
    const Edit* const of_absent = edits.of(absent.process);
    const Edit* const of_waiter = edits.of(waiter.member.process);
    if ((of_absent == nullptr) == (of_waiter == nullptr)) {
        return SkipVerdict::kNo;
    }
    if (of_absent != nullptr) {
        return of_absent->kind != EditKind::kSwapped && in_place_of(run, absent, node, *of_absent)
                   ? SkipVerdict::kSkipped
                   : SkipVerdict::kNo;
    }
    const CallSignature& made = run.process(waiter.member).history[of_waiter->place];
    const Entry& waited = *waiter.entry;
    return made.row == waited.row && made.kind == waited.kind && made.peer == waited.peer ? SkipVerdict::kWaiterIsOdd
                                                                                          : SkipVerdict::kNo;
}

// The absent member made `later`, which the waiter made only after the call it waits in. The vote of all ranks that
// make such calls tells more than what each of the two used to do.
SkipVerdict who_is_odd(const Run& run, const SiblingEdits& edits, MemberRef absent, const Member& member,
                       const WaitNode& node, const Waiter& waiter, CallPlace later) {
    const bool collective = node.kind == WaitKind::kCollective;
    const OrderVote vote = collective ? vote_on_order(run, {node.communicator, node.sequence}, later) : OrderVote();
    if (!vote.is_tied() && vote.a_first.size() > vote.b_first.size()) {
        return SkipVerdict::kSkipped;
    }
    if (!vote.is_tied()) {
        return is_made_by_any(run, vote.b_first, node) ? SkipVerdict::kNo : SkipVerdict::kWaiterIsOdd;
    }
    const SkipVerdict beside = collective ? SkipVerdict::kNo : odd_beside_siblings(run, edits, absent, node, waiter);
    if (beside != SkipVerdict::kNo) {
        return beside;
    }
    const Process& process = run.process(absent);
    const auto made = process.recall(member, later.sequence);
    const bool absent_deviates = made && own_edit(process, made->place);
    if (absent_deviates != own_edit(run.process(waiter.member), waiter.entry->place).has_value()) {
        return absent_deviates ? SkipVerdict::kSkipped : SkipVerdict::kWaiterIsOdd;
    }
    return collective || absent_deviates ? SkipVerdict::kUndecided : SkipVerdict::kNo;
}

// Some other rank made that call, too, and not the missing one before it: it does not replace the missing one.
bool others_made_it_first(const Run& run, MemberRef absent, uint32_t place, const WaitNode& node) {
    const Process& process = run.process(absent);
    const CallSignature& call = process.history[place];
    if (call.row == kNoIndex || node.kind != WaitKind::kCollective) {
        return false;
    }
    const Member& member = process.members[call.row];
    if (is_creation(call.kind)) {
        return std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
            const Member* same = member_in(run.process(waiter.member), member.communicator);
            return same != nullptr && same->created_ns != 0 && same->created_ns < waiter.since_ns;
        });
    }
    if (!format::is_collective(call.kind)) {
        return false;
    }
    const OrderVote vote =
        vote_on_order(run, {node.communicator, node.sequence}, {member.communicator, sequence_at(member, place)});
    return std::ranges::any_of(vote.b_first, [&](uint32_t voter) { return voter != absent.process; });
}

// The number of sends, or receives, before that place in its history with the peer that it made most with: of the
// thread that made this call, or of all where there is none. 0 if older calls are overwritten: then their number is
// unknown.
uint64_t messages_of_a_pair(const Process& process, OpKind kind, const Entry* call, uint32_t end) {
    std::map<std::pair<uint32_t, int32_t>, uint64_t> made;  // row, peer
    uint64_t most = 0;
    for (uint32_t place = 0; process.overwritten == 0 && place < std::min(end, process.history.size()); ++place) {
        const CallSignature& message = process.history[place];
        if (message.kind == kind && !message.captured && (call == nullptr || message.thread == call->thread)) {
            most = std::max(most, ++made[{message.row, message.peer}]);
        }
    }
    return most;
}

// The newest edit of these calls of a thread that has another call in the place of the missing one; none where that one
// was made since.
std::optional<Edit> made_instead(const Past& past, size_t begin, size_t end, const MissingCall& missing) {
    constexpr size_t kLookedAt = 64;
    for (size_t i = end; i-- > begin && end - i <= kLookedAt && !missing.is(past[i]);) {
        if (auto edit = past.edit_at(i); edit && missing.is(edit->instead.front())) {
            return edit;
        }
    }
    return std::nullopt;
}

// The newest activity of the threads that make its calls: others, such as PyTorch's watchdog, poll for ever.
int64_t newest_of_callers_ns(const Process& process) {
    int64_t newest = process.entries.empty() ? 0 : process.entries.back().entered_ns;
    for (const ThreadState* thread : issuing_threads(process)) {
        newest = std::max({newest, thread->last_call_ns, thread->call != 0 ? thread->entered_ns : 0});
    }
    return newest;
}

}  // namespace

bool called_another_instead(const Run& run, MemberRef absent, const WaitNode& node) {
    const Process& process = run.process(absent);
    if (node.waiting.empty() || node.waiting.front().entry == nullptr || absent.row == kNoIndex ||
        process.history.size() == 0) {
        return false;
    }
    const Entry* own = newest_call_of(process, absent.row);
    const Past past = Past::of_thread(process, own == nullptr ? process.history.size() - 1 : own->place);
    // The member must have gone on after the call that stands in its place, or it may only have changed the order; and
    // it must not be steps behind. Calls that end communicators, above all a watchdog's abort, are no step of the
    // program.
    size_t end = past.size();
    while (end > 0 && !format::moves_data(past[end - 1].kind)) {
        --end;
    }
    const MissingCall missing = missing_call(node, absent, run.member(absent).rank);
    if (end == 0 || missing.is(past[--end])) {
        return false;
    }
    size_t begin = end;
    while (begin > 0 && process.history.steps.at(past.place(begin - 1)) >= node.waiting.front().entry->step) {
        --begin;
    }
    const auto edit = made_instead(past, begin, end, missing);
    return edit && !others_made_it_first(run, absent, edit->place, node);
}

bool in_place_of(const Run& run, MemberRef absent, const WaitNode& node, const Edit& edit) {
    const MissingCall missing = missing_call(node, absent, run.member(absent).rank);
    return std::ranges::any_of(edit.instead, [&](const CallSignature& call) { return missing.is(call); });
}

bool skipped_a_repetition(const Process& process, const Entry& entry) {
    const Past past = Past::of_thread(process, entry.place);
    const auto edit = made_instead(past, 0, past.find(entry.place).value_or(0), {entry.row, entry.kind, entry.peer});
    return edit && edit->is_told && (edit->kind == EditKind::kMissing || edit->kind == EditKind::kChanged);
}

void note_earlier_skip(const Run& run, const WaitNode& node, const Entry& queued, Absence& absence) {
    const Entry* waiting = node.waiting.empty() ? nullptr : node.waiting.front().entry;
    const bool collective = node.kind == WaitKind::kCollective && waiting != nullptr;
    absence.moved_on = is_of_a_later_step(run, absence.member, queued, node) ||
                       (collective && find_capture(run, absence.member, *waiting, node.sequence) != nullptr);
    // In a pipeline the first gap at the end of a step is longer than all gaps within it: files that hold few steps
    // mislead.
    const Process& process = run.process(absence.member);
    absence.by_prediction = !absence.moved_on && first_step(node) == INT32_MAX && process.sees.host_calls &&
                            skipped_a_repetition(process, queued);
    absence.moved_on |= absence.by_prediction;
}

bool is_stale(const Run& run, uint32_t process, const WaitNode& node) {
    const Process& record = run.processes[process];
    const auto ended_before = [&](const Waiter& waiter, int64_t ahead_ns) {
        return record.now_ns + kClockSlackNs < waiter.since_ns - ahead_ns;
    };
    const auto all_began_later = [&](auto&& ahead_of) {
        return std::ranges::all_of(node.waiting,
                                   [&](const Waiter& waiter) { return ended_before(waiter, ahead_of(waiter)); });
    };
    return !record.is_gone() && all_began_later([](const Waiter&) { return int64_t{0}; }) &&
           record.now_ns - newest_of_callers_ns(record) < kSilentNs && all_began_later([&](const Waiter& waiter) {
               return clock_ahead_ns(run, process, waiter.member.process).value_or(0);
           });
}

uint64_t lost_unfinished_calls(const Process& process) {
    const bool progress_seen = process.sees.by_watchdog || (process.gpu_progress && process.gpu_sample == 1);
    if (process.overwritten == 0 || !progress_seen) {
        return 0;
    }
    uint64_t lost = 0;
    for (const Member& member : process.members) {
        if (member.closed_ns == 0 && member.finished < member.issued) {
            const uint64_t oldest =
                member.calls.empty() ? member.issued : process.entries[member.calls.front()].sequence;
            lost += oldest > member.finished ? oldest - member.finished : 0;
        }
    }
    return lost;
}

bool has_lost_unfinished_calls(const Process& process) { return lost_unfinished_calls(process) != 0; }

int who_never_came(const Run& run, const Communicator& communicator, size_t comm_rank) {
    const int64_t rank = communicator.rank_line.at(static_cast<int>(comm_rank));
    if (communicator.rank_line.fits && rank >= 0 && rank < run.world_size) {
        return static_cast<int>(rank);
    }
    const std::vector<int> others = ranks_outside(run, communicator);
    return others.size() == 1 && communicator.rank_line.unknown_members == 1 ? others.front() : -1;
}

std::vector<int> ranks_outside(const Run& run, const Communicator& communicator) {
    constexpr size_t kFew = 32;  // more of them say no more than that they are missing
    std::vector<int> ranks;
    if (run.partial_recording || run.missing_ranks.size() > kFew) {
        return ranks;
    }
    if (!run.missing_ranks.empty() || static_cast<int64_t>(run.processes.size()) != run.world_size) {
        return run.missing_ranks;
    }
    for (uint32_t i = 0; i < run.processes.size(); ++i) {
        if (std::ranges::none_of(communicator.members, [&](MemberRef ref) { return ref.process == i; })) {
            ranks.push_back(run.processes[i].rank);
        }
    }
    return ranks;
}

SkippedCall find_skipped_call(const Run& run, const SiblingEdits& edits, const std::vector<StreamOrder>& orders,
                              MemberRef absent, const WaitNode& node) {
    const Process& process = run.process(absent);
    // A watchdog's thread, not the program's, makes the abort that may be last.
    const Entry* last = newest_call_of(process, absent.row);
    for (const Waiter& waiter : node.waiting) {
        if (waiter.entry == nullptr || last == nullptr) {
            continue;
        }
        const Process& other = run.process(waiter.member);
        const auto at = static_cast<uint32_t>(waiter.entry - other.entries.data());
        const size_t end = std::min(other.entries.size(), at + 1 + kCallsAhead);
        for (uint32_t i = at + 1; i < end; ++i) {
            const Entry& later = other.entries[i];
            const bool comparable = format::is_collective(later.kind) && later.row != kNoIndex &&
                                    later.sequence != kNoSequence && later.thread == waiter.entry->thread &&
                                    !orders[waiter.member.process].behind.contains(i);
            const Member* member = comparable ? member_in(process, other.members[later.row].communicator) : nullptr;
            const CallSignature* same = member == nullptr ? nullptr : process.signature_at(*member, later.sequence);
            // The same number in another step, or with other arguments, is another call: one of them left one out.
            if (same != nullptr && same->thread == last->thread && same_arguments(*same, other.history[later.place]) &&
                step_at(process, *member, later.sequence) == later.step) {
                const CallPlace made{member->communicator, later.sequence};
                const SkipVerdict verdict = who_is_odd(run, edits, absent, *member, node, waiter, made);
                return {verdict, waiter.member, made.communicator, made.sequence};
            }
        }
    }
    return {};
}

SkipVerdict ahead_in_messages(const Run& run, MemberRef absent, const WaitNode& node) {
    constexpr size_t kLeastWitnesses = 2;
    if (node.kind != WaitKind::kCollective || first_step(node) != INT32_MAX) {
        return SkipVerdict::kNo;
    }
    const Entry* const own = newest_call_of(run.process(absent), absent.row);
    for (const OpKind kind : {OpKind::kSend, OpKind::kRecv}) {
        uint64_t before = 0;
        size_t witnesses = 0;
        bool agree = true;
        for (const Waiter& waiter : node.waiting) {
            const Entry* const call = waiter.entry;
            const uint64_t made =
                call == nullptr ? 0 : messages_of_a_pair(run.process(waiter.member), kind, call, call->place);
            agree &= made == 0 || before == 0 || made == before;
            before = std::max(before, made);
            witnesses += made != 0 ? 1 : 0;
        }
        if (agree && witnesses >= kLeastWitnesses && witnesses >= node.absent.size() &&
            messages_of_a_pair(run.process(absent), kind, own, UINT32_MAX) > before) {
            return SkipVerdict::kSkipped;
        }
    }
    return SkipVerdict::kNo;
}

}  // namespace titan::analyzer
