// Packs and unpacks the sections of a digest other than its processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace titan::analyzer {

using DigestGroups = std::unordered_map<uint64_t, std::vector<int32_t>>;

// Packs the messages about files that could not be read; a bounded number.
std::vector<std::byte> pack_problems(std::vector<std::string> problems);
void unpack_problems(std::span<const std::byte> bytes, std::vector<std::string>& problems);

// Ranks of PyTorch's process groups, by id.
std::vector<std::byte> pack_groups(const DigestGroups& groups);
void unpack_groups(std::span<const std::byte> bytes, DigestGroups& groups);

}  // namespace titan::analyzer
