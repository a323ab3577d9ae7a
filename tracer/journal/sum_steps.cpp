#include "sum_steps.h"

namespace titan::tracer {
namespace {

using format::CollectiveEntry;
using format::StepSum;

// The GPU is a step behind at most.
constexpr int64_t kStepsBehind = 2;

class Summing {
  public:
    explicit Summing(std::span<StepSum> rows) : rows_(rows) {}

    // False: there is no room for another step.
    bool add(const CollectiveEntry& call) {
        if (count_ == 0 || rows_[count_ - 1].step != call.step) {
            if (count_ == rows_.size()) {
                return false;
            }
            rows_[count_] = StepSum{};
            rows_[count_++].step = call.step;
        }
        format::add_call(rows_[count_ - 1], call);
        return true;
    }
    std::span<StepSum> rows() const { return rows_.first(count_); }

  private:
    std::span<StepSum> rows_;
    size_t count_ = 0;
};

}  // namespace

format::StepSums sum_steps(RingTail& tail, uint64_t& next_call, bool all, StepRoom& room) {
    const int64_t newest_step = tail.header().step;
    if (newest_step < 0 || tail.calls().slots() == 0) {
        return {next_call, next_call, {}};
    }
    Summing sums(room.steps);
    uint64_t first_call = UINT64_MAX;
    for (bool goes_on = true; goes_on;) {
        const uint64_t asked = next_call;
        const size_t got = tail.read(tail.calls(), next_call, room.calls, StepRoom::kCalls);
        first_call = first_call == UINT64_MAX ? next_call : first_call;
        if (got != 0 && !tail.holds(tail.calls(), next_call)) {
            break;  // overwritten meanwhile, perhaps in part
        }
        size_t taken = 0;
        while (taken < got && (all || room.calls[taken].step <= newest_step - kStepsBehind) &&
               sums.add(room.calls[taken])) {
            ++taken;
        }
        next_call += taken;
        goes_on = got == 0 ? next_call != asked : taken == got;
    }
    return {first_call, next_call, sums.rows()};
}

}  // namespace titan::tracer
