// The files whose code this process has loaded, from /proc/self/maps and their headers in memory: the dynamic linker's own
// list is behind a lock that a thread in dlopen may hold for ever. No allocation. For the watch thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/stacks_layout.h"

namespace titan::tracer {

struct Module {
    uint64_t begin;
    uint64_t end;
    uint64_t bias;
    uint64_t eh_frame_hdr;  // address, 0 none
    uint64_t eh_frame_hdr_bytes;
    uint32_t build_id_bytes;
    unsigned char build_id[format::kMaxBuildIdBytes];
    char path[208];  // its end, where it is longer
};

struct ModuleList {
    Module* modules;
    size_t capacity;
    size_t count;

    const Module* find(uint64_t address) const;
};

// Fills the list anew, sorted by address. `scratch` is for a piece of /proc/self/maps.
void list_modules(ModuleList& list, char* scratch, size_t scratch_bytes);

}  // namespace titan::tracer
