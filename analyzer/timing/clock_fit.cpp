// A line through the comparisons of two clocks: within the limits that causality sets, and through the ends of
// collectives where those say more. Where no line fits, the clock was set: the stretch is cut there.
#include <algorithm>
#include <cmath>
#include <limits>

#include "align_clocks.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr double kMaxDrift = 500e-6;          // limit of clock discipline
constexpr double kToleranceNs = 50'000;       // limits may contradict each other by as much
constexpr size_t kLeastSamplesOfStretch = 3;  // fewer are damage, not a set clock
constexpr int kIterations = 40;

struct Line {
    double offset_ns = 0;  // offset at the origin
    double drift = 0;
    double at(double time) const { return offset_ns + drift * time; }
};

// Comparisons [first, last) with times relative to the first.
struct Window {
    const std::vector<ClockSample>& samples;
    size_t first;
    size_t last;
    int64_t origin_ns;

    double time(size_t i) const { return static_cast<double>(samples[i].at_ns - origin_ns); }
    double length() const { return time(last - 1) - time(first); }
    size_t size() const { return last - first; }
};

struct Band {
    double least;
    double most;
    double width() const { return most - least; }
};

// Offsets at the origin that all limits allow with that drift.
Band band_at(const Window& window, double drift) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    Band band{-kInfinity, kInfinity};
    for (size_t i = window.first; i < window.last; ++i) {
        const double moved = drift * window.time(i);
        band.least = std::max(band.least, window.samples[i].least_ns - moved);
        band.most = std::min(band.most, window.samples[i].most_ns - moved);
    }
    return band;
}

// The width is concave in the drift. Few comparisons tell no drift.
double widest_drift(const Window& window) {
    if (window.size() < kLeastSamplesOfStretch && band_at(window, 0).width() >= 0) {
        return 0;
    }
    double low = -kMaxDrift;
    double high = kMaxDrift;
    for (int i = 0; i < kIterations; ++i) {
        const double left = low + (high - low) / 3;
        const double right = high - (high - low) / 3;
        band_at(window, left).width() < band_at(window, right).width() ? low = left : high = right;
    }
    return (low + high) / 2;
}

// The end of the allowed drifts on one side of `inside`.
double drift_limit(const Window& window, double inside, double outside) {
    if (band_at(window, outside).width() >= 0) {
        return outside;
    }
    for (int i = 0; i < kIterations; ++i) {
        const double middle = (inside + outside) / 2;
        band_at(window, middle).width() >= 0 ? inside = middle : outside = middle;
    }
    return inside;
}

bool fits(const Window& window) {
    return window.size() < 2 || band_at(window, widest_drift(window)).width() >= -kToleranceNs;
}

// Half of the ends may be wild: those near the median tell. Their mean, because looks at GPUs that are some
// milliseconds apart leave few offsets to choose from, of which the median would be one.
double middle_of(const std::vector<double>& offsets_ns, const Window& window) {
    std::vector<double> errors_ns;
    for (size_t i = window.first; i < window.last; ++i) {
        errors_ns.push_back(window.samples[i].likely_error_ns);
    }
    const double median_ns = median_of(offsets_ns);
    const double near_ns = median_of(std::move(errors_ns));
    double sum_ns = 0;
    size_t count = 0;
    for (const double ns : offsets_ns) {
        const bool is_near = std::abs(ns - median_ns) <= near_ns;
        sum_ns += is_near ? ns : 0;
        count += is_near ? 1 : 0;
    }
    return count == 0 ? median_ns : sum_ns / static_cast<double>(count);
}

// Median of slopes between the early and the late half, then the offset in the middle.
Line likely_line(const Window& window, double least_drift, double most_drift) {
    std::vector<double> slopes;
    const size_t half = window.size() / 2;
    for (size_t i = 0; i + half < window.size(); ++i) {
        const size_t a = window.first + i;
        const size_t b = a + half;
        const double distance = window.time(b) - window.time(a);
        if (half > 0 && distance > 0) {
            slopes.push_back((window.samples[b].likely_ns - window.samples[a].likely_ns) / distance);
        }
    }
    Line line;
    line.drift = std::clamp(slopes.size() < 4 ? 0 : median_of(std::move(slopes)), least_drift, most_drift);
    std::vector<double> offsets;
    for (size_t i = window.first; i < window.last; ++i) {
        offsets.push_back(window.samples[i].likely_ns - line.drift * window.time(i));
    }
    line.offset_ns = middle_of(offsets, window);
    return line;
}

double likely_error(const Window& window, const Line& line) {
    std::vector<double> residuals;
    std::vector<double> errors;
    for (size_t i = window.first; i < window.last; ++i) {
        residuals.push_back(window.samples[i].likely_ns - line.at(window.time(i)));
        errors.push_back(window.samples[i].likely_error_ns);
    }
    // The ends may all be off to one side by as much as a collective takes; the scatter averages out.
    const double scatter = 6 * spread_of(residuals) / std::sqrt(static_cast<double>(window.size()));
    return median_of(std::move(errors)) + scatter;
}

// The largest distance of this line from one that the limits allow, at both ends of the window.
double farthest(const Window& window, const Line& line, double least_drift, double most_drift) {
    double worst = 0;
    for (int i = 0; i <= 8; ++i) {
        const double drift = least_drift + (most_drift - least_drift) * i / 8;
        const Band band = band_at(window, drift);
        for (const double time : {window.time(window.first), window.time(window.last - 1)}) {
            const double here = line.at(time);
            worst = std::max(
                {worst, std::abs(band.least + drift * time - here), std::abs(band.most + drift * time - here)});
        }
    }
    return worst;
}

// Moves the line into what is allowed.
Line into_limits(const Window& window, Line line) {
    const Band band = band_at(window, line.drift);
    line.offset_ns =
        band.width() >= 0 ? std::clamp(line.offset_ns, band.least, band.most) : (band.least + band.most) / 2;
    return line;
}

ClockStretch fit_stretch(const Window& window) {
    const double widest = widest_drift(window);
    const bool allowed = band_at(window, widest).width() >= 0;
    const double least_drift = allowed ? drift_limit(window, widest, -kMaxDrift) : widest;
    const double most_drift = allowed ? drift_limit(window, widest, kMaxDrift) : widest;
    const Line likely = into_limits(window, likely_line(window, least_drift, most_drift));
    const Line middle =
        into_limits(window, {(band_at(window, widest).least + band_at(window, widest).most) / 2, widest});
    const double by_limits_of_likely = farthest(window, likely, least_drift, most_drift);
    const double by_limits_of_middle = farthest(window, middle, least_drift, most_drift);
    const double by_ends = likely_error(window, likely);
    const bool use_middle = by_limits_of_middle <= std::min(by_limits_of_likely, by_ends);
    const Line& line = use_middle ? middle : likely;
    ClockStretch stretch;
    stretch.from_ns = window.samples[window.first].at_ns;
    stretch.at_ns = window.origin_ns;
    stretch.offset_ns = line.offset_ns;
    stretch.drift = line.drift;
    stretch.bound_ns = (use_middle ? by_limits_of_middle : std::min(by_limits_of_likely, by_ends)) +
                       (allowed ? 0 : -band_at(window, widest).width());
    stretch.drift_known = std::abs(line.drift) * window.length() > stretch.bound_ns;
    return stretch;
}

// End of the longest window from `first` that one line fits. Limits only get tighter: bisection finds it.
size_t longest_fit(const std::vector<ClockSample>& samples, size_t first) {
    size_t fitting = first + 1;
    size_t beyond = samples.size() + 1;
    const auto fits_until = [&](size_t last) { return fits({samples, first, last, samples[first].at_ns}); };
    if (fits_until(samples.size())) {
        return samples.size();
    }
    while (beyond - fitting > 1) {
        const size_t middle = (fitting + beyond) / 2;
        if (fits_until(std::min(middle, samples.size()))) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    return fitting;
}

}  // namespace

std::vector<ClockStretch> fit_clock(std::vector<ClockSample> samples) {
    std::erase_if(samples, [](const ClockSample& sample) { return sample.most_ns < sample.least_ns; });
    std::stable_sort(samples.begin(), samples.end(), [](const ClockSample& a, const ClockSample& b) {
        return std::pair(a.order_ns, a.at_ns) < std::pair(b.order_ns, b.at_ns);
    });
    std::vector<ClockStretch> stretches;
    for (size_t first = 0; first < samples.size();) {
        const size_t last = longest_fit(samples, first);
        if (last - first >= kLeastSamplesOfStretch || (first == 0 && last == samples.size())) {
            stretches.push_back(fit_stretch({samples, first, last, samples[first].at_ns}));
        }
        first = last;
    }
    return stretches;
}

}  // namespace titan::analyzer
