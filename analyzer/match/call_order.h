// The order in which ranks made two collectives of different communicators: decided by a vote of all ranks that make
// such calls, and by what each rank used to do. If two orders meet, the minority's is the wrong one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "run.h"

namespace titan::analyzer {

struct CallPlace {
    uint32_t communicator = kNoIndex;
    uint64_t sequence = kNoSequence;
    bool exchange = false;  // sends and receives between all members as one group: the sequence is that of each pair
};

// Processes that made one call before the other, or that made only the one. Ranks outside a communicator vote with
// their call of that number on the communicator that plays the same role for them.
struct OrderVote {
    std::vector<uint32_t> a_first, b_first;

    size_t voters() const { return a_first.size() + b_first.size(); }
    bool is_tied() const { return a_first.size() == b_first.size(); }
    const std::vector<uint32_t>& few() const { return a_first.size() < b_first.size() ? a_first : b_first; }
};
OrderVote vote_on_order(const Run& run, CallPlace a, CallPlace b);
// "ranks 2-3 have the order of the few: 2 of 16 ranks that make such calls".
std::string order_of_few_text(const std::vector<int>& ranks, const OrderVote& vote);

// What the process is in that communicator; null: no member.
const Member* member_in(const Process& process, uint32_t communicator);
// Did the process make that call, or one like it on a sibling, after that place in its history?
bool made_after(const Run& run, uint32_t process, CallPlace later, uint32_t place);

// "dp" of "dp0" and "dp:3". Empty where the name tells no role ("pg:14": a process group without a description).
std::string_view role_in(std::string_view name);
// That role; where there is none the name, and of a communicator without a name its size.
std::string role_text(const Communicator& communicator);

// Communicators that play the same role for other ranks: children of one split, or of one name but for a number, or
// nameless and on other ranks at the same distances.
bool are_siblings(const Run& run, uint32_t a, uint32_t b);

}  // namespace titan::analyzer
