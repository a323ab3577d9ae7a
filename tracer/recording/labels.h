// The newest value of each label: markers are overwritten, and what a run is must outlive them. hot, any-thread.
#pragma once

#include <cstdint>

#include "base/atomic_field.h"
#include "base/hash.h"
#include "formats/layout/ring_layout.h"
#include "keyed_rows.h"
#include "ring_file.h"

namespace titan::tracer {

class Labels {
  public:
    constexpr Labels() = default;
    // kLabelRows rows.
    Labels(format::LabelRecord* rows, uint64_t& used, uint64_t& dropped)
        : rows_(rows, kLabelRows, used), dropped_(&dropped) {}

    // Text ids of a key and its value. Without room: counted.
    void set(uint32_t key, uint32_t text, uint64_t ticks, uint32_t site) {
        bool is_new = false;
        const uint64_t row = claim(key, is_new);
        if (row == Rows::kNone) {
            return;
        }
        store_field(rows_[row].ticks, ticks);
        store_field(rows_[row].site, site);
        store_field(rows_[row].text, text);
    }

    // For a key without a value; a concurrent set() wins. False: the key has a value.
    bool set_absent(uint32_t key, uint32_t text, uint64_t ticks) {
        bool is_new = false;
        const uint64_t row = claim(key, is_new);
        if (uint32_t none = 0;
            is_new && std::atomic_ref(rows_[row].text).compare_exchange_strong(none, text, std::memory_order_relaxed)) {
            store_field(rows_[row].ticks, ticks);
            return true;
        }
        return false;
    }

    // For the sweep of names.
    template <typename Visit>
    void each_name(Visit&& visit) const {
        for (uint64_t row = 0; row < kLabelRows; ++row) {
            visit(static_cast<uint32_t>(load_field(rows_[row].key)));
            visit(load_field(rows_[row].text));
        }
    }

  private:
    using Rows = KeyedRows<format::LabelRecord, &format::LabelRecord::key>;

    uint64_t claim(uint32_t key, bool& is_new) {
        const uint64_t row = key == 0 ? Rows::kNone : rows_.claim(key, (key * kHashMultiplier) >> 32, is_new);
        if (row == Rows::kNone) {
            std::atomic_ref(*dropped_).fetch_add(1, std::memory_order_relaxed);
        }
        return row;
    }

    Rows rows_;
    uint64_t* dropped_ = nullptr;
};

}  // namespace titan::tracer
