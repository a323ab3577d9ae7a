// Digests: condensed processes as files, a few kB each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "host/result.h"
#include "load_options.h"
#include "run.h"

namespace titan::analyzer {

struct Digest {
    std::vector<Process> processes;
    std::unordered_map<uint64_t, std::vector<int32_t>> group_ranks;
    std::vector<std::string> problems;  // in this file, and those that were found when it was made
};
Result<Digest> read_digest_file(const std::string& path);
Result<Digest> read_digest_bytes(const Source& source, std::span<const std::byte> bytes);

// --- Packs and unpacks the sections of a digest other than its processes.

using DigestGroups = std::unordered_map<uint64_t, std::vector<int32_t>>;

// Packs the messages about files that could not be read; a bounded number.
std::vector<std::byte> pack_problems(std::vector<std::string> problems);

void unpack_problems(std::span<const std::byte> bytes, std::vector<std::string>& problems);

// Ranks of PyTorch's process groups, by id.
std::vector<std::byte> pack_groups(const DigestGroups& groups);

void unpack_groups(std::span<const std::byte> bytes, DigestGroups& groups);

// --- A condensed process as bytes, and back.

// digest_fields.h describes the fields of a process once, for both ways. The process need not be condensed: PyTorch's
// pairs whose beginning is lost are numbered by their full entries when all processes are there.
std::vector<std::byte> pack_process(const Process& process);

// Hostile bytes are an error. Texts are made safe to print.
Result<Process> unpack_process(std::span<const std::byte> bytes);

// --- Digests: condensed processes as files, a few kB each. The map step of a large analysis: each node digests what
// lies on it, one machine analyzes all digests and comes to the verdict that it would from the dumps.

struct DigestOptions {
    LoadOptions load;
    bool only_this_node = false;  // records and rings of this host
    std::string into;             // DIR/<run>/<attempt>/<host>-<boot>.digest
    std::string file;             // one file instead; empty: by host
};

struct DigestResult {
    std::vector<std::string> written;
    size_t processes = 0;
    size_t bytes = 0;
    std::vector<std::string> problems;  // problems of the input; they are in the digest, too
};

// Error: nothing usable in the paths, or a digest cannot be written. Nothing of this host is no error: `written` is
// empty.
Result<DigestResult> write_digests(const DigestOptions& options);

}  // namespace titan::analyzer
