// Work that a tool can do for a traced process that is stopped, stuck or gone: write the dump of its ring, and read its
// threads' stacks from outside. Not part of the guest: a library of its own, for tools.
//
// Not thread-safe. No exceptions but std::bad_alloc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace titan::tracer {

struct OutsideDump {
    std::span<const char> image;   // ring image
    std::span<const char> stacks;  // formats/layout/stacks_layout.h, empty: none
    std::string detail;            // text for people
    uint64_t realtime_ns = 0;      // the moment
    uint64_t ticks = 0;            // the same on the ring's clock
    bool process_alive = false;
    std::string halt;                      // reason why it does not run (FORMAT.md), empty: none
    pid_t threads_of = 0;                  // process whose threads can still be asked about, 0 none
    std::vector<std::string> environment;  // its own, "NAME=VALUE"; empty: unknown

    // Name of the file. `run` is one path component.
    std::string run;
    int32_t attempt = 0;
    int32_t rank = -1;
    int32_t pid = 0;
    uint32_t keep = 3;
};

// Writes a file as the process itself would have: below `directory` (absolute; missing parts are created), under a
// temporary name first, 0600. Empty with errno on failure.
std::string write_outside_dump(const OutsideDump& dump, const std::string& directory);
// Writes to the fallback directory below TMPDIR or /tmp, for dumps that have no other place.
std::string write_outside_dump_to_fallback(const OutsideDump& dump);

// Threads of another process as /proc shows them and, if the system lets us read its memory, their Python frames.
// `note`: text about all of them. Never stops or touches that process: frames of a running one may be torn.
std::vector<char> collect_outside_stacks(pid_t pid, const std::string& note);

}  // namespace titan::tracer
