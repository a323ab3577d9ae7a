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

}  // namespace titan::interpose
