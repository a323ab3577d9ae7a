// The meta section of a dump: its time, its reason, and its process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dumped_child.h"
#include "run.h"

namespace titan::analyzer {

struct DumpMeta {
    uint64_t dump_number = 0;
    format::DumpReason reason{};
    std::string detail;
    uint64_t realtime_ns = 0;  // when it was made, 0 unknown
    uint64_t ticks = 0;        // then, of the process' own clock, which nobody sets; 0 unknown
    bool process_alive = true;
    Halt halt = Halt::kNone;
    bool partial_recording = false;
    uint64_t launch_sample = 1;
    Processors processors;
    std::vector<DumpedChild> children;
    uint64_t out_of_memory_kills = 0;
    // In the order of the file; texts are printable.
    std::vector<std::pair<std::string, std::string>> environment;
    std::vector<std::pair<std::string, std::string>> machine;  // keys of FORMAT.md, section 5
};

// Empty where it is damaged.
std::optional<DumpMeta> parse_dump_meta(const std::string& text);

}  // namespace titan::analyzer
