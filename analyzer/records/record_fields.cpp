#include "record_fields.h"

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

}  // namespace titan::analyzer
