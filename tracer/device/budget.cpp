#include "budget.h"

#include <algorithm>

#include "base/hash.h"

namespace titan::tracer {

namespace {

// A smaller number is taken only where it fits with room to spare, or noise would change it again and again.
constexpr double kToSpare = 0.8;

// The smallest power of two up to `most` that divides `cost` below `allowed`; 0: none does.
uint32_t divisor(double cost, double allowed, uint32_t most, uint32_t now) {
    for (uint32_t of = 1; of <= most; of *= 2) {
        const bool is_smaller = now == 0 || of < now;
        if (cost / of <= allowed * (is_smaller ? kToSpare : 1)) {
            return of;
        }
    }
    return 0;
}

}  // namespace

void Budget::start(uint32_t share, const MarkCosts& costs) {
    *this = {};
    share_ = share;
    costs_ = costs;
    plan_ = {1, 1};
}

bool Budget::is_chosen(uint32_t of, uint64_t unit) {
    for (uint64_t size = 2; size <= of; size *= 2) {
        // Of the two halves of each block that a hash of the block names one.
        if ((unit / (size / 2) & 1) != (mix_hash(size, unit / size) & 1)) {
            return false;
        }
    }
    return of != 0;
}

void Budget::add(const ObservedUnit& unit) {
    ObservedUnit& oldest = last_[units_ % kRemembered];
    sum_ns_ += unit.took_ns - oldest.took_ns;
    sum_launches_ += unit.launches - oldest.launches;
    oldest = unit;
    ++units_;
    debt_ns_ += static_cast<double>(unit.full) * costs_.full_gpu_ns - allowed_ns(unit.took_ns);
    debt_ns_ = std::max(debt_ns_, 0.0);
    if (units_ >= kFirstUnits) {
        plan_.full_of = choose_full();
        plan_.light_of = is_settled() ? choose_light(plan_.full_of) : 1;
    }
}

uint32_t Budget::choose_full() const {
    const auto dearest_ns = static_cast<double>(std::max(costs_.full_gpu_ns, costs_.full_host_ns));
    return divisor(static_cast<double>(sum_launches_) * dearest_ns, allowed_ns(sum_ns_), kMostUnits, plan_.full_of);
}

// Light marks may take what full ones leave of the calling threads' time. If nothing fits, a few launches have them all
// the same: they show that the GPU goes on.
uint32_t Budget::choose_light(uint32_t full_of) const {
    const auto launches = static_cast<double>(sum_launches_);
    const double by_full_ns = full_of == 0 ? 0 : launches * costs_.full_host_ns / full_of;
    const uint32_t of = full_of == 1
                            ? 1
                            : divisor(launches * costs_.light_host_ns, std::max(allowed_ns(sum_ns_) - by_full_ns, 0.0),
                                      kMostLaunches, plan_.light_of);
    return of != 0 ? of : kMostLaunches;
}

uint64_t Budget::full_launches(uint64_t unit) const {
    if (units_ < kFirstUnits) {
        return UINT64_MAX;
    }
    if (!is_chosen(plan_.full_of, unit)) {
        return 0;
    }
    // What N units earn pays for one with full marks. One that was chosen soon after another may begin with the debt of
    // that one, but with no more.
    const double earned_ns = allowed_ns(unit_ns()) * plan_.full_of;
    const double left_ns = debt_ns_ > earned_ns ? 0 : 2 * earned_ns - debt_ns_;
    return costs_.full_gpu_ns == 0 ? UINT64_MAX : static_cast<uint64_t>(left_ns / costs_.full_gpu_ns);
}

}  // namespace titan::tracer
