// The table of fields (records.def) as data: for who writes records elsewhere.
#pragma once

#include <span>

#include "host/json_value.h"
#include "named_stacks.h"
#include "records.h"

namespace titan::analyzer {

struct RecordTable {
    RecordKind kind;
    const char* name;    // calls, torch_calls, cuda_calls, ...: after the option of `show`
    const char* option;  // of `show`; empty: it lists these without one
    const char* meaning;
};

struct RecordField {
    RecordKind kind;
    const char* key;
    const char* type;  // as in records.def: "number or null"
    const char* unit;  // empty: none
    const char* meaning;
};

// In the order of records.def, which is that of RecordKind. Thread-safe.
std::span<const RecordTable> record_tables();
std::span<const RecordField> record_fields();

// --- Frames of stacks as JSON.

// The functions inlined at that address.
Json inlined_json(const StackSite& site);

}  // namespace titan::analyzer
