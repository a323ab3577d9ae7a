#include "expected.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <tuple>

#include "call_order.h"
#include "layout.h"
#include "replays.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMinContext = 3;
// A stretch so short tells only where the same thing followed it each time, and often enough.
constexpr size_t kShortContext = 2;
constexpr size_t kShortSeen = 3;
constexpr size_t kMaxContext = 64;
constexpr size_t kLeftOut = 8;  // the sends and receives of a group, for instance

// The newest places of the history that are wanted, in order. What was captured runs later, with calls of its own.
template <typename Wanted>
std::vector<uint32_t> newest_places(const History& history, Wanted&& is_wanted) {
    std::vector<uint32_t> places;
    for (uint32_t place = history.size(); place-- > 0 && places.size() < kMaxHistory;) {
        if (!history[place].captured && is_wanted(history[place])) {
            places.push_back(place);
        }
    }
    std::reverse(places.begin(), places.end());
    return places;
}

// Calls that a rank made and calls that it should have made, from the first on that differs: its i-th and their j-th
// are equal; none where one of the two has ended.
using Same = std::function<std::optional<bool>(size_t i, size_t j)>;

// How far the two agree from one's i-th and the other's j-th on.
struct Agreement {
    size_t compared = 0;
    size_t equal = 0;
    bool all() const { return compared > 0 && equal == compared; }
};

Agreement agreement(const Same& same, size_t i, size_t j) {
    constexpr size_t kLookahead = 32;
    Agreement agreement;
    for (size_t k = 0; k < kLookahead; ++k) {
        const auto equal = same(i + k, j + k);
        if (!equal) {
            break;
        }
        ++agreement.compared;
        agreement.equal += *equal ? 1 : 0;
    }
    return agreement;
}

bool are_swapped(const Same& same) {
    const Agreement after = agreement(same, 2, 2);
    return same(0, 1) == true && same(1, 0) == true && after.equal == after.compared;
}

// `left_out`: as many calls may be missing.
void tell_kind(const Same& same, size_t left_out, Edit& edit) {
    const bool changed = agreement(same, 1, 1).all();
    const bool swapped = are_swapped(same);
    const bool missing = agreement(same, 0, left_out).all();
    const bool extra = agreement(same, 1, 0).all();
    edit.kind = changed || !(swapped || missing || extra) ? EditKind::kChanged
                : swapped                                 ? EditKind::kSwapped
                : missing                                 ? EditKind::kMissing
                                                          : EditKind::kExtra;
    // Several may be too many, such as the sends and receives of a group.
    for (size_t calls = 1; edit.kind == EditKind::kMissing && calls <= kLeftOut; ++calls) {
        edit.or_extra |= agreement(same, calls, 0).all();
    }
    edit.is_told = changed || swapped || missing || extra;
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
    size_t best_length = 0;
    std::optional<size_t> always;
    size_t seen = 0;
    bool unanimous = true;
    for (size_t candidate = i; candidate-- > 1 && best_length < kMaxContext;) {
        const size_t length = equal_before(candidate, i);
        if (length > best_length) {
            best_length = length;
            best = candidate;
        }
        if (length >= kShortContext) {
            always = always.value_or(candidate);
            unanimous &= tokens_[candidate] == tokens_[*always];
            ++seen;
        }
    }
    if (best && !unanimous && may_go_back_further(*best, i, best_length)) {
        return std::nullopt;
    }
    if (best_length >= kMinContext) {
        return best;
    }
    return unanimous && seen >= kShortSeen ? always : std::nullopt;
}

const CallSignature* Past::next() const {
    const auto expected = usual(size());
    return expected ? &(*this)[*expected] : nullptr;
}

std::optional<Edit> Past::edit_at(size_t i) const {
    constexpr size_t kClearly = 3;
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
    const auto expected = is_clear ? std::optional(other) : as_here < kShortContext ? usual(i) : std::nullopt;
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
    return Past::of_thread(process, process.history.size() - 1).next();
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
    // and the others, who have gone no further, may have owed it next.
    bool may_be_early() const {
        return own(0) != nullptr && own(1) != nullptr && own(0)->thread != 0 && own(1)->thread != 0 &&
               own(0)->thread != own(1)->thread && theirs(1) == nullptr;
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

constexpr size_t kMostSiblings = 4;  // more of one role add nothing

// A call, without what differs between ranks of one role.
struct Token {
    uint32_t place;
    uint32_t group;
    OpKind kind;
    int32_t offset;  // distance of the peer, in communicator ranks
    bool operator==(const Token& other) const {
        return group == other.group && kind == other.kind && offset == other.offset;
    }
};

// What the calls of ranks with the same role have in common.
class Comparison {
  public:
    explicit Comparison(const Run& run) : run_(run) {
        std::map<std::pair<std::string, int32_t>, uint32_t> roles;
        for (const Communicator& communicator : run.communicators) {
            const auto next = static_cast<uint32_t>(roles.size() + 1);
            group_.push_back(roles.try_emplace({role_text(communicator), communicator.size}, next).first->second);
        }
        for (uint32_t index = 0; index < run.processes.size(); ++index) {
            with_role_[role_of(run.processes[index])].push_back(index);
        }
    }

    std::vector<Token> tokens_from(const Process& process, uint32_t first_place) const {
        std::vector<Token> tokens;
        const History& history = process.history;
        for (uint32_t place = first_place; place < history.size(); ++place) {
            const CallSignature& call = history[place];
            const bool p2p = format::class_of(call.kind) == format::OpClass::p2p;
            if (call.captured || !format::moves_data(call.kind) || group_of(process, call.row) == 0) {
                continue;
            }
            const Member& member = process.members[call.row];
            const int32_t size = std::max(member.size, 1);
            tokens.push_back(
                {place, group_of(process, call.row), call.kind, p2p ? (call.peer - member.rank + size) % size : 0});
        }
        return tokens;
    }

    // Ranks in the same place of the grid but for the data-parallel axis: they make the same calls.
    std::vector<uint32_t> siblings_of(uint32_t index) const {
        std::vector<uint32_t> siblings;
        for (const uint32_t other : with_role_.at(role_of(run_.processes[index]))) {
            if (other != index && siblings.size() < kMostSiblings) {
                siblings.push_back(other);
            }
        }
        return siblings;
    }

    // Places in both histories from which on the two can be laid side by side.
    std::optional<std::pair<uint32_t, uint32_t>> common_start(const Process& a, const Process& b) const {
        if (a.overwritten == 0 && b.overwritten == 0) {
            return std::pair{0U, 0U};
        }
        std::optional<std::pair<uint32_t, uint32_t>> start;
        for (const Member& one : a.members) {
            for (const Member& other : b.members) {
                const bool same = one.communicator == other.communicator && one.communicator != kNoIndex;
                if (!same || one.call_log.empty() || other.call_log.empty()) {
                    continue;
                }
                const uint64_t first = std::max(one.call_log.first(), other.call_log.first());
                const auto here = one.call_log.find(first);
                const auto there = other.call_log.find(first);
                if (here && there && (!start || *here < start->first)) {
                    start = std::pair{*here, *there};
                }
            }
        }
        return start;
    }

  private:
    using Role = std::pair<std::vector<uint32_t>, int32_t>;  // groups, stage

    uint32_t group_of(const Process& process, uint32_t row) const {
        const uint32_t communicator = row == kNoIndex ? kNoIndex : process.members[row].communicator;
        return communicator == kNoIndex ? 0 : group_[communicator];
    }

    Role role_of(const Process& process) const {
        std::vector<uint32_t> groups;
        for (uint32_t row = 0; row < process.members.size(); ++row) {
            groups.push_back(group_of(process, row));
        }
        std::sort(groups.begin(), groups.end());
        return {std::move(groups), stage_of(run_, process.rank)};
    }

    const Run& run_;
    std::vector<uint32_t> group_;  // index: communicator; those of one role have one number
    std::map<Role, std::vector<uint32_t>> with_role_;
};

// All siblings agree with each other, and none with this rank.
std::optional<Edit> edit_beside_siblings(const Run& run, const Comparison& comparison, uint32_t index) {
    constexpr size_t kLeastSiblings = 2;
    const Process& process = run.processes[index];
    const std::vector<uint32_t> siblings = comparison.siblings_of(index);
    if (siblings.size() < kLeastSiblings) {
        return std::nullopt;
    }
    Edit edit;
    for (const uint32_t sibling : siblings) {
        const Process& other = run.processes[sibling];
        const auto start = comparison.common_start(process, other);
        if (!start) {
            return std::nullopt;
        }
        const std::vector<Token> mine = comparison.tokens_from(process, start->first);
        const std::vector<Token> theirs = comparison.tokens_from(other, start->second);
        const auto [own, others] = std::mismatch(mine.begin(), mine.end(), theirs.begin(), theirs.end());
        const bool ends = own == mine.end() || others == theirs.end();
        if (ends || (edit.place != kNoIndex && edit.place != own->place)) {
            return std::nullopt;
        }
        edit.place = own->place;
        edit.siblings.push_back(other.rank);
        if (edit.instead.empty()) {
            edit.instead.push_back(other.history[others->place]);
            const std::span left(own, mine.end());
            const std::span left_there(others, theirs.end());
            tell_kind(
                [&](size_t i, size_t j) {
                    return i < left.size() && j < left_there.size() ? std::optional(left[i] == left_there[j])
                                                                    : std::nullopt;
                },
                1, edit);
        }
    }
    return edit;
}

// The newest of its calls on these communicators, or on others of their roles, that is clearly another one than always
// before.
std::optional<Edit> edit_of_own_past(const Run& run, const std::vector<uint32_t>& communicators, uint32_t index) {
    constexpr size_t kLookedAt = 64;
    constexpr size_t kLeastContext = 6;
    const Process& process = run.processes[index];
    std::vector<bool> is_compared;  // index: row
    for (const Member& member : process.members) {
        is_compared.push_back(std::any_of(communicators.begin(), communicators.end(), [&](uint32_t one) {
            return member.communicator == one ||
                   (member.communicator != kNoIndex && are_siblings(run, one, member.communicator));
        }));
    }
    const Past past(process, newest_places(process.history, [&](const CallSignature& call) {
                        return format::moves_data(call.kind) && call.row != kNoIndex && is_compared[call.row];
                    }));
    for (size_t i = past.size(); i-- > 1 && past.size() - i <= kLookedAt;) {
        if (auto edit = past.edit_at(i); edit && edit->context >= kLeastContext) {
            edit->process = index;
            return edit;
        }
    }
    return std::nullopt;
}

}  // namespace

std::vector<Edit> edits_beside_siblings(const Run& run) {
    constexpr size_t kMostRanks = 1024;
    std::vector<Edit> edits;
    if (run.processes.size() > kMostRanks) {
        return edits;
    }
    const Comparison comparison(run);
    for (uint32_t index = 0; index < run.processes.size(); ++index) {
        if (auto edit = edit_beside_siblings(run, comparison, index)) {
            edit->process = index;
            edits.push_back(*std::move(edit));
        }
    }
    return edits;
}

std::optional<Edit> only_edit_of_own_past(const Run& run, const std::vector<int>& ranks,
                                          const std::vector<uint32_t>& communicators) {
    constexpr size_t kMostRanks = 8;
    std::optional<Edit> only;
    for (uint32_t index = 0; ranks.size() <= kMostRanks && index < run.processes.size(); ++index) {
        const bool asked = std::find(ranks.begin(), ranks.end(), run.processes[index].rank) != ranks.end();
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
