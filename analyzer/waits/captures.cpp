#include "captures.h"
#include "waiters.h"

namespace titan::analyzer {
namespace {

template <typename A, typename B>
bool same_arguments(const A& a, const B& b) {
    return a.kind == b.kind && a.count == b.count && a.datatype == b.datatype && a.reduction == b.reduction &&
           a.peer == b.peer;
}

// Does a call of the history from `place` on fit?
template <typename Fits>
bool any_from(const History& history, uint32_t place, Fits&& fits) {
    for (uint32_t i = place; i < history.size(); ++i) {
        if (fits(history[i])) {
            return true;
        }
    }
    return false;
}

}  // namespace

const Entry* find_capture(const Run& run, MemberRef ref, const Entry& like, uint64_t sequence) {
    const Process& process = run.process(ref);
    const Member& member = run.member(ref);
    // Among equal calls any may be the skipped one: the next one ran in its place.
    uint64_t first = sequence;
    const auto reaches = [&](uint32_t place) {
        while (first > 0) {
            const std::optional<uint32_t> before = member.call_log.find(first - 1);
            if (before && *before < place) {
                return true;
            }
            if (before && !same_arguments(process.history[*before], like)) {
                return false;
            }
            first = before ? first - 1 : 0;
        }
        return true;
    };
    for (size_t i = process.entries.size(); i-- > 0 && reaches(process.entries[i].place);) {
        const Entry& entry = process.entries[i];
        if (!entry.captured || entry.row != ref.row || !same_arguments(entry, like)) {
            continue;
        }
        const bool launched = any_from(process.history, entry.place, [&](const CallSignature& later) {
            return later.replayed && later.graph == entry.graph;
        });
        return launched ? nullptr : &entry;
    }
    return nullptr;
}

const Entry* find_capture(const Run& run, const WaitNode& node, const Absence& absence) {
    const Waiter* waiter = first_call(node);
    const bool skipped = absence.moved_on && absence.reason == AbsenceReason::kQueued;  // its next call has that number
    if (node.kind != WaitKind::kCollective || waiter == nullptr ||
        (absence.reason != AbsenceReason::kNotIssued && !skipped) || !absence.member.known() ||
        absence.member.row == kNoIndex) {
        return nullptr;
    }
    if (skipped) {
        return find_capture(run, absence.member, *waiter->entry, node.sequence);
    }
    return find_capture(run, absence.member, *waiter->entry, run.member(absence.member).issued);
}

}  // namespace titan::analyzer
