// A bounded queue for many producers and many consumers, after D. Vyukov: a slot's sequence says whose turn it is. hot:
// neither side waits. Trivially constructible over zeroed memory, then start().
#pragma once

#include <atomic>
#include <cstdint>

namespace titan::tracer {

template <typename T, uint32_t kSlots>
class BoundedQueue {
  public:
    void start() {
        for (uint64_t i = 0; i < kSlots; ++i) {
            slots_[i].sequence.store(i, std::memory_order_relaxed);
        }
    }

    // False when full.
    bool push(const T& value) {
        return push_filled([&](T& slot) { slot = value; });
    }

    // The same, of a value that `fill` writes in place.
    template <typename Fill>
    bool push_filled(Fill fill) {
        for (uint64_t position = head_.load(std::memory_order_relaxed);;) {
            Slot& slot = slots_[position % kSlots];
            const uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
            if (sequence == position) {
                if (head_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
                    fill(slot.value);
                    slot.sequence.store(position + 1, std::memory_order_release);
                    return true;
                }
            } else if (sequence < position) {
                return false;
            } else {
                position = head_.load(std::memory_order_relaxed);
            }
        }
    }

    // False when empty.
    bool pop(T& value) {
        for (uint64_t position = tail_.load(std::memory_order_relaxed);;) {
            Slot& slot = slots_[position % kSlots];
            const uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
            if (sequence == position + 1) {
                if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
                    value = slot.value;
                    slot.sequence.store(position + kSlots, std::memory_order_release);
                    return true;
                }
            } else if (sequence <= position) {
                return false;
            } else {
                position = tail_.load(std::memory_order_relaxed);
            }
        }
    }

  private:
    struct Slot {
        std::atomic<uint64_t> sequence;
        T value;
    };
    std::atomic<uint64_t> head_;
    std::atomic<uint64_t> tail_;
    Slot slots_[kSlots];
};

}  // namespace titan::tracer
