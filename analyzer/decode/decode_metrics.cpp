#include "decode_metrics.h"

#include <bit>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <vector>

#include "marker_places.h"

namespace titan::analyzer {
namespace {

using format::MarkerEntry;
using format::MarkerKind;

constexpr size_t kMostMetrics = 256;

class MetricReader {
  public:
    MetricReader(const format::RingImage& image, TextTable& texts, Symbols* symbols, Process& process)
        : clock_(image.clock()), texts_(texts), places_(image, symbols), process_(process) {
        for (const format::OpenSpanRecord& span : image.open_spans()) {
            names_.emplace(span.id, span.name);
        }
    }

    void take(const MarkerEntry& marker) {
        switch (marker.kind) {
            case MarkerKind::kSpanBegin:
                if (marker.span != 0) {
                    names_[marker.span] = marker.name;
                } else {
                    spans_[marker.thread].push_back(marker.name);
                }
                break;
            case MarkerKind::kSpanEnd:
                if (auto& open = spans_[marker.thread]; marker.span == 0 && !open.empty()) {
                    open.pop_back();
                }
                break;
            case MarkerKind::kEvent:
                names_[marker.span] = marker.name;
                last_event_ = marker;
                break;
            case MarkerKind::kError: last_error_ = marker; break;
            case MarkerKind::kMetric: take_value(marker); break;
            default: break;
        }
    }

    // Only the newest event and error are put into words: places may have to be looked up in the program's files.
    void finish() {
        if (last_event_) {
            process_.last_event = mark(*last_event_, last_event_->name);
        }
        if (last_error_) {
            static_cast<Mark&>(process_.last_error) = mark(*last_error_, span_of(*last_error_));
            process_.last_error.message = texts_.use(last_error_->text);
        }
    }

  private:
    Mark mark(const MarkerEntry& marker, uint32_t name) {
        const std::string& place = places_.place(marker.site);
        return {texts_.use(name), marker.step, clock_.realtime_ns(marker.ticks), place.empty() ? 0 : texts_.add(place)};
    }

    // The name of the span that it is about or lies in. Older writers gave spans no ids.
    uint32_t span_of(const MarkerEntry& marker) {
        if (const auto known = names_.find(marker.span); marker.span != 0 && known != names_.end()) {
            return known->second;
        }
        const auto& open = spans_[marker.thread];
        return marker.span != 0 || open.empty() ? 0 : open.back();
    }

    void take_value(const MarkerEntry& marker) {
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
            metric.bad_since = mark(marker, span_of(marker));
            metric.bad_from_start = metric.values == 0;
        }
        ++metric.values;
        metric.last_value = value;
    }

    const format::RingClock& clock_;
    TextTable& texts_;
    MarkerPlaces places_;
    Process& process_;
    std::optional<MarkerEntry> last_event_;
    std::optional<MarkerEntry> last_error_;
    std::unordered_map<uint32_t, size_t> rows_;                    // by id in the ring
    std::unordered_map<uint32_t, uint32_t> names_;                 // of spans and events, by id
    std::unordered_map<uint32_t, std::vector<uint32_t>> spans_{};  // open ones of each thread, without ids
};

}  // namespace

void decode_metrics(const format::RingImage& image, TextTable& texts, Symbols* symbols, Process& process) {
    MetricReader reader(image, texts, symbols, process);
    const auto losses =
        image.for_each_marker([&](uint64_t, const format::MarkerEntry& marker) { reader.take(marker); });
    reader.finish();
    for (MetricRecord& metric : process.metrics) {
        metric.bad_from_start = metric.bad_from_start && losses.overwritten != 0;
    }
}

}  // namespace titan::analyzer
