// Exported symbols of a loaded ELF image, read from memory: no file is opened, because it may be gone or another by
// now.
//
// Thread-safety: any thread, async-signal-safe. Source: the ELF specification; DT_GNU_HASH as glibc and binutils use
// it.
#pragma once

#include "memory.h"

namespace titan::tracer::python {

struct Segment {
    uint64_t address = 0;
    uint64_t bytes = 0;
};

struct ElfImage {
    static constexpr size_t kSegments = 8;

    uint64_t bias = 0;
    uint64_t symbols = 0, strings = 0, strings_bytes = 0;
    uint64_t gnu_hash = 0, sysv_hash = 0;
    Segment read_only[kSegments];  // loaded and not writable: code and constants
    size_t read_only_count = 0;
};

// False: no 64-bit ELF image of this machine's byte order with a dynamic section and a hash table lies there.
bool open_image(const Memory& memory, uint64_t base, ElfImage& image);

// How many symbols the table has, as its hash table tells; 0 when that is damaged.
uint64_t symbol_count(const Memory& memory, const ElfImage& image);

// The address of a defined symbol, 0 when the image exports none of that name.
uint64_t find_symbol(const Memory& memory, const ElfImage& image, const char* name);

}  // namespace titan::tracer::python
