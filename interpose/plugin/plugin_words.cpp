#include "plugin_words.h"

#include <string.h>
#include <strings.h>

namespace titan::interpose {

namespace {

using format::OpKind;

// ncclFuncToString() and ncclFunc_t, NCCL 2.23 to 2.30: numbers have only been appended.
constexpr PluginFunction kFunctions[] = {
    {0, "Broadcast", OpKind::kBroadcast, Api::ncclBroadcast},
    {1, "Reduce", OpKind::kReduce, Api::ncclReduce},
    {2, "AllGather", OpKind::kAllGather, Api::ncclAllGather},
    {3, "ReduceScatter", OpKind::kReduceScatter, Api::ncclReduceScatter},
    {4, "AllReduce", OpKind::kAllReduce, Api::ncclAllReduce},
    {6, "Send", OpKind::kSend, Api::ncclSend},
    {7, "Recv", OpKind::kRecv, Api::ncclRecv},
    {8, "AlltoAll", OpKind::kAllToAll, Api::ncclAlltoAll},
    {9, "Scatter", OpKind::kScatter, Api::ncclScatter},
    {10, "Gather", OpKind::kGather, Api::ncclGather},
};

struct DatatypeName {
    const char* name;
    int number;
};
// ncclDatatypeToString(): it has no word for ncclUint8, which it calls "Unknown".
constexpr DatatypeName kDatatypes[] = {
    {"ncclInt8", 0},     {"ncclInt32", 2},       {"ncclUint32", 3},      {"ncclInt64", 4},
    {"ncclUint64", 5},   {"ncclFloat16", 6},     {"ncclFloat32", 7},     {"ncclFloat64", 8},
    {"ncclBfloat16", 9}, {"ncclFloat8e4m3", 10}, {"ncclFloat8e5m2", 11},
};

// The tables have NCCL's names in small letters, and its numbers + 1.
template <typename Word>
Word by_name(const char* name) {
    for (const auto& row : format::rows_of(Word{})) {
        if (name != nullptr && strcasecmp(row.name.data(), name) == 0) {
            return row.value;
        }
    }
    return Word{};
}

template <typename Word>
Word by_number(uint8_t number) {
    for (const auto& row : format::rows_of(Word{})) {
        if (static_cast<int>(row.value) == number + 1) {
            return row.value;
        }
    }
    return Word{};
}

}  // namespace

const PluginFunction* plugin_function(const char* name) {
    for (const PluginFunction& function : kFunctions) {
        if (name != nullptr && strcmp(function.name, name) == 0) {
            return &function;
        }
    }
    return nullptr;
}

const PluginFunction* plugin_function(uint8_t number) {
    for (const PluginFunction& function : kFunctions) {
        if (function.number == number) {
            return &function;
        }
    }
    return nullptr;
}

int plugin_datatype(const char* name) {
    for (const DatatypeName& datatype : kDatatypes) {
        if (name != nullptr && strcmp(datatype.name, name) == 0) {
            return datatype.number;
        }
    }
    return 255;
}

format::Algorithm plugin_algorithm(const char* name) { return by_name<format::Algorithm>(name); }
format::Algorithm plugin_algorithm(uint8_t number) { return by_number<format::Algorithm>(number); }
format::Protocol plugin_protocol(const char* name) { return by_name<format::Protocol>(name); }
format::Protocol plugin_protocol(uint8_t number) { return by_number<format::Protocol>(number); }

}  // namespace titan::interpose
