// Sums of steps as columns, as marker_columns.h does markers.
#pragma once

#include <bit>
#include <span>

#include "formats/container/marker_columns.h"
#include "formats/container/packed_number.h"
#include "formats/layout/step_sum.h"

namespace titan::format {

template <typename Coder>
void code_steps(Coder& coder, std::span<StepSum> steps) {
    uint64_t step = 0;
    uint64_t first_ticks = 0;
    for (StepSum& sum : steps) {
        coder.delta(sum.step, step);
        coder.number(sum.calls);
        coder.number(sum.bytes);
        coder.number(sum.host_ticks);
        coder.number(sum.device_ticks);
        coder.number(sum.timed_calls);
        coder.delta(sum.first_ticks, first_ticks);
        uint64_t last_ticks = first_ticks;
        coder.delta(sum.last_ticks, last_ticks);
    }
}

namespace step_columns {

inline constexpr unsigned kDurationBits = 9;  // to 0.2 %: a byte of each that cannot be foretold
inline constexpr unsigned kMomentBits = 14;   // to 0.006 % of the time since the moment before

template <typename Coder>
void duration(Coder& coder, uint64_t& ticks) {
    uint64_t coded = to_coarse(ticks, kDurationBits);
    coder.number(coded);
    ticks = from_coarse(coded, kDurationBits);
}

// Both sides go on from what is read, so that errors do not add up.
template <typename Coder>
void moment(Coder& coder, uint64_t& ticks, uint64_t& before) {
    const bool is_earlier = static_cast<int64_t>(ticks - before) < 0;
    uint64_t coded = to_coarse(is_earlier ? before - ticks : ticks - before, kMomentBits) << 1 | (is_earlier ? 1 : 0);
    coder.number(coded);
    const uint64_t apart = from_coarse(coded >> 1, kMomentBits);
    before += (coded & 1) != 0 ? 0 - apart : apart;
    ticks = before;
}

template <typename Coder>
void real(Coder& coder, double& value) {
    auto bits = std::bit_cast<uint64_t>(value);
    marker_columns::bits(coder, bits);
    value = std::bit_cast<double>(bits);
}

}  // namespace step_columns

// But for their communicators, which are numbers in the block. Times as they are read are put into the sums.
template <typename Coder>
void code_step_calls(Coder& coder, std::span<StepCalls> sums) {
    using namespace step_columns;
    code_columns(coder, sums, Rising{&StepCalls::step}, &StepCalls::kind, &StepCalls::calls, &StepCalls::bytes,
                 &StepCalls::timed_calls);
    for (uint64_t StepCalls::*const ticks :
         {&StepCalls::host_ticks, &StepCalls::device_ticks, &StepCalls::longest_ticks}) {
        for (StepCalls& sum : sums) {
            duration(coder, sum.*ticks);
        }
    }
    uint64_t before = 0;
    for (StepCalls& sum : sums) {
        uint64_t entered = sum.entered_ticks();
        moment(coder, entered, before);
        sum.first_ticks = entered;
        sum.after_ticks = 0;
    }
}

template <typename Coder>
void code_health(Coder& coder, std::span<HealthExtremes> rows) {
    uint64_t step = 0;
    uint64_t ticks = 0;
    for (HealthExtremes& row : rows) {
        coder.number(row.name);
        coder.number(row.readings);
        step_columns::real(coder, row.least);
        step_columns::real(coder, row.greatest);
        for (int64_t HealthExtremes::*const of : {&HealthExtremes::first_step, &HealthExtremes::last_step,
                                                  &HealthExtremes::least_step, &HealthExtremes::greatest_step}) {
            coder.delta(row.*of, step);
        }
        coder.delta(row.first_ticks, ticks);
        coder.delta(row.last_ticks, ticks);
    }
}

}  // namespace titan::format
