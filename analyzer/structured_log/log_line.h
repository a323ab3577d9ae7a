// One line of torchtitan's structured logger (0.3.0): a JSON object that says one thing of one process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan::analyzer {

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
