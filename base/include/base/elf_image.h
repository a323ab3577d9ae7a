// A loaded ELF image in memory that may not be there: another process's, or our own while other threads change it.
//
// Thread-safety: any thread, async-signal-safe.
#pragma once

#include "base/elf_tables.h"
#include "base/memory.h"

namespace titan {

struct Segment {
    uint64_t address = 0;
    uint64_t bytes = 0;
};

// Facts from the program headers.
struct ElfHeaders {
    static constexpr size_t kReadOnly = 8, kNotes = 8;

    uint64_t bias = 0;
    uint64_t end = 0;      // first address after the last loaded segment
    uint64_t dynamic = 0;  // address, 0 none
    Segment eh_frame_hdr;
    Segment read_only[kReadOnly];  // loaded and not writable: code and constants
    size_t read_only_count = 0;
    Segment notes[kNotes];
    size_t note_count = 0;
};

// False: no loaded 64-bit ELF image of this machine's byte order begins there.
bool read_elf_headers(const Memory& memory, uint64_t base, ElfHeaders& headers);

struct ElfImage {
    ElfHeaders headers;
    ElfTables tables;
};

// False: none lies there, or it has no dynamic section with a hash table.
bool open_image(const Memory& memory, uint64_t base, ElfImage& image);

// The number of symbols, as the hash table gives it; 0 if that is damaged.
uint64_t symbol_count(const Memory& memory, const ElfImage& image);

// The address of a defined symbol, 0 when the image exports none of that name.
uint64_t find_symbol(const Memory& memory, const ElfImage& image, const char* name);

}  // namespace titan
