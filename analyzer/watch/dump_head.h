// What a dump says of itself and its job, without being unpacked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace titan::analyzer {

struct DumpHead {
    int32_t world_size = -1;
    int32_t attempt = 0;
    int64_t written_ns = 0;  // the file's own time
    int64_t age_ns = 0;      // of its process when it was made
    std::string started_by;  // the titan-run around the process (format::kStartedByVariable); empty: none
};

// Nothing where the file cannot be read, or is no dump.
std::optional<DumpHead> read_dump_head(const std::string& path);

}  // namespace titan::analyzer
