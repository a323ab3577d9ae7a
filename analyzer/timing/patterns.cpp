// Tells whether a series of costs is persistent, periodic, irregular or a single event, and whether chance could have
// made it.
#include "patterns.h"

#include <algorithm>
#include <cmath>

#include "robust.h"
#include "timing.h"

namespace titan::analyzer {
namespace {

constexpr double kLeastCostNs = 1'000'000;
constexpr double kLeastShare = 0.05;       // share of a step
constexpr double kLeastShareOfAll = 0.02;  // share of the time that was seen, for patterns that do not strike every
                                           // step
constexpr size_t kLeastPeriodicHits = 5;
constexpr double kLeastEvidence = 12;  // nats: once in 160,000 runs, times the trials
constexpr double kTail = 0.3;
constexpr double kMostElsewhere = 0.5;  // of the hits of a stretch: with more outside, it is one of several
constexpr double kAboveOthers = 3;      // times what others lose without a pattern
constexpr double kLeastOnceNs = 2e9;
constexpr double kLeastOnceSteps = 5;

// Compares two explanations of the observations: "late with the observed frequency" against "late as often as the
// others".
double evidence(size_t hits, size_t of, double base_rate) {
    const double n = static_cast<double>(of);
    const double p = static_cast<double>(hits) / n;
    if (p <= base_rate) {
        return 0;
    }
    const double rest = p >= 1 ? 0 : (1 - p) * std::log((1 - p) / (1 - base_rate));
    return n * (p * std::log(p / base_rate) + rest);
}

std::vector<size_t> hits_in(const std::vector<bool>& late, size_t begin, size_t end) {
    std::vector<size_t> hits;
    for (size_t i = begin; i < end; ++i) {
        if (late[i]) {
            hits.push_back(i);
        }
    }
    return hits;
}

void measure(const std::vector<double>& costs, const std::vector<size_t>& hits, LateShape& shape) {
    std::vector<double> struck;
    for (const size_t i : hits) {
        struck.push_back(costs[i]);
        shape.cost_ns += costs[i];
    }
    shape.hits = hits.size();
    shape.first = hits.front();
    shape.last = hits.back();
    shape.typical_ns = median_of(std::move(struck));
}

// The stretch in which it is late in more than two of three keys: the largest sum of +1 and -2.
bool persistent(const std::vector<double>& costs, const std::vector<bool>& late, const ShapeLimits& limits,
                LateShape& shape) {
    int sum = 0;
    int best = 0;
    size_t begin = 0;
    size_t best_begin = 0;
    size_t best_end = 0;
    for (size_t i = 0; i < late.size(); ++i) {
        sum += late[i] ? 1 : -2;
        if (sum < 0) {
            sum = 0;
            begin = i + 1;
        }
        if (sum > best) {
            best = sum;
            best_begin = begin;
            best_end = i + 1;
        }
    }
    // A stretch continues over a single step without lateness; such a gap is chance.
    while (best > 0 && best_begin >= 2 && late[best_begin - 2]) {
        best_begin -= 2;
    }
    const std::vector<size_t> hits = hits_in(late, best_begin, best_end);
    const std::vector<double> all(costs.begin() + static_cast<std::ptrdiff_t>(best_begin),
                                  costs.begin() + static_cast<std::ptrdiff_t>(best_end));
    const double low_ns = quantile_of(all, 0.25);
    const bool are_long = low_ns >= kLongPause * limits.length_ns;
    if (hits.size() < (are_long ? limits.least_long_hits : kLeastHits) || low_ns < limits.least_ns ||
        evidence(hits.size(), all.size(), limits.base_rate) <
            kLeastEvidence + std::log(limits.trials * static_cast<double>(costs.size()))) {
        return false;
    }
    shape.pattern = LatePattern::kPersistent;
    measure(costs, hits, shape);
    return true;
}

bool periodic(const std::vector<double>& costs, const std::vector<bool>& late, const ShapeLimits& limits,
              LateShape& shape) {
    const std::vector<size_t> events = hits_in(late, 0, late.size());
    std::vector<size_t> best;
    size_t best_every = 0;
    size_t best_expected = 0;
    for (size_t a = 0; a < events.size(); ++a) {
        for (size_t b = a + 1; b < std::min(events.size(), a + 4); ++b) {
            const size_t every = events[b] - events[a];
            std::vector<size_t> hits;
            size_t expected = 0;
            for (size_t at = events[a]; every >= 2 && at < late.size(); at += every) {
                ++expected;
                if (late[at]) {
                    hits.push_back(at);
                }
            }
            if (hits.size() > best.size() && hits.size() * 5 >= expected * 4) {
                best = hits;
                best_every = every;
                best_expected = expected;
            }
        }
    }
    const size_t others = events.size() - best.size();
    const double tried =
        limits.trials * static_cast<double>(costs.size()) * static_cast<double>(std::max<size_t>(events.size(), 1));
    if (best.size() < kLeastPeriodicHits || others > best.size() / 2 ||
        evidence(best.size(), best_expected, limits.base_rate) < kLeastEvidence + std::log(tried)) {
        return false;
    }
    LateShape found;
    found.pattern = LatePattern::kPeriodic;
    found.every = best_every;
    measure(costs, best, found);
    const double since_share = static_cast<double>(costs.size() - found.first) / static_cast<double>(costs.size());
    if (found.cost_ns < kLeastShareOfAll * limits.seen_ns * since_share) {
        return false;
    }
    shape = found;
    return true;
}

bool irregular(const std::vector<double>& costs, const std::vector<bool>& late, const ShapeLimits& limits,
               size_t least_hits, double least_evidence, LateShape& shape) {
    const std::vector<size_t> hits = hits_in(late, 0, late.size());
    if (hits.size() < least_hits) {
        return false;
    }
    LateShape found;
    found.pattern = LatePattern::kIrregular;
    measure(costs, hits, found);
    if (found.cost_ns < 2 * kLeastShareOfAll * limits.seen_ns ||
        evidence(hits.size(), costs.size(), limits.base_rate) < least_evidence) {
        return false;
    }
    shape = found;
    return true;
}

std::vector<bool> late_from(double least_ns, const std::vector<double>& costs) {
    std::vector<bool> late;
    for (const double cost : costs) {
        late.push_back(cost >= least_ns && cost > 0);
    }
    return late;
}

constexpr double kOnceStandsOut = 3;

bool once(const std::vector<double>& costs, const ShapeLimits& limits, LateShape& shape) {
    const auto largest = std::max_element(costs.begin(), costs.end());
    if (largest == costs.end() ||
        *largest < std::max({kLeastOnceNs, kLeastOnceSteps * limits.length_ns, limits.long_ns}) ||
        *largest < kLeastShareOfAll * limits.seen_ns) {
        return false;
    }
    // A single event stands out from occasional ones.
    const auto comes_near = [&](double cost) { return cost * kOnceStandsOut > *largest; };
    if (std::count_if(costs.begin(), costs.end(), comes_near) > 1) {
        return false;
    }
    shape.pattern = LatePattern::kOneOff;
    measure(costs, {static_cast<size_t>(largest - costs.begin())}, shape);
    return true;
}

double least_cost(const RankTiming& rank, const TimeAxis& axis) {
    return std::max({kLeastCostNs, 3 * rank.noise_ns, kLeastShare * axis.length_ns});
}

// The job's time to reach that key without any lateness: a rank that is late once by less is within the variation of
// steps.
double time_before(const TimeAxis& axis, size_t key) {
    return key == 0 ? axis.seen_ns() : axis.when_ns[key] - axis.when_ns[key - 1];
}

// If ranks without a pattern lose nearly as much, chance decides which rank has one. The pattern counts as chance if
// only hosts were seen, which may run ahead of the GPU, or if others are at times as late.
void drop_among_equals(Timing& timing) {
    std::vector<RankTiming*> by_loss;
    for (RankTiming& rank : timing.ranks) {
        by_loss.push_back(&rank);
    }
    std::stable_sort(by_loss.begin(), by_loss.end(),
                     [](const auto* a, const auto* b) { return a->lost_ns < b->lost_ns; });
    double most_ns = 0;  // most lost by a rank that is not late
    for (RankTiming* rank : by_loss) {
        const bool weak = !rank->by_device || rank->shape.typical_ns <= rank->others_ns;
        if (weak && rank->shape.pattern != LatePattern::kOneOff && rank->lost_ns <= kAboveOthers * most_ns) {
            rank->shape = LateShape();
        }
        if (rank->shape.pattern == LatePattern::kNone && !rank->held) {
            most_ns = std::max(most_ns, rank->lost_ns);
        }
    }
}

}  // namespace

const char* name_of(LatePattern pattern) {
    switch (pattern) {
        case LatePattern::kNone: return "none";
        case LatePattern::kPersistent: return "persistent";
        case LatePattern::kPeriodic: return "periodic";
        case LatePattern::kIrregular: return "irregular";
        case LatePattern::kOneOff: return "one-off";
    }
    return "none";
}

double late_from_ns(const std::vector<double>& costs, double least_ns) {
    std::vector<double> large;
    std::copy_if(costs.begin(), costs.end(), std::back_inserter(large),
                 [&](double cost) { return cost >= least_ns && cost > 0; });
    return std::max(least_ns, kTail * quantile_of(large, 0.75));
}

LateShape shape_of(const std::vector<double>& costs, const ShapeLimits& limits) {
    const std::vector<bool> late = late_from(late_from_ns(costs, limits.least_ns), costs);
    LateShape shape;
    if (costs.size() < limits.least_long_hits || limits.length_ns <= 0) {
        return shape;
    }
    if (persistent(costs, late, limits, shape)) {
        const auto all = static_cast<size_t>(std::count(late.begin(), late.end(), true));
        LateShape now_and_then;
        const bool comes_again =
            static_cast<double>(all - shape.hits) > kMostElsewhere * static_cast<double>(shape.hits) &&
            irregular(costs, late, limits, kLeastHits, kLeastEvidence + std::log(limits.trials), now_and_then);
        return comes_again ? now_and_then : shape;
    }
    if (costs.size() >= kLeastHits) {
        periodic(costs, late, limits, shape) ||
            irregular(costs, late, limits, kLeastHits, kLeastEvidence + std::log(limits.trials), shape) ||
            once(costs, limits, shape);
    }
    return shape;
}

LateShape shape_of_long_pauses(const std::vector<double>& costs, const ShapeLimits& limits) {
    LateShape shape;
    constexpr double kLeastPause = 0.2;  // share of a key
    const double least_ns = std::max(kLeastPause * limits.length_ns, limits.least_ns);
    const std::vector<bool> late = late_from(least_ns, costs);
    const auto times = static_cast<double>(std::count(late.begin(), late.end(), true));
    if (times <= kSeldom * static_cast<double>(costs.size())) {
        irregular(costs, late, limits, kLeastLongPauses, 0, shape);
    }
    return shape;
}

void classify(Timing& timing) {
    double keys = 0;
    double late_keys = 0;
    std::vector<double> own_late;
    for (const RankTiming& rank : timing.ranks) {
        const double least_ns = least_cost(rank, timing.axes[rank.axis]);
        own_late.push_back(static_cast<double>(
            std::count_if(rank.costs.begin(), rank.costs.end(), [&](double cost) { return cost >= least_ns; })));
        late_keys += own_late.back();
        keys += static_cast<double>(rank.costs.size());
    }
    for (size_t i = 0; i < timing.ranks.size(); ++i) {
        RankTiming& rank = timing.ranks[i];
        const TimeAxis& axis = timing.axes[rank.axis];
        const double other_keys = keys - static_cast<double>(rank.costs.size());
        ShapeLimits limits;
        limits.least_ns = least_cost(rank, axis);
        limits.length_ns = axis.length_ns;
        limits.long_ns = axis.long_ns;
        limits.seen_ns = axis.seen_ns();
        limits.base_rate = std::max(limits.base_rate, other_keys > 0 ? (late_keys - own_late[i]) / other_keys : 0);
        limits.trials = static_cast<double>(timing.ranks.size());
        rank.shape = rank.held ? LateShape() : shape_of(rank.costs, limits);
        if (rank.shape.pattern == LatePattern::kOneOff && rank.shape.cost_ns < time_before(axis, rank.shape.first)) {
            rank.shape = LateShape();
        }
    }
    std::vector<double> others_ns(timing.axes.size(), 0);
    for (const RankTiming& rank : timing.ranks) {
        if (rank.shape.pattern == LatePattern::kNone && !rank.held) {
            others_ns[rank.axis] = std::max(others_ns[rank.axis], quantile_of(rank.costs, 0.9));
        }
    }
    for (RankTiming& rank : timing.ranks) {
        rank.others_ns = rank.shape.pattern == LatePattern::kNone ? 0 : others_ns[rank.axis];
    }
    drop_among_equals(timing);
}

}  // namespace titan::analyzer
