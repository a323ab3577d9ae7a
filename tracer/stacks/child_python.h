// Where the main thread of another process is in its Python program, read from outside: a child of ours, which the
// system lets us read. For the watch thread; no allocation, bounded.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace titan::tracer {

struct ChildFrame {
    char file[256];      // cut at its end
    char function[128];  // qualified where Python knows that
    int32_t line;        // 0 unknown
};

// How many were read, innermost first; 0 where it runs no Python or cannot be read.
size_t read_child_python(pid_t pid, std::span<ChildFrame> frames);

}  // namespace titan::tracer
