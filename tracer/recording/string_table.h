// Interning of names into the ring's string table. hot: lock-free, also when a name is new. any-thread, signal-safe.
//
// Names that a program makes up as it goes (ranges, spans, metrics) come by the million in a job of days; nearly all of
// them are soon in no record any more. They are interned for now: they may take a part of the table only, and a sweep
// (tick_work.cpp) frees those that nothing refers to. Names that the tracer keeps elsewhere are interned for good.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/layout/ring_layout.h"

namespace titan::tracer {

inline constexpr size_t kMaxStringBytes = 240;

// The tracer's private half of a row.
struct StringState {
    uint8_t for_good;
    uint8_t used;         // since the sweep last looked
    uint16_t room_bytes;  // size of the row's place in the heap, which the row keeps when it is freed
};

class StringTable {
  public:
    constexpr StringTable() = default;
    // `rows` is a power of two. Without `states` every name stays for good.
    StringTable(format::StringRecord* records, uint64_t rows, char* heap, uint64_t heap_bytes,
                format::RegionCursor& heap_cursor, uint64_t& dropped, StringState* states = nullptr)
        : records_(records),
          states_(states),
          mask_(rows - 1),
          heap_(heap),
          heap_bytes_(heap_bytes),
          heap_cursor_(&heap_cursor),
          dropped_(&dropped) {}

    // The id of `text`, cut at kMaxStringBytes; 0 for the empty string, null, and when the table is full (counted).
    uint32_t intern(const char* text);
    uint32_t intern_for_now(const char* text);

    // The bytes of a name that `length` tells, without an end; null where the id has none.
    const char* text_of(uint32_t id, size_t& length) const;

    // For the sweep, which runs in one thread.
    uint64_t rows() const { return mask_ + 1; }
    uint64_t names_for_now() const;
    uint64_t limit_for_now() const { return rows() / 4 * 3; }
    bool is_for_now(uint64_t row) const;
    bool take_used(uint64_t row);
    void free_row(uint64_t row);

  private:
    struct Text {
        uint64_t hash;
        const char* bytes;
        size_t length;
    };
    uint32_t intern_as(const char* text, bool for_good);
    uint32_t intern_slow(uint64_t hash, const char* text, size_t length, bool for_good);
    uint32_t insert(uint64_t row, const Text& text, bool for_good);
    bool take_place(uint64_t row, size_t length, bool for_good);
    void note_use(uint64_t row, bool for_good);
    uint64_t hash_at(uint64_t row) const;

    format::StringRecord* records_ = nullptr;
    StringState* states_ = nullptr;
    uint64_t mask_ = 0;
    char* heap_ = nullptr;
    uint64_t heap_bytes_ = 0;
    format::RegionCursor* heap_cursor_ = nullptr;
    uint64_t* dropped_ = nullptr;
    uint64_t for_now_ = 0;  // rows that names for now have
};

}  // namespace titan::tracer
