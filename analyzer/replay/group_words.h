// A rank's calls in a step, in words that are equal for ranks that do the same work.
#pragma once

#include <cstdint>
#include <set>

#include "base/hash.h"
#include "run.h"
#include "same_work.h"

namespace titan::analyzer {

// A call, or the calls of a group, in words that are equal for ranks that make the same ones at the same place of a
// step. Stages of a pipeline take turns differently; an all-to-all is one, whoever sends and receives.
class GroupWords {
  public:
    void add(const Member& member, const CallSignature& call) {
        const bool pair = format::class_of(call.kind) == format::OpClass::p2p;
        const uint64_t direction = !pair ? 0 : call.peer > member.rank ? 1 : 2;
        const uint64_t joins = first_ == nullptr ? 0 : 1;
        words_ = mix_hash(words_, word(member, call.kind, direction << 1 | joins));
        one_kind_ &= first_ == nullptr || (first_ == &member && pair);
        first_ = &member;
        if (pair && call.peer >= 0 && call.peer != member.rank) {
            (call.kind == OpKind::kSend ? sent_to_ : received_from_).insert(call.peer);
        }
    }

    // Mixes the group into those of its step, and begins the next one.
    void end(uint64_t& step) {
        if (first_ == nullptr) {
            return;
        }
        const bool all_to_all = one_kind_ && is_all_to_all(first_->size, sent_to_.size(), received_from_.size());
        step = mix_hash(step, all_to_all ? word(*first_, OpKind::kAllToAll, 0) : words_);
        *this = GroupWords();
    }

  private:
    static uint64_t word(const Member& member, OpKind kind, uint64_t more) {
        return static_cast<uint64_t>(kind) << 40 | static_cast<uint64_t>(static_cast<uint32_t>(member.size)) << 4 |
               more;
    }

    uint64_t words_ = 0;
    const Member* first_ = nullptr;
    bool one_kind_ = true;  // sends and receives of one communicator
    std::set<int32_t> sent_to_;
    std::set<int32_t> received_from_;
};

}  // namespace titan::analyzer
