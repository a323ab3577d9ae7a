// The places in the program that call markers, each once. hot, any-thread. Native places are known by their address
// alone until the watch thread has put them into words.
#pragma once

#include <cstdint>

#include "base/atomic_field.h"
#include "base/hash.h"
#include "formats/layout/ring_layout.h"
#include "keyed_rows.h"
#include "ring_file.h"
#include "string_table.h"

namespace titan::tracer {

class MarkerSites {
  public:
    constexpr MarkerSites() = default;
    // 2^kMarkerSiteRowsLog2 rows.
    MarkerSites(format::MarkerSiteRecord* rows, uint64_t& used, uint64_t& dropped)
        : rows_(rows, kRows, used), dropped_(&dropped) {}

    // The number for MarkerEntry::site; 0 without room (counted). `address`: behind the call.
    [[gnu::always_inline]] inline uint32_t native(const void* address) {
        const auto key = reinterpret_cast<uint64_t>(address);
        const uint64_t first = first_row(key);
        return load_field(rows_[first].key) == key ? static_cast<uint32_t>(first + 1) : search(key).number;
    }

    uint32_t told(const char* place, size_t length, StringTable& strings) {
        const Found found = search(format::kToldSite | fnv1a64(place, length));
        if (found.is_new) {
            store_field(rows_[found.number - 1].place, strings.intern(place));
        }
        return found.number;
    }

    // Calls visit(address, record) for every native place that has no words yet. The watch thread's.
    template <typename Visit>
    void each_unnamed(Visit&& visit) const {
        for (uint64_t row = 0; row < kRows; ++row) {
            format::MarkerSiteRecord& record = rows_[row];
            const uint64_t key = load_field(record.key);
            if (key != 0 && (key & format::kToldSite) == 0 && load_field(record.place) == 0) {
                visit(key, record);
            }
        }
    }

  private:
    struct Found {
        uint32_t number;
        bool is_new;
    };
    static uint64_t first_row(uint64_t key) { return (key * kHashMultiplier) >> (64 - kMarkerSiteRowsLog2); }
    [[gnu::noinline]] Found search(uint64_t key) {
        bool is_new = false;
        const uint64_t row = key == 0 ? Rows::kNone : rows_.claim(key, first_row(key), is_new);
        if (row == Rows::kNone) {
            std::atomic_ref(*dropped_).fetch_add(1, std::memory_order_relaxed);
            return {0, false};
        }
        return {static_cast<uint32_t>(row + 1), is_new};
    }

    using Rows = KeyedRows<format::MarkerSiteRecord, &format::MarkerSiteRecord::key>;
    static constexpr uint64_t kRows = uint64_t{1} << kMarkerSiteRowsLog2;
    Rows rows_;
    uint64_t* dropped_ = nullptr;
};

}  // namespace titan::tracer
