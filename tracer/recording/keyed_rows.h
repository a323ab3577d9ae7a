// Rows that are found by a 64-bit key, never zero, and that stay: open addressing in zeroed memory. hot, any-thread:
// loads and, for a new key, one compare-and-exchange and one add.
#pragma once

#include <atomic>
#include <cstdint>

namespace titan::tracer {

template <typename Row, uint64_t Row::*Key>
class KeyedRows {
  public:
    // `rows` is a power of two; `used` counts those that have a key. Three quarters are given away at most: fuller
    // tables make long searches.
    constexpr KeyedRows() = default;
    KeyedRows(Row* rows, uint64_t count, uint64_t& used) : rows_(rows), mask_(count - 1), used_(&used) {}

    Row& operator[](uint64_t row) const { return rows_[row]; }

    // The row of a key that begins to look at `first`; kNone when it has none.
    uint64_t find(uint64_t key, uint64_t first) const {
        for (uint64_t probe = 0; probe < kMaxProbes; ++probe) {
            const uint64_t row = (first + probe) & mask_;
            const uint64_t found = key_of(row).load(std::memory_order_acquire);
            if (found == key) [[likely]] {
                return row;
            }
            if (found == 0) {
                break;
            }
        }
        return kNone;
    }

    // As find, but a new key gets a row; kNone without room. `is_new`: the caller fills the row in, and readers may
    // already see its key.
    uint64_t claim(uint64_t key, uint64_t first, bool& is_new) {
        is_new = false;
        const std::atomic_ref<uint64_t> used(*used_);
        for (uint64_t probe = 0; probe < kMaxProbes; ++probe) {
            const uint64_t row = (first + probe) & mask_;
            uint64_t found = key_of(row).load(std::memory_order_acquire);
            if (found == 0) {
                if (used.load(std::memory_order_relaxed) >= (mask_ + 1) / 4 * 3) {
                    return kNone;
                }
                if (key_of(row).compare_exchange_strong(found, key, std::memory_order_acq_rel)) {
                    used.fetch_add(1, std::memory_order_relaxed);
                    is_new = true;
                    return row;
                }
            }
            if (found == key) {
                return row;
            }
        }
        return kNone;
    }

    static constexpr uint64_t kNone = ~uint64_t{0};

  private:
    static constexpr uint64_t kMaxProbes = 32;

    std::atomic_ref<uint64_t> key_of(uint64_t row) const { return std::atomic_ref(rows_[row].*Key); }

    Row* rows_ = nullptr;
    uint64_t mask_ = 0;
    uint64_t* used_ = nullptr;
};

}  // namespace titan::tracer
