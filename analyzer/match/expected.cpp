#include "expected.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "alignment.h"
#include "call_order.h"
#include "replays.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMinContext = 3;
constexpr size_t kMaxContext = 64;

// The newest places of the history that are wanted, in order. What was captured runs later, with calls of its own.
template <typename Wanted>
std::vector<uint32_t> newest_places(const History& history, Wanted&& is_wanted) {
    std::vector<uint32_t> places;
    for (uint32_t place = history.size(); place-- > 0 && places.size() < kMaxHistory;) {
        if (!history[place].captured && is_wanted(history[place])) {
            places.push_back(place);
        }
    }
    std::ranges::reverse(places);
    return places;
}

}  // namespace

Past::Past(const Process& process, std::vector<uint32_t> places)
    : history_(process.history), places_(std::move(places)) {
    const auto key = [](const CallSignature& call) {
        return std::tuple(call.row, call.kind, call.peer, call.count, call.datatype, call.reduction, call.agreed);
    };
    std::map<decltype(key(CallSignature())), uint32_t> tokens;
    std::vector<uint32_t> token_of(history_.signatures.size(), UINT32_MAX);
    tokens_.reserve(places_.size());
    for (const uint32_t place : places_) {
        uint32_t& token = token_of[history_.calls[place]];
        if (token == UINT32_MAX) {
            token = tokens.try_emplace(key(history_[place]), static_cast<uint32_t>(tokens.size())).first->second;
        }
        tokens_.push_back(token);
    }
}

Past Past::of_thread(const Process& process, uint32_t place) {
    return {process, newest_places(process.history, [&](const CallSignature& call) {
                return process.callers.size() < 2 || call.thread == process.history[place].thread;
            })};
}

Past Past::of_pair(const Process& process, const Entry& call) {
    return {process, newest_places(process.history, [&](const CallSignature& other) {
                return other.row == call.row && other.kind == call.kind && other.peer == call.peer;
            })};
}

Past Past::of_member(const Process& process, const Member& member, size_t end) {
    std::vector<uint32_t> places;
    for (size_t i = end - std::min(end, kMaxHistory); i < end; ++i) {
        places.push_back(member.call_log.place(i));
    }
    return {process, std::move(places)};
}

std::optional<size_t> Past::find(uint32_t place) const {
    const auto found = std::lower_bound(places_.begin(), places_.end(), place);
    return found == places_.end() || *found != place ? std::nullopt : std::optional(found - places_.begin());
}

// The number of calls before `a` that equal those before `b`.
size_t Past::equal_before(size_t a, size_t b) const {
    size_t length = 0;
    while (length < kMaxContext && length < std::min(a, b) && tokens_[a - 1 - length] == tokens_[b - 1 - length]) {
        ++length;
    }
    return length;
}

// The stretch of so many calls before `candidate` begins with the record: what came before it is lost or never was.
// Does that matter? The stretch before `i` may be preceded by a call that none of these equals, such as the check that
// a loop makes every eighth time: then how often they have repeated since is part of the context.
bool Past::may_go_back_further(size_t candidate, size_t i, size_t length) const {
    const auto end = tokens_.begin() + static_cast<ptrdiff_t>(i);
    const auto begin = end - static_cast<ptrdiff_t>(length);
    return candidate == length && length < std::min(i, kMaxContext) && std::find(begin, end, *(begin - 1)) == end;
}

std::optional<size_t> Past::usual(size_t i) const {
    std::optional<size_t> best;
    size_t best_length = kMinContext - 1;
    for (size_t candidate = i; candidate-- > 1 && best_length < kMaxContext;) {
        if (const size_t length = equal_before(candidate, i); length > best_length) {
            best_length = length;
            best = candidate;
        }
    }
    return best;
}

std::optional<Edit> Past::edit_at(size_t i) const {
    constexpr size_t kClearly = 3;
    constexpr size_t kFollowed = 2;
    size_t as_here = 0;
    size_t longest = 0;
    size_t other = 0;
    for (size_t elsewhere = 1; elsewhere < size(); ++elsewhere) {
        const size_t length = elsewhere == i ? 0 : equal_before(elsewhere, i);
        if (tokens_[elsewhere] == tokens_[i]) {
            as_here = std::max(as_here, length);
        } else if (elsewhere < i && std::min(length, i - elsewhere) >= longest) {
            // Only what follows the whole repetition tells how long it lasts, so a match must not overlap itself.
            longest = std::min(length, i - elsewhere);
            other = elsewhere;
        }
    }
    const bool is_clear = longest >= kMinContext && longest >= as_here + kClearly;
    // Where it never followed two such calls before, it differs from what usually does.
    const auto expected = is_clear ? std::optional(other) : as_here < kFollowed ? usual(i) : std::nullopt;
    if (!expected || tokens_[*expected] == tokens_[i]) {
        return std::nullopt;
    }
    Edit edit;
    edit.place = places_[i];
    edit.context = longest;
    edit.may_be_cut = is_clear && may_go_back_further(other, i, longest);
    for (size_t k = *expected; k < std::min(i, *expected + kLeftOut) && tokens_[k] != tokens_[i]; ++k) {
        edit.instead.push_back((*this)[k]);
    }
    const auto same = [&](size_t own, size_t usual) {
        return std::max(i + own, *expected + usual) < size()
                   ? std::optional(tokens_[i + own] == tokens_[*expected + usual])
                   : std::nullopt;
    };
    tell_kind(same, edit.instead.size(), edit);
    return edit;
}

std::optional<Edit> own_edit(const Process& process, uint32_t place) {
    if (place >= process.history.size()) {
        return std::nullopt;
    }
    const Past past = Past::of_thread(process, place);
    const auto i = past.find(place);
    return i ? past.edit_at(*i) : std::nullopt;
}

const CallSignature* expected_next(const Process& process) {
    if (process.history.size() == 0) {
        return nullptr;
    }
    const Past past = Past::of_thread(process, process.history.size() - 1);
    const auto next = past.usual(past.size());
    return next ? &past[*next] : nullptr;
}

int32_t step_at(const Process& process, const Member& member, uint64_t sequence) {
    const std::optional<uint32_t> place = member.call_log.find(sequence);
    return place ? process.history.steps.at(*place) : -1;
}

namespace {

// The collectives of a member that is suspected, beside those of one that is right, from the first on that differs.
class SideBySide {
  public:
    SideBySide(const Run& run, MemberRef suspect, MemberRef reference, uint64_t sequence)
        : run_(run), suspect_(suspect), reference_(reference), at_(sequence) {}

    const CallSignature* own(size_t i) const { return call(suspect_, i); }
    const CallSignature* theirs(size_t i) const { return call(reference_, i); }
    int32_t own_step(size_t i) const { return step(suspect_, i); }
    int32_t their_step(size_t i) const { return step(reference_, i); }

    std::optional<bool> same(size_t i, size_t j) const {
        return own(i) == nullptr || theirs(j) == nullptr ? std::nullopt
                                                         : std::optional(same_arguments(*own(i), *theirs(j)));
    }

    // Do the two stretches belong to the same steps, as far as both tell?
    bool steps_agree(size_t i, size_t j) const {
        constexpr size_t kLookahead = 32;
        for (size_t k = 0; k < kLookahead; ++k) {
            if (own_step(i + k) >= 0 && their_step(j + k) >= 0 && own_step(i + k) != their_step(j + k)) {
                return false;
            }
        }
        return true;
    }

    // Did their call always come before the suspect's? `in_step`: the two are known to be of one step.
    bool leads_to_own(bool in_step) const {
        const Process& process = run_.process(reference_);
        const Member& member = run_.member(reference_);
        const Past past = Past::of_member(process, member, member.call_log.lower_bound(at_ + 1));
        const auto next = past.usual(past.size());
        const auto& steps = process.history.steps;
        const bool begins_step = next && *next > 0 && steps.at(past.place(*next)) > steps.at(past.place(*next - 1));
        return next && own(0) != nullptr && same_arguments(*own(0), past[*next]) && !(in_step && begins_step);
    }

    // Did the suspect's second call ever follow its first one before? Where calls alternate, one that was left out
    // looks like two that were swapped.
    bool has_had_this_order() const {
        constexpr uint64_t kLookedAt = 256;
        const Member& member = run_.member(suspect_);
        const auto equal = [&](uint64_t before, size_t i) {
            const CallSignature* const call = run_.process(suspect_).signature_at(member, before);
            return call != nullptr && own(i) != nullptr && same_arguments(*call, *own(i));
        };
        for (uint64_t before = at_; before-- > at_ - std::min(at_, kLookedAt);) {
            if (equal(before, 0) && equal(before + 1, 1)) {
                return true;
            }
        }
        return false;
    }

    // Is the suspect's call one thread's and the next, which the others make there, another's? Nothing orders the two;
    // and the others make it soon after, or, if they have gone no further, may have owed it next.
    bool may_be_early() const {
        constexpr size_t kLookahead = 8;
        if (own(0) == nullptr || own(1) == nullptr || own(0)->thread == 0 || own(1)->thread == 0 ||
            own(0)->thread == own(1)->thread) {
            return false;
        }
        bool is_made = theirs(1) == nullptr;
        for (size_t later = 1; later <= kLookahead && !is_made; ++later) {
            is_made = same(0, later).value_or(false);
        }
        return is_made;
    }

  private:
    const CallSignature* call(MemberRef ref, size_t i) const {
        return run_.process(ref).signature_at(run_.member(ref), at_ + i);
    }
    int32_t step(MemberRef ref, size_t i) const { return step_at(run_.process(ref), run_.member(ref), at_ + i); }

    const Run& run_;
    MemberRef suspect_, reference_;
    uint64_t at_;
};

}  // namespace

Edit edit_beside(const Run& run, MemberRef suspect, MemberRef reference, uint64_t sequence) {
    const SideBySide pair(run, suspect, reference, sequence);
    const Same same = [&](size_t i, size_t j) { return pair.same(i, j); };
    size_t left_out = 1;
    Agreement missing = agreement(same, 0, left_out);
    // A graph launch that was left out leaves out all its calls.
    if (const uint64_t left = calls_left_in_replay(run.process(reference), run.member(reference), sequence);
        left > 1 && !missing.all()) {
        left_out = left;
        missing = agreement(same, 0, left_out);
    }
    const Agreement extra = agreement(same, 1, 0);
    const Agreement changed = agreement(same, 1, 1);
    Edit edit;
    edit.process = suspect.process;
    edit.place = run.member(suspect).call_log.find(sequence).value_or(kNoIndex);
    if (const CallSignature* const call = pair.theirs(0)) {
        edit.instead.push_back(*call);
    }
    if (changed.all() && changed.compared >= std::max(missing.equal, extra.equal)) {
        return edit;
    }
    if (are_swapped(same) && pair.steps_agree(0, 0) && !pair.has_had_this_order()) {
        edit.kind = EditKind::kSwapped;
        return edit;
    }
    const bool steps_known = pair.their_step(0) >= 0 && pair.own_step(0) >= 0;
    const auto tells = [&](const Agreement& agreement) {
        constexpr size_t kLeastToTell = 2;
        return steps_known || agreement.compared >= kLeastToTell;
    };
    const bool extra_fits = extra.all() && pair.steps_agree(1, 0);
    const bool missing_fits = missing.all() && pair.steps_agree(0, left_out);
    edit.kind = EditKind::kMissing;
    if (missing_fits && !extra_fits) {
        edit.is_told = tells(missing);
        return edit;
    }
    // Its call belongs to a later step than theirs: it is ahead, so it made no call too many.
    edit.by_step = pair.their_step(0) >= 0 && pair.own_step(0) > pair.their_step(0);
    // If the others have not issued their next call yet: would it be the one that the suspect makes now?
    edit.by_past = !edit.by_step && missing.compared == 0 && pair.leads_to_own(steps_known);
    if (missing_fits || edit.by_step || edit.by_past) {
        // A step that repeats: with one call left out its sequence looks the same as with one made twice.
        edit.or_extra = extra_fits && !edit.by_step;
        edit.is_told = edit.by_step || tells(missing);
    } else if (extra_fits) {
        edit.kind = EditKind::kExtra;
        edit.by_threads = pair.may_be_early();
        edit.is_told = tells(extra);
    } else {
        edit.kind = EditKind::kChanged;
    }
    return edit;
}

namespace {

// A usual call, behind which come others that the record has not had before: the beginning of the step before is lost,
// and with it what the rank usually does here.
bool is_new_to_record(const Process& process, uint32_t place) {
    if (process.overwritten == 0) {
        return false;
    }
    std::set<std::tuple<uint32_t, OpKind, int32_t>> before;
    const auto key = [&](uint32_t at) {
        const CallSignature& call = process.history[at];
        return std::tuple(call.row, call.kind, call.peer);
    };
    for (uint32_t at = 0; at < place; ++at) {
        before.insert(key(at));
    }
    for (uint32_t at = place + 1; at < process.history.size() && before.contains(key(place)); ++at) {
        if (format::moves_data(process.history[at].kind) && !before.contains(key(at))) {
            return true;
        }
    }
    return false;
}

// The newest of its calls on these communicators, or on others of their roles, that is clearly another one than always
// before.
std::optional<Edit> edit_of_own_past(const Run& run, const std::vector<uint32_t>& communicators, uint32_t index) {
    constexpr size_t kLookedAt = 64;
    constexpr size_t kLeastContext = 6;
    const Process& process = run.processes[index];
    std::vector<bool> is_compared;  // index: row
    for (const Member& member : process.members) {
        is_compared.push_back(std::ranges::any_of(communicators, [&](uint32_t one) {
            return member.communicator == one ||
                   (member.communicator != kNoIndex && are_siblings(run, one, member.communicator));
        }));
    }
    const Past past(process, newest_places(process.history, [&](const CallSignature& call) {
                        return format::moves_data(call.kind) && call.row != kNoIndex && is_compared[call.row];
                    }));
    for (size_t i = past.size(); i-- > 1 && past.size() - i <= kLookedAt;) {
        if (auto edit = past.edit_at(i);
            edit && edit->context >= kLeastContext && !is_new_to_record(process, edit->place)) {
            edit->process = index;
            return edit;
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<Edit> only_edit_of_own_past(const Run& run, const std::vector<int>& ranks,
                                          const std::vector<uint32_t>& communicators) {
    constexpr size_t kMostRanks = 8;
    std::optional<Edit> only;
    for (uint32_t index = 0; ranks.size() <= kMostRanks && index < run.processes.size(); ++index) {
        const bool asked = std::ranges::find(ranks, run.processes[index].rank) != ranks.end();
        if (auto edit = asked ? edit_of_own_past(run, communicators, index) : std::nullopt) {
            if (only) {
                return std::nullopt;
            }
            only = std::move(edit);
        }
    }
    return only;
}

}  // namespace titan::analyzer
