// A file of torchtitan's structured logger as the markers of a process: what reads journals reads these. Streamed; in
// memory are some thousand lines, and what is open.
//
// Begins and ends of spans are paired by thread and task, so a checkpoint in a thread of its own and the step that runs
// meanwhile keep their own durations. A span that never ends stays open. A step begins with the first line that has its
// number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/ring/ring_image.h"
#include "host/result.h"

namespace titan::analyzer {

// What its first lines tell, and its last.
struct StructuredLog {
    std::string path;
    std::string source;  // role of the process: "trainer"
    std::string host;
    int32_t rank = -1;
    int32_t local_rank = -1;
    int32_t pid = 0;
    int64_t first_ns = 0;  // CLOCK_REALTIME
    int64_t last_ns = 0;
};

// The bytes of a file, wherever they are.
struct LogBytes {
    // Reads up to `size_bytes`; returns how many bytes there were.
    std::function<size_t(uint64_t offset_bytes, void* into, size_t size_bytes)> read_at;
    uint64_t size_bytes = 0;
};

// Error: it has no line of the structured logger.
Result<StructuredLog> open_structured_log(const std::string& path);
Result<StructuredLog> open_structured_log(const LogBytes& bytes);

// An image without markers, for its header: the process at the end of its log. It lives in `memory`.
Result<format::RingImage> header_image(const StructuredLog& log, std::vector<std::byte>& memory);

// Calls visit(image) for one part of the file after another. Answers what of it was lost, in words; empty: nothing.
using VisitLog = std::function<void(const format::RingImage& image)>;
Result<std::string> visit_structured_log(const StructuredLog& log, const VisitLog& visit);
std::string visit_structured_log(const StructuredLog& log, const LogBytes& bytes, const VisitLog& visit);

}  // namespace titan::analyzer
