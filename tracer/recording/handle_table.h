// Maps a handle of CUDA or NCCL to what we know of it. find() and forget() are hot and lock-free, any-thread; set()
// expects a ColdLock.
//
// A handle has two buckets of eight slots to lie in, so a miss costs the same whatever came and went before, and there
// is nothing to clean up: jobs make and destroy graphs and communicators for as long as they run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/hash.h"

namespace titan::tracer {

template <typename Value>
class HandleTable {
  public:
    Value* find(const void* handle) const {
        const Slot* const slot = slot_of(handle);
        return slot != nullptr ? slot->value.load(std::memory_order_acquire) : nullptr;
    }

    // Gives the handle, which is not null, this value and returns the one that it had, or null. `full`: there was no
    // room for it.
    Value* set(const void* handle, Value* value, bool& full) {
        full = false;
        if (const Slot* const slot = slot_of(handle); slot != nullptr) {
            return const_cast<Slot*>(slot)->value.exchange(value, std::memory_order_acq_rel);
        }
        Slot* const slot = free_slot(handle);
        if (slot == nullptr) {
            full = true;
            return nullptr;
        }
        slot->value.store(value, std::memory_order_relaxed);
        used_of(*slot).fetch_add(1, std::memory_order_relaxed);
        slot->handle.store(handle, std::memory_order_release);
        return nullptr;
    }

    // Returns the value that it had, or null.
    Value* forget(const void* handle) {
        auto* const slot = const_cast<Slot*>(slot_of(handle));
        if (slot == nullptr) {
            return nullptr;
        }
        Value* const value = slot->value.load(std::memory_order_relaxed);
        const void* expected = handle;
        if (!slot->handle.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel)) {
            return nullptr;
        }
        used_of(*slot).fetch_sub(1, std::memory_order_relaxed);
        return value;
    }

    // Calls visit(handle, value) for each.
    template <typename Visit>
    void for_each(Visit visit) {
        for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
            if (used_[bucket].load(std::memory_order_relaxed) == 0) {
                continue;
            }
            for (Slot& slot : buckets_[bucket].slots) {
                if (const void* const handle = slot.handle.load(std::memory_order_relaxed); handle != nullptr) {
                    visit(handle, slot.value.load(std::memory_order_relaxed));
                }
            }
        }
    }

  private:
    static constexpr uint32_t kBucketBits = 10;
    static constexpr uint32_t kBuckets = 1u << kBucketBits;
    static constexpr uint32_t kBucketSlots = 8;

    struct Slot {
        std::atomic<const void*> handle;
        std::atomic<Value*> value;
    };
    struct Bucket {
        Slot slots[kBucketSlots];
    };
    struct Choice {
        uint32_t numbers[2];
    };

    static Choice buckets_of(const void* handle) {
        const uint64_t hash = reinterpret_cast<uintptr_t>(handle) * kHashMultiplier;
        return {{static_cast<uint32_t>(hash >> (64 - kBucketBits)),
                 static_cast<uint32_t>(hash >> (64 - 2 * kBucketBits)) % kBuckets}};
    }

    // Chooses the emptier of the two buckets, so that both are rarely full before nearly all are.
    Slot* free_slot(const void* handle) {
        Slot* best = nullptr;
        uint32_t most_free = 0;
        for (const uint32_t bucket : buckets_of(handle).numbers) {
            Slot* found = nullptr;
            uint32_t free = 0;
            for (Slot& slot : buckets_[bucket].slots) {
                if (slot.handle.load(std::memory_order_relaxed) == nullptr) {
                    found = found != nullptr ? found : &slot;  // the first is found soonest
                    ++free;
                }
            }
            if (free > most_free) {
                most_free = free;
                best = found;
            }
        }
        return best;
    }

    const Slot* slot_of(const void* handle) const {
        if (handle == nullptr) {
            return nullptr;
        }
        for (const uint32_t bucket : buckets_of(handle).numbers) {
            if (used_[bucket].load(std::memory_order_acquire) == 0) [[likely]] {
                continue;
            }
            for (const Slot& slot : buckets_[bucket].slots) {
                if (slot.handle.load(std::memory_order_acquire) == handle) {
                    return &slot;
                }
            }
        }
        return nullptr;
    }

    std::atomic<uint8_t>& used_of(const Slot& slot) {
        const auto bytes_before = reinterpret_cast<const char*>(&slot) - reinterpret_cast<const char*>(buckets_);
        return used_[static_cast<size_t>(bytes_before) / sizeof(Bucket)];
    }

    std::atomic<uint8_t> used_[kBuckets];  // slots in use: a miss reads no more than these two numbers, mostly
    Bucket buckets_[kBuckets];
};

}  // namespace titan::tracer
