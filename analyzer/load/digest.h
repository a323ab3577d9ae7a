// Digests: condensed processes as files, a few kB each. The map step of a large analysis: each node digests what lies
// on it, one machine analyzes all digests and comes to the verdict that it would from the dumps.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "formats/result.h"
#include "load.h"
#include "run.h"

namespace titan::analyzer {

// What a process is made of has one description (digest_fields.h) for both ways. It need not be condensed: PyTorch's
// pairs whose beginning is lost are numbered by their full entries when all processes are there.
std::vector<std::byte> pack_process(const Process& process);
// Hostile bytes are an error. Texts are made safe to print.
format::Result<Process> unpack_process(std::span<const std::byte> bytes);

struct Digest {
    std::vector<Process> processes;
    std::unordered_map<uint64_t, std::vector<int32_t>> group_ranks;
    std::vector<std::string> problems;  // of this file, and those that were found when it was made
};
format::Result<Digest> read_digest_file(const std::string& path);
format::Result<Digest> read_digest_bytes(const Source& source, std::span<const std::byte> bytes);

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
    std::vector<std::string> problems;  // of the input; they are in the digest, too
};
// Error: nothing usable in the paths, or a digest cannot be written. Nothing of this host is no error: `written` is
// empty.
format::Result<DigestResult> write_digests(const DigestOptions& options);

}  // namespace titan::analyzer
