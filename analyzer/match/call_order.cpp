#include "analyzer/call_order.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace titan::analyzer {
namespace {

// Siblings whose counts of calls differ by more do other work: their call of the same number is another one.
constexpr uint64_t kSameWorkCalls = 2;

enum class Made : uint8_t { kYes, kNotYet, kUnknown };

struct Place {
    Made made = Made::kUnknown;
    uint32_t at = 0;  // in the history
};

bool is_near(uint64_t a, uint64_t b) { return std::max(a, b) - std::min(a, b) <= kSameWorkCalls; }

uint64_t most_issued(const Run& run, const Communicator& communicator) {
    uint64_t issued = 0;
    for (const MemberRef ref : communicator.members) {
        issued = std::max(issued, run.member(ref).issued);
    }
    return issued;
}

// Where a process made that call, or the like of it on a sibling.
class CallFinder {
  public:
    CallFinder(const Run& run, CallPlace call) : run_(run), call_(call) {
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
            for (const Member& member : process.members) {
                if (member.communicator != communicator) {
                    continue;
                }
                if (const auto at = member.past.find(call_.sequence)) {
                    return {Made::kYes, *at};
                }
                return {member.issued <= call_.sequence ? Made::kNotYet : Made::kUnknown, 0};
            }
        }
        return {};
    }

  private:
    const Run& run_;
    CallPlace call_;
    std::vector<uint32_t> communicators_;  // the wanted one first
};

// "dp" of "dp0" and "dp:3". Empty where the name tells no role ("pg:14": a process group without a description).
std::string_view role_in(std::string_view name) {
    const size_t colon = name.find(':');
    const std::string_view role = colon != std::string_view::npos
                                      ? name.substr(0, colon)
                                      : name.substr(0, name.find_last_not_of("0123456789") + 1);
    return role == "pg" ? std::string_view() : role;
}

bool share_a_process(const Communicator& a, const Communicator& b) {
    return std::any_of(a.members.begin(), a.members.end(), [&](MemberRef ref) {
        return std::any_of(b.members.begin(), b.members.end(),
                           [&](MemberRef other) { return other.process == ref.process; });
    });
}

}  // namespace

bool are_siblings(const Run& run, uint32_t first, uint32_t second) {
    const Communicator& a = run.communicators[first];
    const Communicator& b = run.communicators[second];
    if (a.size != b.size || a.origin != b.origin || share_a_process(a, b)) {
        return false;
    }
    if (a.parent_id != 0 && a.parent_id == b.parent_id && a.ordinal == b.ordinal) {
        return true;
    }
    const std::string_view role = role_in(a.name);
    return !role.empty() && role == role_in(b.name);
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
