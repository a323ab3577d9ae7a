#include <bit>

#include "decode_device.h"
#include "host/mapped.h"
#include "host/words.h"
#include "phases.h"
#include "record_fields.h"
#include "records.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr const char* name_of(RecordKind kind) {
    switch (kind) {
        case RecordKind::kCollective: return "calls";
        case RecordKind::kTorchCall: return "torch_calls";
        case RecordKind::kCudaCall: return "cuda_calls";
        case RecordKind::kWork: return "work";
        case RecordKind::kChannel: return "channels";
        case RecordKind::kMarker: return "markers";
        case RecordKind::kLabel: return "labels";
        case RecordKind::kHealth: return "health";
        case RecordKind::kStep: return "step_sums";
        case RecordKind::kStepCalls: return "step_calls";
        case RecordKind::kExtremes: return "health_extremes";
    }
    return "";
}

constexpr RecordTable kTables[] = {
#define RECORD(kind, option, meaning) {RecordKind::kind, name_of(RecordKind::kind), option, meaning},
#define FIELD(kind, key, type, unit, meaning, value)
#include "records.def"
};

constexpr RecordField kFields[] = {
#define RECORD(kind, option, meaning)
#define FIELD(kind, key, type, unit, meaning, value) {RecordKind::kind, #key, type, unit, meaning},
#include "records.def"
};

}  // namespace

std::span<const RecordTable> record_tables() { return kTables; }

std::span<const RecordField> record_fields() { return kFields; }

Json inlined_json(const StackSite& site) {
    return mapped(site.inlined, [](const InlinedSite& inlined) -> Json {
        return {{"function", inlined.function}, {"file", inlined.file}, {"line", inlined.line}};
    });
}

// --- Records as JSON, by the table of their fields.

namespace {

using format::MarkerKind;

template <typename T>
std::optional<T> known_if(bool known, T value) {
    return known ? std::optional(value) : std::nullopt;
}
std::optional<uint64_t> number_or_null(uint64_t value) { return known_if(value != kNoSequence, value); }
std::optional<int64_t> known_or_null(int64_t value) { return known_if(value >= 0, value); }
std::optional<uint64_t> ticks_or_null(uint64_t ticks) { return known_if(ticks != 0, ticks); }

template <typename R>
std::optional<uint64_t> realtime_or_null(const R& r, uint64_t ticks) {
    return ticks_or_null(static_cast<uint64_t>(r.of.realtime_ns(ticks)));
}

template <typename R>
std::optional<int64_t> span_or_null(const R& r, uint64_t from_ticks, uint64_t to_ticks) {
    const bool known = from_ticks != 0 && from_ticks <= to_ticks;
    return known_if(known, known ? r.of.image().clock().span_ns(from_ticks, to_ticks) : 0);
}

// The best of all witnesses, where `state` is what the ring's entry says: after kill -9 the stream's own marks know
// more.
std::optional<std::string_view> device_or_null(const CollectiveRecord& r) {
    switch (device_state(r.raw, r.of.image())) {
        case DeviceState::kNotReached: return "not_reached";
        case DeviceState::kGraphStarted: return "graph_started";
        case DeviceState::kStarted: return "started";
        case DeviceState::kFinished: return "finished";
        case DeviceState::kUnknown: break;
    }
    return std::nullopt;
}

Json python_frames(const CallStack& stack) {
    return mapped(stack.python, [](const PythonSite& site) -> Json {
        return {{"file", site.file}, {"line", site.line}, {"function", site.function}};
    });
}

Json native_frames(const CallStack& stack) {
    return mapped(stack.native, [](const StackSite& site) -> Json {
        return {{"address", site.address},      {"module", site.module}, {"in_module", site.in_module},
                {"function", site.function},    {"file", site.file},     {"line", site.line},
                {"inlined", inlined_json(site)}};
    });
}

Json all_frames(const std::vector<CallFrame>& frames) {
    return mapped(frames, [](const CallFrame& frame) -> Json {
        return {{"function", frame.name}, {"file", frame.file}, {"line", frame.line}};
    });
}

// In PyTorch's words.
const char* progress_of(const Entry* entry) {
    if (entry == nullptr) {
        return "scheduled";
    }
    if (entry->state == CallState::kFinished || entry->device == DeviceState::kFinished) {
        return "completed";
    }
    return entry->state == CallState::kStarted || entry->device == DeviceState::kStarted ? "started" : "scheduled";
}

Json process_group(const TorchCallRecord& r) {
    return {printable(r.dump.text(r.raw.group)), printable(r.dump.text(r.raw.group_desc))};
}

Json splits(const TorchCallRecord& r, const format::fr::Range& range) {
    Json list = Json::array();
    for (uint32_t i = 0; i < range.count; ++i) {
        list.push_back(r.dump.splits[range.begin + i]);
    }
    return list;
}

Json number_of(uint64_t bits) { return number_or_word(std::bit_cast<double>(bits)); }

Json marker_value(const MarkerRecord& r) {
    switch (r.raw.kind) {
        case MarkerKind::kMetric: return number_of(r.raw.value);
        case MarkerKind::kStep: return r.raw.value;
        case MarkerKind::kAttribute:
            switch (static_cast<format::AttributeType>(r.raw.detail)) {
                case format::AttributeType::kInteger: return static_cast<int64_t>(r.raw.value);
                case format::AttributeType::kDouble: return number_of(r.raw.value);
                default: return nullptr;
            }
        default: return nullptr;
    }
}

std::string reduction_of_metric(const MarkerRecord& r) {
    return std::string(format::name_of(static_cast<format::MetricReduction>(r.raw.detail)));
}

Json extreme_or_null(const ExtremesRecord& r, double value) {
    return r.name.empty() ? Json(nullptr) : number_or_word(value);
}

template <typename T>
Json as_json(const T& value) {
    return value;
}
template <typename T>
Json as_json(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
}

bool has_relative_step(const MarkerRecord& r) { return r.raw.kind == MarkerKind::kStep && r.raw.detail != 0; }

}  // namespace

template <typename R>
Json json_of(const R& r) {
    Json json;
#define RECORD(kind, option, meaning)
#define FIELD(kind, key, type, unit, meaning, value) \
    if constexpr (R::kKind == RecordKind::kind) {    \
        json[#key] = as_json(value);                 \
    }
#define FIELD_WHERE(kind, key, type, unit, meaning, condition, value) \
    if constexpr (R::kKind == RecordKind::kind) {                     \
        if (condition) {                                              \
            json[#key] = as_json(value);                              \
        }                                                             \
    }
#include "records.def"
    return json;
}

template <typename R>
SqlValue field_of(const R& r, size_t n) {
    size_t place = 0;
#define RECORD(kind, option, meaning)
#define FIELD(kind, key, type, unit, meaning, value) FIELD_WHERE(kind, key, type, unit, meaning, true, value)
#define FIELD_WHERE(kind, key, type, unit, meaning, condition, value) \
    if constexpr (R::kKind == RecordKind::kind) {                     \
        if (place++ == n) {                                           \
            return (condition) ? SqlValue(value) : SqlValue();        \
        }                                                             \
    }
#include "records.def"
    return nullptr;
}

#define RECORD_JSON(Record)               \
    template Json json_of(const Record&); \
    template SqlValue field_of(const Record&, size_t);
RECORD_JSON(CollectiveRecord)
RECORD_JSON(TorchCallRecord)
RECORD_JSON(CudaCallRecord)
RECORD_JSON(WorkRecord)
RECORD_JSON(ChannelRecord)
RECORD_JSON(MarkerRecord)
RECORD_JSON(HealthRecord)
RECORD_JSON(LabelRecord)
RECORD_JSON(StepRecord)
RECORD_JSON(StepCallsRecord)
RECORD_JSON(ExtremesRecord)
#undef RECORD_JSON

}  // namespace titan::analyzer
