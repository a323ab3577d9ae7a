// Names of kernel handles seen before. hot: no lock, allocation or system call. any-thread.
//
// Direct-mapped; one word per kernel, so that a reader never sees half of an entry: the handle's hash with the name's
// string id in its lower bits, by exclusive or. A collision forgets the older kernel, whose name is then asked for
// again.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/hash.h"

namespace titan::tracer {

// Trivial, and empty when its memory is zero.
class KernelNames {
  public:
    // False when the handle is not known; else `name` is its name.
    bool find(const void* function, uint32_t& name) {
        const uint64_t hash = hash_of(function);
        const uint64_t differing = slot(hash).load(std::memory_order_relaxed) ^ hash;
        if (differing > kMaxName) {
            return false;
        }
        name = static_cast<uint32_t>(differing);
        return true;
    }

    void remember(const void* function, uint32_t name) {
        if (name <= kMaxName) {
            const uint64_t hash = hash_of(function);
            slot(hash).store(hash ^ name, std::memory_order_relaxed);
        }
    }

    void clear() {
        for (uint64_t& word : words_) {
            std::atomic_ref(word).store(0, std::memory_order_relaxed);
        }
    }

  private:
    static constexpr uint64_t kMaxName = (uint64_t{1} << 20) - 1;
    static constexpr uint64_t kSlotBits = 10;

    // Odd multiplier: one to one; the upper bits depend on all bits of an address.
    static uint64_t hash_of(const void* function) { return reinterpret_cast<uint64_t>(function) * kHashMultiplier; }
    std::atomic_ref<uint64_t> slot(uint64_t hash) { return std::atomic_ref(words_[hash >> (64 - kSlotBits)]); }

    uint64_t words_[uint64_t{1} << kSlotBits];
};

}  // namespace titan::tracer
