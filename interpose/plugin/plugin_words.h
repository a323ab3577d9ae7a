// NCCL's words for functions and data types, as its profiler plugin interface uses them.
#pragma once

#include <cstdint>

#include "api.h"
#include "formats/layout/enums.h"

namespace titan::interpose {

struct PluginFunction {
    int number;  // ncclFunc_t: v1 tells numbers
    const char* name;
    format::OpKind kind;
    Api api;
};

// Null for what this build does not know, which is then not recorded.
const PluginFunction* plugin_function(const char* name);
const PluginFunction* plugin_function(uint8_t number);

// ncclDataType_t; 255 for what is not known.
int plugin_datatype(const char* name);
inline int plugin_datatype(uint8_t number) { return number; }

// NCCL_ALGO_* and NCCL_PROTO_*; kUnknown for what is not known.
format::Algorithm plugin_algorithm(const char* name);
format::Algorithm plugin_algorithm(uint8_t number);
format::Protocol plugin_protocol(const char* name);
format::Protocol plugin_protocol(uint8_t number);

}  // namespace titan::interpose
