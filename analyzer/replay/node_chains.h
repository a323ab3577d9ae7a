// What each node of a rank waited for on its own GPU: a call before it, the work that the order of its streams shows,
// or nothing but the work between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "run.h"
#include "step_graph.h"

namespace titan::analyzer {

// A node with its times, on its own host's clock.
struct RawNode {
    int64_t entered_ns = 0;
    int64_t arrived_ns = 0;
    int64_t ended_ns = 0;  // 0 unknown
    uint32_t step = 0;
    uint32_t row = kNoIndex;
    OpKind kind{};
    uint32_t piece = kNoIndex;  // of Process::step_streams

    bool is_call() const { return row != kNoIndex; }
};

// Each piece is a node in each step: what has many more of them than calls would take more memory than it is worth.
inline bool is_order_of_calls(const std::vector<StreamPiece>& order) {
    constexpr size_t kMostPieces = 32;  // to a call
    const auto calls =
        std::count_if(order.begin(), order.end(), [](const StreamPiece& piece) { return piece.is_call(); });
    return !order.empty() && order.size() <= kMostPieces * static_cast<size_t>(calls);
}

// A hash with what each piece waits for.
uint64_t mix_order(uint64_t hash, const std::vector<StreamPiece>& order);

// Has one rank other work between its calls than all others of its role that make the same ones? Then the order of
// streams compares it with nobody, and it may be the one that has more to do. Both by rank.
bool one_has_other_work(const std::vector<const std::vector<StreamPiece>*>& orders, const std::vector<uint32_t>& roles);

// Goes through the pieces of a process's steps (Process::step_streams) along with its calls, as far as a step goes on
// as they say: what does not is ordered by its calls alone.
class StepOrder {
  public:
    StepOrder() = default;
    explicit StepOrder(const std::vector<StreamPiece>& pieces) : pieces_(pieces), next_(pieces.size()) {}

    void begin_step() { next_ = 0; }
    void leave() { next_ = pieces_.size(); }
    // Calls visit(piece) for the work up to the next call.
    template <typename Visit>
    void pass_work(const Visit& visit) {
        for (; next_ < pieces_.size() && !pieces_[next_].is_call(); ++next_) {
            visit(static_cast<uint32_t>(next_));
        }
    }
    // The piece that the call is; kNoIndex: another one was to come.
    uint32_t pass_call(const CallSignature& call) {
        if (next_ < pieces_.size() && pieces_[next_].row == call.row && pieces_[next_].kind == call.kind) {
            return static_cast<uint32_t>(next_++);
        }
        leave();
        return kNoIndex;
    }

  private:
    std::span<const StreamPiece> pieces_;
    size_t next_ = 0;
};

// Fills `before`, `after` and how they count, and `last`. `came`: the nodes of each rank as they came, each behind all
// that it waits for. Without an order of streams the record does not say what a rank's computation waits for, but shows
// it: a node that came before another one had ended did not wait for that.
void chain_nodes(const std::vector<RawNode>& raw, std::vector<std::vector<uint32_t>>& came, StepGraph& graph);

// The same by Process::step_streams of each rank. When work ended that no call shows (it came while its stream still
// waited for others) is filled in: the same work takes as long as where it is seen.
void chain_by_streams(const std::vector<const std::vector<StreamPiece>*>& orders, std::vector<RawNode>& raw,
                      std::vector<std::vector<uint32_t>>& came, StepGraph& graph);

}  // namespace titan::analyzer
