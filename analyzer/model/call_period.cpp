#include "call_period.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

constexpr size_t kLeastPeriods = 3;
constexpr size_t kLeastShare = 4;  // a quarter of all calls

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

}  // namespace

CallPeriod call_period(const std::vector<uint64_t>& calls) {
    const std::vector<size_t> equal = equal_to_start({calls.rbegin(), calls.rend()});
    CallPeriod best;
    for (size_t period = 1; period < calls.size(); ++period) {
        const size_t covered = equal[period] + period;
        if (covered >= kLeastPeriods * period && covered * kLeastShare >= calls.size() && covered > best.covered) {
            best = {period, covered};
        }
    }
    return best;
}

}  // namespace titan::analyzer
