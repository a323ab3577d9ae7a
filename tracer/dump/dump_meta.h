// The JSON that a dump carries about itself. signal-safe, bounded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/text.h"
#include "formats/layout/enums.h"
#include "machine.h"
#include "processors.h"

namespace titan::tracer {

inline constexpr size_t kMetaBytes = 160 << 10;
inline constexpr size_t kEnvironmentBytes = 64 << 10;

inline constexpr size_t kMaxJsonValueBytes = 512;

struct DumpMeta {
    uint64_t number;
    format::DumpReason reason;
    const char* detail;
    int32_t requested_by_rank;
    uint64_t realtime_ns;
    uint64_t ticks;
    int32_t saved_by_rank;  // rank that dumped for a process that is gone; -1 the process itself
    bool process_alive;
    const char* environment;  // JSON object, "{}" where it is not known
    ProcessorUse processors{};
    Machine machine{};
    const char* halt = "";      // reason why the process does not run, "" none
    const char* children = "";  // keys that write_children wrote
};

// Bytes of JSON written to `out`.
size_t write_meta(char* out, size_t capacity_bytes, const DumpMeta& meta);

// The variables that decide how NCCL, CUDA and the tracer behave, as a JSON object. Values are cut, never left open.
size_t write_environment(char* out, size_t capacity_bytes, const char* const* variables);

// Writes text as a JSON string: at most kMaxJsonValueBytes of it, each of which takes six at most. Bytes above ASCII
// pass only as whole UTF-8 sequences.
void json_string(TextWriter& json, const char* text, size_t size_bytes);

}  // namespace titan::tracer
