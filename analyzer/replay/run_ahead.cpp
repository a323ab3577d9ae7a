#include "run_ahead.h"

#include <map>
#include <utility>

namespace titan::analyzer {
namespace {

constexpr int64_t kClearlyNs = 300'000;  // earlier than what the program calls before
constexpr double kOftenAhead = 0.5;      // share of the calls of a kind

// A rank's calls of one operation on one communicator.
struct CallsOfKind {
    uint32_t ahead = 0;  // came before the call that the program makes before them
    uint32_t all = 0;

    bool run_ahead() const { return ahead > kOftenAhead * all; }
};

class Ahead {
  public:
    Ahead(const std::vector<RawNode>& raw, StepGraph& graph) : raw_(raw), graph_(graph) {}

    void find_on(size_t r) {
        std::map<std::pair<uint32_t, OpKind>, CallsOfKind> kinds;
        const auto kind_of = [&](uint32_t n) { return std::pair(raw_[n].row, raw_[n].kind); };
        for (uint32_t n = graph_.begin[r] + 1; n < graph_.begin[r + 1]; ++n) {
            if (kind_of(n) != kind_of(n - 1) && tells_computation(r, n - 1) && !raw_[n].is_estimate) {
                CallsOfKind& of_kind = kinds[kind_of(n)];
                ++of_kind.all;
                of_kind.ahead += raw_[n].arrived_ns + graph_.known_ns[r] + kClearlyNs < raw_[n - 1].arrived_ns ? 1 : 0;
            }
        }
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            graph_.nodes[n].runs_ahead = kinds[kind_of(n)].run_ahead();
        }
    }

  private:
    // It came when the computation was there, and did not queue behind a call of its communicator.
    bool tells_computation(size_t r, uint32_t n) const {
        const uint32_t after = graph_.nodes[n].after;
        return !raw_[n].is_estimate &&
               (after == kNoIndex || raw_[n].arrived_ns > raw_[after].ended_ns + graph_.known_ns[r] + kClearlyNs);
    }

    const std::vector<RawNode>& raw_;
    StepGraph& graph_;
};

}  // namespace

void find_those_ahead(const std::vector<RawNode>& raw, StepGraph& graph) {
    Ahead ahead(raw, graph);
    for (size_t r = 0; r < graph.ranks(); ++r) {
        ahead.find_on(r);
    }
}

}  // namespace titan::analyzer
