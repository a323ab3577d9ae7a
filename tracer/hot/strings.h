// Interning of names into the ring's string table. hot: lock-free, also when a name is new. any-thread, signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/ring_layout.h"

namespace titan::tracer {

inline constexpr size_t kMaxStringBytes = 240;

class StringTable {
  public:
    constexpr StringTable() = default;
    // `rows` is a power of two.
    StringTable(format::StringRecord* records, uint64_t rows, char* heap, uint64_t heap_bytes,
                format::RegionCursor& heap_cursor, uint64_t& dropped)
        : records_(records),
          mask_(rows - 1),
          heap_(heap),
          heap_bytes_(heap_bytes),
          heap_cursor_(&heap_cursor),
          dropped_(&dropped) {}

    // The id of `text`, cut at kMaxStringBytes; 0 for the empty string, null, and when the table is full (counted).
    uint32_t intern(const char* text);

  private:
    uint32_t intern_slow(uint64_t hash, const char* text, size_t length);
    uint32_t insert(uint64_t row, uint64_t hash, const char* text, size_t length);

    format::StringRecord* records_ = nullptr;
    uint64_t mask_ = 0;
    char* heap_ = nullptr;
    uint64_t heap_bytes_ = 0;
    format::RegionCursor* heap_cursor_ = nullptr;
    uint64_t* dropped_ = nullptr;
};

}  // namespace titan::tracer
