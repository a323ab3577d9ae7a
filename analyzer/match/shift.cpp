#include "shift.h"

#include <algorithm>

#include "expected.h"
#include "match.h"
#include "replays.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLookahead = 32;

// The agreement of two stretches of calls: those of `a` from `from_a` on, and those of `b` from `from_b` on.
struct Agreement {
    size_t compared = 0;
    size_t equal = 0;
    bool all() const { return compared > 0 && equal == compared; }
};

Agreement compare_from(const Run& run, MemberRef a, uint64_t from_a, MemberRef b, uint64_t from_b) {
    Agreement agreement;
    for (size_t i = 0; i < kLookahead; ++i) {
        const CallSignature* left = run.process(a).signature_at(run.member(a), from_a + i);
        const CallSignature* right = run.process(b).signature_at(run.member(b), from_b + i);
        if (left == nullptr || right == nullptr) {
            break;
        }
        ++agreement.compared;
        agreement.equal += same_arguments(*left, *right) ? 1 : 0;
    }
    return agreement;
}

// Do the two stretches belong to the same steps, as far as both tell?
bool steps_agree(const Run& run, MemberRef a, uint64_t from_a, MemberRef b, uint64_t from_b) {
    for (size_t i = 0; i < kLookahead; ++i) {
        const int32_t left = step_at(run.process(a), run.member(a), from_a + i);
        const int32_t right = step_at(run.process(b), run.member(b), from_b + i);
        if (left >= 0 && right >= 0 && left != right) {
            return false;
        }
    }
    return true;
}

// Does the past of `reference` lead one to expect the suspect's call there, after its own? `in_step`: the two calls are
// known to be of one step.
bool is_next(const Run& run, MemberRef suspect, uint64_t at, MemberRef reference, bool in_step) {
    const Process& process = run.process(reference);
    const CallLog& log = run.member(reference).call_log;
    const Past past = Past::of_member(process, run.member(reference), log.lower_bound(at + 1));
    const auto next = past.usual(past.size());
    const auto& steps = process.history.steps;
    const bool begins_step = next && *next > 0 && steps.at(past.place(*next)) > steps.at(past.place(*next - 1));
    const CallSignature* const here = run.process(suspect).signature_at(run.member(suspect), at);
    return next && here != nullptr && same_arguments(*here, past[*next]) && !(in_step && begins_step);
}

// Did the second call ever follow the first one before?
bool have_followed_each_other(const Run& run, MemberRef ref, uint64_t first) {
    const auto equal = [&](uint64_t a, uint64_t b) {
        const CallSignature* one = run.process(ref).signature_at(run.member(ref), a);
        const CallSignature* other = run.process(ref).signature_at(run.member(ref), b);
        return one != nullptr && other != nullptr && same_arguments(*one, *other);
    };
    constexpr uint64_t kLookedAt = 256;
    const uint64_t oldest = first > kLookedAt ? first - kLookedAt : 0;
    for (uint64_t before = first; before-- > oldest;) {
        if (equal(before, first) && equal(before + 1, first + 1)) {
            return true;
        }
    }
    return false;
}

// Did the suspect make two calls in the other order, one that it never had before, and go on like the others after
// them? Where calls alternate, one that was left out looks the same.
bool are_swapped(const Run& run, MemberRef suspect, MemberRef reference, uint64_t at) {
    const auto call = [&](MemberRef ref, uint64_t sequence) {
        return run.process(ref).signature_at(run.member(ref), sequence);
    };
    const CallSignature* const mine[] = {call(suspect, at), call(suspect, at + 1)};
    const CallSignature* const theirs[] = {call(reference, at), call(reference, at + 1)};
    const Agreement after = compare_from(run, suspect, at + 2, reference, at + 2);
    return mine[1] != nullptr && theirs[1] != nullptr && same_arguments(*mine[0], *theirs[1]) &&
           same_arguments(*mine[1], *theirs[0]) && after.equal == after.compared &&
           steps_agree(run, suspect, at, reference, at) && !have_followed_each_other(run, suspect, at);
}

// Is the suspect's call one thread's and the next, which the others make there, another's? Nothing orders the two; and
// the others, who have gone no further, may have owed it next.
bool may_be_early(const Run& run, MemberRef suspect, MemberRef reference, uint64_t at) {
    const CallSignature* const here = run.process(suspect).signature_at(run.member(suspect), at);
    const CallSignature* const next = run.process(suspect).signature_at(run.member(suspect), at + 1);
    return here != nullptr && next != nullptr && here->thread != 0 && next->thread != 0 &&
           here->thread != next->thread &&
           run.process(reference).signature_at(run.member(reference), at + 1) == nullptr;
}

}  // namespace

ShiftVerdict find_shift(const Run& run, MemberRef suspect, MemberRef reference, uint64_t at) {
    const Agreement in_step = compare_from(run, suspect, at + 1, reference, at + 1);
    Agreement skipped = compare_from(run, suspect, at, reference, at + 1);
    uint64_t skipped_calls = 1;
    // A graph launch that was left out leaves out all its calls.
    if (const uint64_t left = calls_left_in_replay(run.process(reference), run.member(reference), at);
        left > 1 && !skipped.all()) {
        skipped = compare_from(run, suspect, at, reference, at + left);
        skipped_calls = left;
    }
    const Agreement extra = compare_from(run, suspect, at + 1, reference, at);
    if (in_step.all() && in_step.compared >= std::max(skipped.equal, extra.equal)) {
        return {};
    }
    if (are_swapped(run, suspect, reference, at)) {
        return {.shift = Shift::kSwapped};
    }
    const int32_t reference_step = step_at(run.process(reference), run.member(reference), at);
    const int32_t suspect_step = step_at(run.process(suspect), run.member(suspect), at);
    const bool steps_known = reference_step >= 0 && suspect_step >= 0;
    const auto tells = [&](const Agreement& agreement) {
        constexpr size_t kLeastToTell = 2;
        return steps_known || agreement.compared >= kLeastToTell;
    };
    const bool extra_fits = extra.all() && steps_agree(run, suspect, at + 1, reference, at);
    const bool skipped_fits = skipped.all() && steps_agree(run, suspect, at, reference, at + skipped_calls);
    if (skipped_fits && !extra_fits) {
        return {.shift = Shift::kSkipped, .is_told = tells(skipped)};
    }
    // Its call belongs to a later step than theirs: it is ahead, so it made no call too many.
    if (reference_step >= 0 && suspect_step > reference_step) {
        return {.shift = Shift::kSkipped, .by_prediction = true, .by_step = true};
    }
    // If the others have not issued their next call yet: would it be the one that the suspect makes now?
    const bool by_prediction = skipped.compared == 0 && is_next(run, suspect, at, reference, steps_known);
    if (!skipped_fits && !by_prediction) {
        return {.shift = extra_fits ? Shift::kExtra : Shift::kNone,
                .by_threads = extra_fits && may_be_early(run, suspect, reference, at),
                .is_told = tells(extra)};
    }
    // A step that repeats: with one call left out its sequence looks the same as with one made twice.
    return {
        .shift = Shift::kSkipped, .by_prediction = by_prediction, .or_extra = extra_fits, .is_told = tells(skipped)};
}

}  // namespace titan::analyzer
