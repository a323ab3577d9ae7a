// Edits of ranks whose calls differ from those of ranks with the same role.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "alignment.h"
#include "call_order.h"
#include "expected.h"
#include "layout.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostSiblings = 4;   // more of one role add nothing
constexpr size_t kLeastAgreed = 6;    // calls: of ranks that agree in fewer one may be another stage
constexpr uint32_t kMostDistant = 4;  // stages

// A call, without what differs between ranks of one role.
struct Token {
    uint32_t place;
    uint32_t group;
    OpKind kind;
    int32_t offset;  // distance of the peer
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

    // `across_groups`: messages are told apart by how far the peer is in the job, whatever communicator carries them.
    std::vector<Token> tokens_from(const Process& process, uint32_t first_place, bool across_groups = false) const {
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
            if (p2p && across_groups) {
                const int peer = run_.global_rank(run_.communicators[member.communicator], call.peer);
                tokens.push_back({place, 0, call.kind, peer - process.rank});
                continue;
            }
            tokens.push_back(
                {place, group_of(process, call.row), call.kind, p2p ? (call.peer - member.rank + size) % size : 0});
        }
        return tokens;
    }

    // The other's call as the rank would make it: on its communicator of that role, with its own peer. The row is
    // kNoIndex if it has no such communicator, or several.
    CallSignature as_made_by(const Process& process, const Process& other, CallSignature call) const {
        const uint32_t group = group_of(other, call.row);
        const Member& theirs = other.members[call.row];
        const auto is_like = [&](uint32_t row) { return group_of(process, row) == group; };
        std::vector<uint32_t> rows;
        for (uint32_t row = 0; row < process.members.size(); ++row) {
            if (is_like(row)) {
                rows.push_back(row);
            }
        }
        const bool has_that_row = call.row < process.members.size() && is_like(call.row);
        call.row = rows.size() == 1 ? rows.front() : has_that_row ? call.row : kNoIndex;
        if (call.row != kNoIndex && format::class_of(call.kind) == format::OpClass::p2p) {
            const Member& own = process.members[call.row];
            const int32_t size = std::max(own.size, 1);
            call.peer = (own.rank + call.peer - theirs.rank + size) % size;
        }
        return call;
    }

    // A message of another stage as the rank would make it: to or from the rank that is as far away.
    CallSignature as_made_by_stage(const Process& process, const Process& other, CallSignature call) const {
        const Member& theirs = other.members[call.row];
        const int peer =
            run_.global_rank(run_.communicators[theirs.communicator], call.peer) - other.rank + process.rank;
        call.row = kNoIndex;
        for (uint32_t row = 0; row < process.members.size(); ++row) {
            const Member& own = process.members[row];
            for (int i = 0; own.communicator != kNoIndex && own.size == theirs.size && i < own.size; ++i) {
                if (peer >= 0 && run_.global_rank(run_.communicators[own.communicator], i) == peer) {
                    call.row = row;
                    call.peer = i;
                }
            }
        }
        return call;
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

    // Stages of a pipeline with one rank each have nobody with their role: the nearest of the others.
    std::vector<uint32_t> others_of_pipeline(uint32_t index) const {
        std::vector<uint32_t> others;
        for (uint32_t distance = 1; distance <= kMostDistant; ++distance) {
            for (const int64_t other : {int64_t{index} - distance, int64_t{index} + distance}) {
                if (other >= 0 && other < static_cast<int64_t>(run_.processes.size())) {
                    others.push_back(static_cast<uint32_t>(other));
                }
            }
        }
        return others;
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
        std::ranges::sort(groups);
        return {std::move(groups), stage_of(run_, process.rank)};
    }

    const Run& run_;
    std::vector<uint32_t> group_;  // index: communicator; those of one role have one number
    std::map<Role, std::vector<uint32_t>> with_role_;
};

// The calls of a rank and of another one from a common start on, and how many agree before the first that differs.
struct Beside {
    Beside(std::vector<Token> mine_, std::vector<Token> theirs_) : mine(std::move(mine_)), theirs(std::move(theirs_)) {
        const auto differ = std::mismatch(mine.begin(), mine.end(), theirs.begin(), theirs.end());
        agreed = static_cast<size_t>(differ.first - mine.begin());
    }
    bool ends() const { return agreed == mine.size() || agreed == theirs.size(); }
    const Token& own() const { return mine[agreed]; }
    const Token& there() const { return theirs[agreed]; }
    Same same() const {
        return [this](size_t i, size_t j) {
            return agreed + i < mine.size() && agreed + j < theirs.size()
                       ? std::optional(mine[agreed + i] == theirs[agreed + j])
                       : std::nullopt;
        };
    }
    bool is_alike() const { return agreed + agreed_after(same()) >= kLeastAgreed; }

    std::vector<Token> mine, theirs;
    size_t agreed = 0;
};

// The edit of the first call that differs. `as_made`: a call of the other as the rank would make it.
template <typename AsMade>
void tell_edit(const Beside& pair, const History& theirs, const AsMade& as_made, Edit& edit) {
    edit.place = pair.own().place;
    for (size_t k = pair.agreed; k < std::min(pair.theirs.size(), pair.agreed + kLeftOut); ++k) {
        if (pair.theirs[k] == pair.own()) {
            break;
        }
        edit.instead.push_back(as_made(theirs[pair.theirs[k].place]));
    }
    tell_kind(pair.same(), edit.instead.size(), edit);
    if (edit.kind != EditKind::kMissing) {
        edit.instead.resize(1);
    }
}

// All siblings agree with each other, and none with this rank.
std::optional<Edit> edit_beside_siblings(const Run& run, const Comparison& comparison, uint32_t index) {
    constexpr size_t kLeastSiblings = 2;
    const Process& process = run.processes[index];
    const std::vector<uint32_t> siblings = comparison.siblings_of(index);
    if (siblings.size() < kLeastSiblings) {
        return std::nullopt;
    }
    const bool may_be_stages = stage_of(run, process.rank) < 0;  // of a pipeline that nothing names
    Edit edit;
    for (const uint32_t sibling : siblings) {
        const Process& other = run.processes[sibling];
        const auto start = comparison.common_start(process, other);
        if (!start) {
            return std::nullopt;
        }
        const Beside pair(comparison.tokens_from(process, start->first), comparison.tokens_from(other, start->second));
        if (pair.ends() || (edit.place != kNoIndex && edit.place != pair.own().place) ||
            (may_be_stages && !pair.is_alike())) {
            return std::nullopt;
        }
        edit.siblings.push_back(other.rank);
        if (edit.instead.empty()) {
            const auto as_made = [&](const CallSignature& call) { return comparison.as_made_by(process, other, call); };
            tell_edit(pair, other.history, as_made, edit);
        }
    }
    return edit;
}

// Has one of these followed the other before, or after?
bool follow_elsewhere(const std::vector<Token>& tokens, const Token& first, const Token& second, size_t here) {
    for (size_t i = 1; i < tokens.size(); ++i) {
        if (i != here && tokens[i - 1] == first && tokens[i] == second) {
            return true;
        }
    }
    return false;
}

// Stages of a pipeline of sends and receives alone make the same calls, each with its own neighbours: the first call in
// which a rank differs from others that agree. All of them count their calls from the start of the job. Of two stages
// the odd one does what it never did before.
std::optional<Edit> edit_beside_stages(const Run& run, const Comparison& comparison, uint32_t index) {
    const Process& process = run.processes[index];
    if (std::ranges::any_of(process.history.signatures,
                            [](const CallSignature& call) { return format::is_collective(call.kind); })) {
        return std::nullopt;
    }
    Edit edit;
    std::optional<Token> expected;
    bool is_new = true;  // for the rank, and not for the others
    for (const uint32_t stage : comparison.others_of_pipeline(index)) {
        const Process& other = run.processes[stage];
        const uint64_t start = std::max(process.overwritten, other.overwritten);
        const auto first_of = [&](const Process& one) { return static_cast<uint32_t>(start - one.overwritten); };
        const Beside pair(comparison.tokens_from(process, first_of(process), true),
                          comparison.tokens_from(other, first_of(other), true));
        if (pair.agreed == 0 || !pair.is_alike()) {
            continue;
        }
        if (pair.ends() || (expected && (edit.place != pair.own().place || !(*expected == pair.there())))) {
            return std::nullopt;
        }
        edit.siblings.push_back(other.rank);
        const Token& before = pair.mine[pair.agreed - 1];
        is_new &= !follow_elsewhere(pair.mine, before, pair.own(), pair.agreed) &&
                  follow_elsewhere(pair.mine, before, pair.there(), pair.agreed) &&
                  follow_elsewhere(pair.theirs, before, pair.there(), pair.agreed);
        if (!expected) {
            expected = pair.there();
            const auto as_made = [&](const CallSignature& call) {
                return comparison.as_made_by_stage(process, other, call);
            };
            tell_edit(pair, other.history, as_made, edit);
        }
    }
    return edit.siblings.size() >= (is_new ? 1U : 2U) ? std::optional(std::move(edit)) : std::nullopt;
}

std::vector<Edit> edits_beside_siblings(const Run& run) {
    constexpr size_t kMostRanks = 1024;
    std::vector<Edit> edits;
    if (run.processes.size() > kMostRanks) {
        return edits;
    }
    const Comparison comparison(run);
    for (uint32_t index = 0; index < run.processes.size(); ++index) {
        auto edit = edit_beside_siblings(run, comparison, index);
        edit = edit ? edit : edit_beside_stages(run, comparison, index);
        if (edit) {
            edit->process = index;
            edits.push_back(*std::move(edit));
        }
    }
    return edits;
}

}  // namespace

const std::vector<Edit>& SiblingEdits::all() const {
    if (!all_) {
        all_ = edits_beside_siblings(run_);
    }
    return *all_;
}

const Edit* SiblingEdits::of(uint32_t process) const {
    const auto found = std::ranges::find_if(all(), [&](const Edit& edit) { return edit.process == process; });
    return found == all().end() ? nullptr : &*found;
}

std::vector<const Edit*> SiblingEdits::among(const std::vector<int>& ranks) const {
    std::vector<const Edit*> edits;
    for (const Edit& edit : all()) {
        if (std::ranges::find(ranks, run_.processes[edit.process].rank) != ranks.end()) {
            edits.push_back(&edit);
        }
    }
    return edits;
}

}  // namespace titan::analyzer
