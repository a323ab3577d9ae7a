#include "deviation.h"

#include <algorithm>
#include <array>
#include <span>

#include "call_order.h"
#include "layout.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostSiblings = 4;   // more of one role add nothing
constexpr size_t kMostTokens = 4096;  // of its own past, where each place is compared with all others

// A call, without what differs between ranks of one role.
struct Token {
    uint32_t place;
    uint8_t group;  // index among the communicators asked for
    OpKind kind;
    int32_t offset;  // distance of the peer, in communicator ranks
    bool operator==(const Token& other) const {
        return group == other.group && kind == other.kind && offset == other.offset;
    }
};

class Comparison {
  public:
    Comparison(const Run& run, const std::vector<uint32_t>& communicators)
        : run_(run), group_(run.communicators.size()) {
        for (uint32_t index = 0; index < run.communicators.size(); ++index) {
            for (size_t i = 0; i < communicators.size() && group_[index] == 0; ++i) {
                if (index == communicators[i] || are_siblings(run, communicators[i], index)) {
                    group_[index] = static_cast<uint8_t>(i + 1);
                }
            }
        }
    }

    std::vector<Token> tokens_from(const Process& process, uint32_t first_place) const {
        std::vector<Token> tokens;
        const History& history = process.history;
        for (uint32_t place = first_place; place < history.size(); ++place) {
            const CallSignature& call = history[place];
            const uint8_t group = group_of(process, call.row);
            const bool p2p = call.kind == OpKind::kSend || call.kind == OpKind::kRecv;
            if (group == 0 || call.captured || (!p2p && !format::is_collective(call.kind))) {
                continue;
            }
            const Member& member = process.members[call.row];
            const int32_t size = std::max(member.size, 1);
            tokens.push_back({place, group, call.kind, p2p ? (call.peer - member.rank + size) % size : 0});
        }
        return tokens;
    }

    // Ranks in the same place of the grid but for the data-parallel axis: they make the same calls.
    std::vector<uint32_t> siblings_of(uint32_t index) const {
        std::vector<uint32_t> siblings;
        const Process& process = run_.processes[index];
        for (uint32_t other = 0; other < run_.processes.size() && siblings.size() < kMostSiblings; ++other) {
            if (other != index && groups_of(run_.processes[other]) == groups_of(process) &&
                stage_of(run_, run_.processes[other].rank) == stage_of(run_, process.rank)) {
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
    uint8_t group_of(const Process& process, uint32_t row) const {
        const uint32_t communicator = row == kNoIndex ? kNoIndex : process.members[row].communicator;
        return communicator == kNoIndex ? uint8_t{0} : group_[communicator];
    }

    std::vector<uint8_t> groups_of(const Process& process) const {
        std::vector<uint8_t> groups;
        for (uint32_t row = 0; row < process.members.size(); ++row) {
            if (const uint8_t group = group_of(process, row); group != 0) {
                groups.push_back(group);
            }
        }
        std::sort(groups.begin(), groups.end());
        return groups;
    }

    const Run& run_;
    std::vector<uint8_t> group_;  // index: communicator; 0: not asked for
};

// The first position where two lists of tokens differ; none if one merely ends before the other.
std::optional<size_t> first_difference(std::span<const Token> a, std::span<const Token> b) {
    const size_t common = std::min(a.size(), b.size());
    for (size_t i = 0; i < common; ++i) {
        if (!(a[i] == b[i])) {
            return i;
        }
    }
    return std::nullopt;
}

// All siblings agree with each other, and none with this rank.
std::optional<Deviation> from_siblings(const Run& run, const Comparison& comparison, uint32_t index) {
    constexpr size_t kLeastSiblings = 2;
    const Process& process = run.processes[index];
    const std::vector<uint32_t> siblings = comparison.siblings_of(index);
    if (siblings.size() < kLeastSiblings) {
        return std::nullopt;
    }
    Deviation deviation;
    deviation.process = index;
    for (const uint32_t sibling : siblings) {
        const Process& other = run.processes[sibling];
        const auto start = comparison.common_start(process, other);
        if (!start) {
            return std::nullopt;
        }
        const std::vector<Token> mine = comparison.tokens_from(process, start->first);
        const std::vector<Token> theirs = comparison.tokens_from(other, start->second);
        const auto at = first_difference(mine, theirs);
        if (!at || (deviation.place != kNoIndex && deviation.place != mine[*at].place)) {
            return std::nullopt;
        }
        deviation.place = mine[*at].place;
        deviation.peers.push_back(other.rank);
        if (deviation.peers.size() == 1) {
            deviation.expected = theirs[*at].kind;
        }
    }
    return deviation;
}

// The number of tokens before `a` that equal those before `b`.
size_t equal_before(std::span<const Token> tokens, size_t a, size_t b) {
    constexpr size_t kMost = 64;
    size_t length = 0;
    while (length < kMost && length < std::min(a, b) && tokens[a - 1 - length] == tokens[b - 1 - length]) {
        ++length;
    }
    return length;
}

// The newest place where it made another call than it always made after an equally long stretch of equal calls. A
// deviation that it has repeated since, after such a stretch, has become usual.
std::optional<Deviation> from_own_past(const Run& run, const Comparison& comparison, uint32_t index) {
    constexpr size_t kLookedAt = 64;
    constexpr size_t kLeastContext = 6;
    constexpr size_t kClearly = 3;
    const Process& process = run.processes[index];
    std::vector<Token> tokens = comparison.tokens_from(process, 0);
    if (tokens.size() > kMostTokens) {
        tokens.erase(tokens.begin(), tokens.end() - kMostTokens);
    }
    for (size_t at = tokens.size(); at-- > 1 && tokens.size() - at <= kLookedAt;) {
        size_t as_here = 0;
        size_t other = 0;
        size_t other_at = 0;
        for (size_t elsewhere = 1; elsewhere < tokens.size(); ++elsewhere) {
            size_t length = elsewhere == at ? 0 : equal_before(tokens, elsewhere, at);
            if (tokens[elsewhere] == tokens[at]) {
                as_here = std::max(as_here, length);
                continue;
            }
            // Only what follows the whole repetition tells how long it lasts, so a match must not overlap itself.
            length = elsewhere < at ? std::min(length, at - elsewhere) : 0;
            if (length >= other) {
                other = length;
                other_at = elsewhere;
            }
        }
        if (other >= kLeastContext && other >= as_here + kClearly) {
            return Deviation{index, tokens[at].place, {}, tokens[other_at].kind};
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<Deviation> only_deviating(const Run& run, const std::vector<int>& ranks,
                                        const std::vector<uint32_t>& communicators) {
    constexpr size_t kMostRanks = 8;
    if (ranks.size() > kMostRanks) {
        return std::nullopt;
    }
    const Comparison comparison(run, communicators);
    for (const auto method : std::array{from_siblings, from_own_past}) {
        std::optional<Deviation> only;
        size_t deviating = 0;
        for (uint32_t index = 0; index < run.processes.size(); ++index) {
            if (std::find(ranks.begin(), ranks.end(), run.processes[index].rank) == ranks.end()) {
                continue;
            }
            if (auto deviation = method(run, comparison, index)) {
                only = std::move(deviation);
                ++deviating;
            }
        }
        if (deviating == 1) {
            return only;
        }
    }
    return std::nullopt;
}

}  // namespace titan::analyzer
