#include "call_period.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

constexpr size_t kLeastPeriods = 3;
constexpr size_t kLeastShare = 4;   // a quarter of all calls
constexpr size_t kBehindShare = 8;  // at most an eighth of them comes behind

// The Z function: how far the sequence from each place on equals its start. In linear time.
std::vector<size_t> equal_to_start(const std::vector<uint64_t>& calls) {
    std::vector<size_t> equal(calls.size(), 0);
    size_t begin = 0, end = 0;  // of the known match that reaches farthest
    for (size_t i = 1; i < calls.size(); ++i) {
        size_t length = i < end ? std::min(end - i, equal[i - begin]) : 0;
        while (i + length < calls.size() && calls[length] == calls[i + length]) {
            ++length;
        }
        equal[i] = length;
        if (i + length > end) {
            begin = i;
            end = i + length;
        }
    }
    return equal;
}

// The period of the first `count` calls; the end of these counts.
CallPeriod period_until(const std::vector<uint64_t>& calls, size_t count) {
    const std::vector<size_t> equal =
        equal_to_start({calls.rbegin() + static_cast<ptrdiff_t>(calls.size() - count), calls.rend()});
    CallPeriod best;
    for (size_t period = 1; period < count; ++period) {
        const size_t covered = equal[period] + period;
        if (covered >= kLeastPeriods * period && covered * kLeastShare >= calls.size() && covered > best.covered) {
            best = {period, covered};
        }
    }
    return best;
}

}  // namespace

CallPeriod call_period(const std::vector<uint64_t>& calls) {
    CallPeriod period = period_until(calls, calls.size());
    if (period.calls != 0) {
        return period;
    }
    size_t end = calls.size() - calls.size() / kBehindShare;
    period = period_until(calls, end);
    for (; period.calls != 0 && end < calls.size() && calls[end] == calls[end - period.calls]; ++end) {
        ++period.covered;
    }
    period.behind = period.calls == 0 ? 0 : calls.size() - end;
    return period;
}

}  // namespace titan::analyzer
