#include "decode_metrics.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "call_site_names.h"
#include "host/mapped.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

using format::MarkerEntry;
using format::MarkerKind;

constexpr size_t kMostMetrics = 256;
constexpr size_t kMostFacts = 8;  // of a span or event

class MetricReader {
  public:
    MetricReader(const format::RingImage& image, TextTable& texts, Symbols* symbols, Process& process)
        : image_(image), clock_(image.clock()), texts_(texts), places_(image, symbols), process_(process) {
        for (const format::OpenSpanRecord& span : image.open_spans()) {
            names_.emplace(span.id, span.name);
            if (!process.entries.empty() && span.thread == process.entries.back().thread && span.task == 0) {
                open_span_ = span;
            }
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
                if (last_event_) {
                    facts_.erase(last_event_->span);
                }
                last_event_ = marker;
                break;
            case MarkerKind::kError: last_error_ = marker; break;
            case MarkerKind::kAttribute: take_fact(marker); break;
            case MarkerKind::kMetric: take_value(marker); break;
            default: break;
        }
    }

    // Only the newest event and error are put into words: places may have to be looked up in the program's files.
    void finish() {
        if (last_event_) {
            static_cast<Mark&>(process_.last_event) = mark(*last_event_, last_event_->name);
            process_.last_event.facts = facts_of(last_event_->span);
        }
        if (open_span_) {
            const std::string& place = places_.place(open_span_->site);
            process_.open_span.name = texts_.use(open_span_->name);
            process_.open_span.at_ns = clock_.realtime_ns(open_span_->begin_ticks);
            process_.open_span.place = place.empty() ? 0 : texts_.add(place);
            process_.open_span.facts = facts_of(open_span_->id);
        }
        if (last_error_) {
            static_cast<Mark&>(process_.last_error) = mark(*last_error_, span_of(*last_error_));
            process_.last_error.message = texts_.use(last_error_->text);
        }
    }

  private:
    // Adds an attribute to the open span, or to the event just read.
    void take_fact(const MarkerEntry& marker) {
        const bool is_of_event = last_event_ && marker.span == last_event_->span;
        if (marker.span == 0 || (!is_of_event && !(open_span_ && marker.span == open_span_->id))) {
            return;
        }
        auto& facts = facts_[marker.span];
        if (facts.size() < kMostFacts) {
            facts[text(marker.name)] = attribute_text(marker, text(marker.text));
        }
    }

    std::string text(uint32_t id) const { return printable(image_.text(id)); }

    // A text of "key=value" each; 0 without any.
    uint32_t facts_of(uint32_t id) {
        const auto known = facts_.find(id);
        const auto words_of = [](const auto& fact) { return fact.first + "=" + fact.second; };
        return known == facts_.end() ? 0 : texts_.add(listed(mapped(known->second, words_of)));
    }

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
        } else {
            if (metric.bad_ever++ == 0) {
                metric.first_bad_step = marker.step;
            }
            if (metric.bad_values++ == 0) {
                metric.bad_since = mark(marker, span_of(marker));
                metric.bad_from_start = metric.values == 0;
            }
        }
        ++metric.values;
        metric.last_value = value;
        metric.last_step = marker.step;
    }

    const format::RingImage& image_;
    const format::RingClock& clock_;
    TextTable& texts_;
    MarkerPlaces places_;
    Process& process_;
    std::optional<MarkerEntry> last_event_;
    std::optional<MarkerEntry> last_error_;
    std::optional<format::OpenSpanRecord> open_span_;
    std::unordered_map<uint32_t, std::map<std::string, std::string>> facts_;  // by id of a span or event
    std::unordered_map<uint32_t, size_t> rows_;                               // by id in the ring
    std::unordered_map<uint32_t, uint32_t> names_;                            // of spans and events, by id
    std::unordered_map<uint32_t, std::vector<uint32_t>> spans_{};             // open ones of each thread, without ids
};

}  // namespace

std::string attribute_text(const MarkerEntry& attribute, std::string text) {
    switch (static_cast<format::AttributeType>(attribute.detail)) {
        case format::AttributeType::kInteger: return std::to_string(static_cast<int64_t>(attribute.value));
        case format::AttributeType::kDouble: return fmt::format("{}", std::bit_cast<double>(attribute.value));
        default: return text;
    }
}

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
