// Names of exported functions for the frames of an image: all that is left of a name where the file that ran is not at
// hand later. Read from the modules' own tables in memory. No allocation; for the watch thread, after all threads have
// answered.
#pragma once

#include <cstddef>
#include <cstdint>

#include "modules.h"
#include "stack_image.h"

namespace titan::tracer {

// An address, and the exported function that was found for it.
struct NamedAddress {
    uint64_t address;
    uint64_t function;  // its start, 0 none
    uint64_t name;      // address of its text
};

struct NamingRoom {
    NamedAddress* addresses;  // StackImage::kMaxFrames of them
    char* symbols;
    size_t symbols_bytes;
};

// Stops at that moment (CLOCK_MONOTONIC): names are not worth a long dump.
void add_exported_names(StackImage& image, const ModuleList& modules, const NamingRoom& room, uint64_t deadline_ns);

}  // namespace titan::tracer
