// The only voice of the tracer inside the job: whole lines on stderr, "titantrace: rank 3: ...", one write each.
//
// Messages go to descriptor 2 only if it is still the same file as when we were loaded; another file may be the
// program's data, unless it is written by appending, or is the same as descriptor 1.
//
// Async-signal-safe. A line that would block (stderr is a full pipe) or fail is dropped: a hang of the log reader
// must not become a hang of the dump. At most kLogBurst lines come out per kLogWindowNs.
#pragma once

#include <cstdint>

namespace titan::tracer {

inline constexpr uint32_t kLogBurst = 20;
inline constexpr uint64_t kLogWindowNs = 10'000'000'000;

void set_log_rank(int32_t rank);  // names the speaker from now on; -1 unknown

__attribute__((format(printf, 1, 2))) void log_line(const char* pattern, ...);

// As log_line, but prints the same text only once per process.
__attribute__((format(printf, 1, 2))) void warn_once(const char* pattern, ...);

// Forgets which warnings were printed: a forked child prints its own.
void forget_logged();

}  // namespace titan::tracer
