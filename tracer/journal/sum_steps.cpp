#include "sum_steps.h"

#include <algorithm>
#include <cmath>

namespace titan::tracer {
namespace {

using format::CollectiveEntry;
using format::HealthEntry;
using format::HealthExtremes;
using format::StepCalls;
using format::StepSum;

// The GPU is a step behind at most.
constexpr int64_t kStepsBehind = 2;

class Summing {
  public:
    Summing(RingTail& tail, StepRoom& room) : tail_(tail), room_(room) {}

    // False: there is no room for another step.
    bool add(const CollectiveEntry& call) {
        const bool is_new = steps_ == 0 || room_.steps[steps_ - 1].step != call.step;
        if (is_new &&
            (steps_ == format::kJournalBlockSteps || calls_ + format::kJournalStepCalls > format::kJournalBlockCalls)) {
            return false;
        }
        if (is_new) {
            room_.steps[steps_] = StepSum{};
            room_.steps[steps_++].step = call.step;
            first_of_step_ = calls_;
        }
        format::add_call(room_.steps[steps_ - 1], call);
        if (format::counts_in_steps(call)) {
            format::add_call(calls_like(call), call);
        }
        return true;
    }
    std::span<StepSum> steps() const { return {room_.steps, steps_}; }
    std::span<StepCalls> calls() const { return {room_.step_calls, calls_}; }
    std::span<format::StepCommunicator> communicators() const { return {room_.communicators, communicators_}; }

  private:
    // The last row of a step is for all that the others are not for.
    StepCalls& calls_like(const CollectiveEntry& call) {
        StepCalls* const first = room_.step_calls + first_of_step_;
        StepCalls* const end = room_.step_calls + calls_;
        StepCalls* const known = std::find_if(
            first, end, [&call](const StepCalls& row) { return row.is_of(call.communicator_id, call.kind); });
        if (known != end) {
            return *known;
        }
        const auto of_step = static_cast<uint32_t>(end - first);
        if (of_step == format::kJournalStepCalls) {
            return *(end - 1);
        }
        *end = StepCalls{};
        end->step = call.step;
        if (of_step + 1 < format::kJournalStepCalls) {
            end->communicator_id = call.communicator_id;
            end->kind = call.kind;
            note_communicator(call);
        }
        ++calls_;
        return *end;
    }

    void note_communicator(const CollectiveEntry& call) {
        const auto all = communicators();
        if (call.communicator_id != 0 && communicators_ < format::kJournalCommunicators &&
            std::none_of(all.begin(), all.end(), [&call](const auto& row) { return row.id == call.communicator_id; })) {
            const format::CommunicatorRecord record = tail_.communicator(call.communicator);
            const bool is_it = record.id == call.communicator_id;
            room_.communicators[communicators_++] = {call.communicator_id, is_it ? record.size : -1,
                                                     is_it ? record.name : 0};
        }
    }

    RingTail& tail_;
    StepRoom& room_;
    size_t steps_ = 0;
    size_t calls_ = 0;
    size_t first_of_step_ = 0;
    size_t communicators_ = 0;
};

HealthExtremes extremes_of(const HealthEntry& entry) {
    return {
        entry.name,       0,           entry.value, entry.value, entry.since_step, entry.since_step, entry.since_step,
        entry.since_step, entry.ticks, entry.ticks};
}

void add_reading(HealthExtremes& row, const HealthEntry& entry) {
    ++row.readings;
    row.first_step = std::min(row.first_step, entry.since_step);
    row.last_step = std::max(row.last_step, entry.since_step);
    row.last_ticks = std::max(row.last_ticks, entry.ticks);
    if (row.name == 0) {
        return;
    }
    if (entry.value < row.least) {
        row.least = entry.value;
        row.least_step = entry.since_step;
    }
    if (entry.value > row.greatest) {
        row.greatest = entry.value;
        row.greatest_step = entry.since_step;
    }
}

// The last row is for all that the others are not for.
size_t add_reading(std::span<HealthExtremes> rows, size_t count, const HealthEntry& entry) {
    const auto known = std::find_if(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count),
                                    [&entry](const HealthExtremes& row) { return row.name == entry.name; });
    const auto place = static_cast<size_t>(known - rows.begin());
    const bool is_new = place == count && count < rows.size();
    if (is_new) {
        rows[count] = extremes_of(entry);
        if (count + 1 == rows.size()) {
            rows[count].name = 0;
            rows[count].least = rows[count].greatest = 0;
        }
    }
    add_reading(rows[std::min(place, rows.size() - 1)], entry);
    return count + (is_new ? 1 : 0);
}

}  // namespace

format::StepSums sum_steps(RingTail& tail, uint64_t& next_call, bool all, StepRoom& room) {
    const int64_t newest_step = tail.header().step;
    if (newest_step < 0 || tail.calls().slots() == 0) {
        return {next_call, next_call, {}};
    }
    Summing sums(tail, room);
    uint64_t first_call = UINT64_MAX;
    for (bool goes_on = true; goes_on;) {
        const uint64_t asked = next_call;
        const size_t got = tail.read(tail.calls(), next_call, room.calls, StepRoom::kEntries);
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
    return {first_call, next_call, sums.steps(), sums.calls(), sums.communicators()};
}

std::span<HealthExtremes> sum_health(RingTail& tail, uint64_t& next_reading, StepRoom& room) {
    size_t rows = 0;
    while (tail.health().fresh(next_reading) != 0) {
        const uint64_t asked = next_reading;
        const size_t got = tail.read(tail.health(), next_reading, room.readings, StepRoom::kEntries);
        if (got == 0 && next_reading == asked) {
            break;
        }
        for (size_t i = 0; i < got && tail.holds(tail.health(), next_reading); ++i) {
            if (std::isfinite(room.readings[i].value)) {
                rows = add_reading(room.health, rows, room.readings[i]);
            }
        }
        next_reading += got;
    }
    return {room.health, rows};
}

}  // namespace titan::tracer
