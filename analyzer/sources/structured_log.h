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
#include <optional>
#include <string>
#include <string_view>
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

// --- One line of torchtitan's structured logger (0.3.0): a JSON object that says one thing of one process.

enum class LogKind : uint8_t { kSpanBegin, kSpanEnd, kError, kEvent, kMetric };

struct LogLine {
    LogKind kind{};
    std::string name;     // of the span, event or metric
    std::string task;     // asyncio's name of it; empty: none
    std::string message;  // error
    std::string place;    // "trainer.py:40 train"; empty: not told
    int64_t at_ns = 0;    // CLOCK_REALTIME
    uint32_t thread = 0;
    std::optional<int64_t> step, relative_step;
    std::optional<double> value;  // metric: may be NaN; span_end: nanoseconds that it took
    std::vector<std::string> tags;
    // Facts about its process.
    std::string source;
    std::string host;
    int32_t rank = -1;
    int32_t local_rank = -1;
    int32_t pid = 0;
};

// Nothing where it is no such line: other text, or JSON of something else. NaN and infinities, which Python writes and
// JSON does not have, are taken.
std::optional<LogLine> parse_log_line(std::string_view line);

// By its first bytes: its first whole line is one.
bool looks_like_structured_log(std::string_view first_bytes);

}  // namespace titan::analyzer
