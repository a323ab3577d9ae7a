#include "decode_metrics.h"

#include <bit>
#include <cmath>
#include <unordered_map>
#include <vector>

namespace titan::analyzer {
namespace {

constexpr size_t kMostMetrics = 256;

class MetricReader {
  public:
    MetricReader(const format::RingImage& image, TextTable& texts, Process& process)
        : clock_(image.clock()), texts_(texts), process_(process) {}

    void take(const format::MarkerEntry& marker) {
        switch (marker.kind) {
            case format::MarkerKind::kSpanBegin: spans_[marker.thread].push_back(marker.name); break;
            case format::MarkerKind::kSpanEnd:
                if (auto& open = spans_[marker.thread]; !open.empty()) {
                    open.pop_back();
                }
                break;
            case format::MarkerKind::kEvent:
                process_.last_event = {texts_.use(marker.name), marker.step, clock_.realtime_ns(marker.ticks)};
                break;
            case format::MarkerKind::kMetric: take_value(marker); break;
            default: break;
        }
    }

  private:
    void take_value(const format::MarkerEntry& marker) {
        const auto known = rows_.find(marker.name);
        if (known == rows_.end() && process_.metrics.size() == kMostMetrics) {
            return;
        }
        const size_t row = known != rows_.end() ? known->second : process_.metrics.size();
        if (known == rows_.end()) {
            rows_.emplace(marker.name, row);
            process_.metrics.emplace_back().name = texts_.use(marker.name);
        }
        MetricRecord& metric = process_.metrics[row];
        const auto value = std::bit_cast<double>(marker.value);
        if (std::isfinite(value)) {
            metric.bad_values = 0;
        } else if (metric.bad_values++ == 0) {
            const auto& open = spans_[marker.thread];
            metric.bad_since = {open.empty() ? 0 : texts_.use(open.back()), marker.step,
                                clock_.realtime_ns(marker.ticks)};
            metric.bad_from_start = metric.values == 0;
        }
        ++metric.values;
        metric.last_value = value;
    }

    const format::RingClock& clock_;
    TextTable& texts_;
    Process& process_;
    std::unordered_map<uint32_t, size_t> rows_;                    // by id in the ring
    std::unordered_map<uint32_t, std::vector<uint32_t>> spans_{};  // open ones of each thread
};

}  // namespace

void decode_metrics(const format::RingImage& image, TextTable& texts, Process& process) {
    MetricReader reader(image, texts, process);
    const auto losses =
        image.for_each_marker([&](uint64_t, const format::MarkerEntry& marker) { reader.take(marker); });
    for (MetricRecord& metric : process.metrics) {
        metric.bad_from_start = metric.bad_from_start && losses.overwritten != 0;
    }
}

}  // namespace titan::analyzer
