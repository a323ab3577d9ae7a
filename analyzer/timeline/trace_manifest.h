// Traces of PyTorch's profiler (Kineto) beside a timeline of ours: a manifest that tells Perfetto (v58 and later) how
// their clocks relate to the one that all hosts are aligned to. Format:
// https://perfetto.dev/docs/reference/perfetto-manifest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clocks.h"
#include "host/json_value.h"
#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

struct KinetoTrace {
    std::string path;
    int64_t base_ns = 0;   // CLOCK_REALTIME of its host where its times are 0
    uint32_t process = 0;  // of the run, on the same host
};

// Reads the beginning of the file. Error: it is no such trace, or of no host of the run.
Result<KinetoTrace> read_kineto(const Run& run, const std::string& path);

// `timeline`: path of ours. Files are named as they are in the archive with all of them: without directories.
Json manifest_of(const Run& run, const Clocks& clocks, const std::string& timeline,
                 const std::vector<KinetoTrace>& traces);

}  // namespace titan::analyzer
