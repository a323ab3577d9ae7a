// The files whose code this process has loaded, from /proc/self/maps and their headers in memory: the dynamic linker's
// own list is behind a lock that a thread in dlopen may hold for ever. No allocation. For the watch thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/layout/stacks_layout.h"

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

// The row that readers get, without its path.
format::StackModule row_of(const Module& module);

struct ModuleList {
    Module* modules;
    size_t capacity;
    size_t count;

    const Module* find(uint64_t address) const;
};

// The sorted index of a module's unwind table. Its numbers count from `base`.
struct UnwindRow {
    int32_t begin;  // start of the code
    int32_t entry;  // its frame description
};
struct UnwindIndex {
    uint64_t base = 0;  // .eh_frame_hdr
    uint64_t rows = 0;  // address of the first
    uint32_t count = 0;
};
// False where the module has none, or one of another form than all linkers write.
bool open_unwind_index(const Module& module, UnwindIndex& index);

// Fills the list anew, sorted by address. `scratch` is for a piece of /proc/self/maps; kMapsBytes are enough.
constexpr size_t kMapsBytes = 64 << 10;
void list_modules(ModuleList& list, char* scratch, size_t scratch_bytes);

}  // namespace titan::tracer
