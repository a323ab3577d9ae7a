// All calls of a process that its ring still holds, in a few bytes each: operation, order, step. Matching and
// predictions read this; full entries are kept for the newest calls and the unfinished ones only (condense.h). Plain
// values, no thread-safety of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "formats/layout/enums.h"
#include "formats/layout/ring_layout.h"

namespace titan::analyzer {

// A call without its time. Equal calls of a process share one.
struct CallSignature {
    uint64_t count = 0;
    uint32_t row = format::kNoIndex;  // index into Process::members
    uint32_t graph = 0;
    uint32_t thread = 0;
    uint32_t site = 0;    // texts
    uint32_t words = 0;   // texts: Entry::shape
    uint32_t agreed = 0;  // Entry::agreed
    int32_t peer = -1;
    format::OpKind kind{};
    format::Datatype datatype = format::Datatype::kNoDatatype;
    format::Reduction reduction = format::Reduction::kNoReduction;
    bool captured = false;
    bool replayed = false;
    bool arguments_lost = false;  // Entry::arguments_lost: compared with nothing
    bool operator==(const CallSignature&) const = default;
};

// Compares the arguments that members of a communicator must agree on. Fields without a meaning for the operation hold
// "none" since decoding.
inline bool same_arguments(const CallSignature& a, const CallSignature& b) {
    return a.kind == b.kind && a.datatype == b.datatype && a.reduction == b.reduction && a.peer == b.peer &&
           a.count == b.count && a.agreed == b.agreed;
}
uint64_t hash_of_arguments(const CallSignature& signature);

// Non-negative integers in 1, 2 or 4 bytes each, as the largest needs.
class Column {
  public:
    size_t size() const { return bytes_.size() / width_; }
    bool empty() const { return bytes_.empty(); }
    uint32_t operator[](size_t i) const;
    void assign(std::span<const uint32_t> values);
    size_t size_bytes() const { return bytes_.size(); }

  private:
    size_t width_ = 1;
    std::vector<uint8_t> bytes_;
};

// A number per call that seldom changes from one call to the next.
class Runs {
  public:
    struct Run {
        uint32_t first;
        int32_t value;
        bool operator==(const Run&) const = default;
    };
    explicit Runs(int32_t none) : none_(none) {}
    // Call with rising indexes.
    void add(uint32_t index, int32_t value) {
        if (runs_.empty() ? value != none_ : runs_.back().value != value) {
            runs_.push_back({index, value});
        }
    }
    int32_t at(uint32_t index) const;
    // First and one past the last of the equal numbers around `index`, of `size` calls.
    std::pair<uint32_t, uint32_t> around(uint32_t index, uint32_t size) const;
    const std::vector<Run>& list() const { return runs_; }

  private:
    int32_t none_;
    std::vector<Run> runs_;
};

struct History {
    static constexpr uint32_t kMarkDistance = 64;

    std::vector<CallSignature> signatures;
    Column calls;                   // in program order: index into signatures
    Runs steps{-1};                 // index: call
    Runs replays{0};                // index: call
    std::vector<int64_t> marks_ns;  // when every kMarkDistance-th call was entered

    uint32_t size() const { return static_cast<uint32_t>(calls.size()); }
    const CallSignature& operator[](size_t place) const { return signatures[calls[place]]; }
};

// The collectives of one member: places in the history, by sequence number.
class CallLog {
  public:
    static constexpr uint64_t kBlockCalls = 64;

    size_t size() const { return places_.size(); }
    bool empty() const { return places_.empty(); }
    uint32_t place(size_t i) const { return places_[i]; }
    uint64_t sequence(size_t i) const { return sequences_.empty() ? first_ + i : sequences_[i]; }
    uint64_t first() const { return sequence(0); }
    uint64_t last() const { return sequence(size() - 1); }
    // Index of the first call at or after that sequence number; size() where there is none.
    size_t lower_bound(uint64_t sequence) const;
    std::optional<uint32_t> find(uint64_t sequence) const;
    // Hash of the calls from `block` * kBlockCalls on; 0 unless all of them are there. Equal hashes: equal arguments.
    uint64_t block_hash(uint64_t block) const;

    // Sequences rise strictly.
    void assign(std::vector<uint64_t> sequences, std::vector<uint32_t> places, const History& history);

  private:
    uint64_t first_ = 0;
    std::vector<uint64_t> sequences_;  // only where they have gaps
    std::vector<uint32_t> places_;
    uint64_t first_block_ = 0;
    std::vector<uint64_t> hashes_;  // of the blocks from first_block_ on; empty if there are gaps
};

}  // namespace titan::analyzer
