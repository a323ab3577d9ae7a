// Digests: condensed processes as files, a few kB each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

struct Digest {
    std::vector<Process> processes;
    std::unordered_map<uint64_t, std::vector<int32_t>> group_ranks;
    std::vector<std::string> problems;  // in this file, and those that were found when it was made
};
Result<Digest> read_digest_file(const std::string& path);
Result<Digest> read_digest_bytes(const Source& source, std::span<const std::byte> bytes);

}  // namespace titan::analyzer
