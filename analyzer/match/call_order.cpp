#include "call_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/words.h"
#include "layout.h"

namespace titan::analyzer {
namespace {

// Siblings whose counts of calls differ by more do other work: their call of the same number is another one.
constexpr uint64_t kSameWorkCalls = 2;

enum class Made : uint8_t { kYes, kNotYet, kUnknown };

struct Place {
    Made made = Made::kUnknown;
    uint32_t at = 0;  // index in the history
};

bool is_near(uint64_t a, uint64_t b) { return std::max(a, b) - std::min(a, b) <= kSameWorkCalls; }

uint64_t most_issued(const Run& run, const Communicator& communicator) {
    uint64_t issued = 0;
    for (const MemberRef ref : communicator.members) {
        issued = std::max(issued, run.member(ref).issued);
    }
    return issued;
}

// Finds where a process made that call, or one like it on a sibling communicator.
class CallFinder {
  public:
    CallFinder(const Run& run, CallPlace call) : call_(call) {
        const uint64_t issued = most_issued(run, run.communicators[call.communicator]);
        communicators_.push_back(call.communicator);
        for (uint32_t i = 0; i < run.communicators.size(); ++i) {
            if (i != call.communicator && are_siblings(run, call.communicator, i) &&
                is_near(most_issued(run, run.communicators[i]), issued)) {
                communicators_.push_back(i);
            }
        }
    }

    Place find(const Process& process) const {
        for (const uint32_t communicator : communicators_) {
            const Member* const member = member_in(process, communicator);
            if (member == nullptr) {
                continue;
            }
            if (call_.exchange) {
                return find_exchange(process, *member);
            }
            if (const auto at = member->call_log.find(call_.sequence)) {
                return {Made::kYes, *at};
            }
            return {member->issued <= call_.sequence ? Made::kNotYet : Made::kUnknown, 0};
        }
        return {};
    }

  private:
    Place find_exchange(const Process& process, const Member& member) const {
        const auto row = static_cast<uint32_t>(&member - process.members.data());
        for (const Entry& entry : process.entries) {
            if (entry.row == row && format::class_of(entry.kind) == format::OpClass::p2p &&
                entry.sequence == call_.sequence && entry.place != kNoIndex) {
                return {Made::kYes, entry.place};
            }
        }
        const bool made =
            std::ranges::any_of(member.sent, [&](const auto& sent) { return sent.second > call_.sequence; });
        return {made || !member.p2p_counted ? Made::kUnknown : Made::kNotYet, 0};
    }

    CallPlace call_;
    std::vector<uint32_t> communicators_;  // the wanted one first
};

// The same places of a grid, elsewhere.
bool are_shifted(const Run& run, uint32_t first, uint32_t second) {
    const RankLine& a = run.communicators[first].rank_line;
    const RankLine& b = run.communicators[second].rank_line;
    const bool same_role = run.layout != nullptr && run.layout->roles()[first].role == run.layout->roles()[second].role;
    return same_role && a.fits && b.fits && a.slope == b.slope && a.first == b.first;
}

bool share_a_process(const Communicator& a, const Communicator& b) {
    return std::ranges::any_of(a.members, [&](MemberRef ref) {
        return std::ranges::any_of(b.members, [&](MemberRef other) { return other.process == ref.process; });
    });
}

}  // namespace

const Member* member_in(const Process& process, uint32_t communicator) {
    const auto found = std::ranges::find_if(process.members,
                                            [&](const Member& member) { return member.communicator == communicator; });
    return communicator == kNoIndex || found == process.members.end() ? nullptr : &*found;
}

std::string role_text(const Communicator& communicator) {
    const std::string_view role = role_in(communicator.name);
    return !role.empty()                ? std::string(role)
           : !communicator.name.empty() ? communicator.name
                                        : fmt::format("communicators of {} ranks", communicator.size);
}

std::string_view role_in(std::string_view name) {
    const size_t colon = name.find(':');
    const std::string_view role = colon != std::string_view::npos
                                      ? name.substr(0, colon)
                                      : name.substr(0, name.find_last_not_of("0123456789") + 1);
    return role == "pg" ? std::string_view() : role;
}

std::string order_of_few_text(const std::vector<int>& ranks, const OrderVote& vote) {
    return fmt::format("{} {} the order of the minority: {} of {} ranks that make such calls", ranks_text(ranks),
                       verb_form(ranks.size(), "has", "have"), vote.few().size(), vote.voters());
}

bool are_siblings(const Run& run, uint32_t first, uint32_t second) {
    const Communicator& a = run.communicators[first];
    const Communicator& b = run.communicators[second];
    if (a.size != b.size || a.origin != b.origin || share_a_process(a, b)) {
        return false;
    }
    if (a.parent_id != 0 && a.parent_id == b.parent_id && a.ordinal == b.ordinal) {
        return true;
    }
    if (a.name.empty() && b.name.empty() && are_shifted(run, first, second)) {
        return true;
    }
    const std::string_view role = role_in(a.name);
    return !role.empty() && role == role_in(b.name);
}

bool made_after(const Run& run, uint32_t process, CallPlace later, uint32_t place) {
    const Place made = CallFinder(run, later).find(run.processes[process]);
    return made.made == Made::kYes && made.at > place;
}

OrderVote vote_on_order(const Run& run, CallPlace a, CallPlace b) {
    const CallFinder find_a(run, a);
    const CallFinder find_b(run, b);
    OrderVote vote;
    for (uint32_t index = 0; index < run.processes.size(); ++index) {
        const Process& process = run.processes[index];
        const Place first = find_a.find(process);
        const Place second = find_b.find(process);
        if (first.made == Made::kUnknown || second.made == Made::kUnknown ||
            (first.made == Made::kNotYet && second.made == Made::kNotYet)) {
            continue;
        }
        const bool a_first = second.made == Made::kNotYet || (first.made == Made::kYes && first.at < second.at);
        (a_first ? vote.a_first : vote.b_first).push_back(index);
    }
    return vote;
}

}  // namespace titan::analyzer
