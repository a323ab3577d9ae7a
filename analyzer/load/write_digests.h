// Digests: condensed processes as files, a few kB each. The map step of a large analysis: each node digests what lies
// on it, one machine analyzes all digests and comes to the verdict that it would from the dumps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "host/result.h"
#include "load_options.h"

namespace titan::analyzer {

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
