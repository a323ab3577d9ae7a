// The write side of a ring: claim a slot, fill it, publish it. hot: no lock, allocation or system call. any-thread.
//
// A ticket names an entry for ever; ticket t lies in slot t % count. For ticket 9 of a ring with 4 slots:
//
//    writer                  slot 1: slot_sequence, fields        reader (RingImage, maybe in another process)
//    ------                  -----------------------------        ------------------------------------------
//                            2*5+2 = 12   entry 5, complete       12 .. 12: takes entry 5
//    begin: odd mark         2*9+1 = 19   entry 5, complete       19: skips the slot
//      release fence              |
//    fills the fields        2*9+1 = 19   5 and 9 mixed           12 .. 19: it changed meanwhile, drops the copy
//      release store              |
//    publish: even mark      2*9+2 = 20   entry 9, complete       20 .. 20: takes entry 9
//    find(9), store_field    2*9+2 = 20   a field of 9 changes    20 .. 20: takes either value of that field
//
// A writer that is killed between begin and publish leaves an odd mark, and only that slot is lost.
#pragma once

#include <atomic>
#include <cstdint>

#include "formats/layout/ring_layout.h"

namespace titan::tracer {

// Word by word: an aligned field that its writer stores at once is never copied in two halves, as memcpy might. That it
// races with writers is the point of slot_sequence, which ThreadSanitizer cannot know. `bytes`: a multiple of 8, as
// the addresses are.
__attribute__((no_sanitize("thread"))) inline void copy_words(const void* from, void* to, uint64_t bytes) {
    const auto* const source = static_cast<const uint64_t*>(from);
    for (uint64_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
        const uint64_t word = __atomic_load_n(&source[i], __ATOMIC_RELAXED);
        __builtin_memcpy(static_cast<char*>(to) + i * sizeof(word), &word, sizeof(word));
    }
}

template <typename Slot>
class Ring {
  public:
    constexpr Ring() = default;
    // `count` is a power of two.
    Ring(Slot* slots, uint64_t count, format::RegionCursor& cursor)
        : slots_(slots), mask_(count - 1), cursor_(&cursor) {}

    // Tickets handed out so far.
    uint64_t head() const { return std::atomic_ref(cursor_->head).load(std::memory_order_acquire); }

    // Ordered after earlier claims: writes to a slot happen before any later claim that reuses it.
    uint64_t claim() { return std::atomic_ref(cursor_->head).fetch_add(1, std::memory_order_acq_rel); }

    // `count` tickets in a row; the first of them.
    uint64_t claim_many(uint64_t count) {
        return std::atomic_ref(cursor_->head).fetch_add(count, std::memory_order_acq_rel);
    }

    uint64_t slots() const { return mask_ + 1; }
    Slot& at(uint64_t index) { return slots_[index]; }

    // The slot belongs to the caller between begin and publish.
    Slot& begin(uint64_t ticket) {
        Slot& slot = slots_[ticket & mask_];
        // The thread that wrote the slot a lap ago has published it: our writes come after its own.
        (void)std::atomic_ref(slot.slot_sequence).load(std::memory_order_acquire);
        std::atomic_ref(slot.slot_sequence).store(2 * ticket + 1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);  // fields may not become visible before the odd mark
        return slot;
    }
    // A lap later the next slot has left the cache: fetches it while the program does something else. Behind the last
    // slot this fetches what nobody needs, which is harmless.
    void fetch_next(const Slot& slot) const { __builtin_prefetch(&slot + 1, 1); }

    void publish(Slot& slot, uint64_t ticket) {
        std::atomic_ref(slot.slot_sequence).store(2 * ticket + 2, std::memory_order_release);
    }

    // The slot for a later update, or null when the ring has gone round since. The caller's single aligned stores can
    // then hit a younger entry only if the ring goes round once more between here and the store.
    Slot* find(uint64_t ticket) {
        Slot& slot = slots_[ticket & mask_];
        return holds(slot, ticket) ? &slot : nullptr;
    }
    // False: the entry is being written, or was overwritten while it was copied.
    bool copy(uint64_t ticket, Slot& into) {
        static_assert(sizeof(Slot) % sizeof(uint64_t) == 0 && alignof(Slot) >= alignof(uint64_t));
        Slot* const slot = find(ticket);
        if (slot == nullptr) {
            return false;
        }
        copy_words(slot, &into, sizeof(into));
        std::atomic_thread_fence(std::memory_order_acquire);
        return holds(*slot, ticket);
    }
    // Calls visit(copy) for each slot from ticket `next` on that is still there, oldest first, until visit says false
    // or a slot is being written. `next` becomes the ticket behind the last one that was visited. For readers that come
    // again and again.
    template <typename Visit>
    void visit_since(uint64_t& next, Visit&& visit) {
        const uint64_t end = head();
        const uint64_t oldest = end > slots() ? end - slots() : 0;
        next = next > oldest ? next : oldest;
        for (Slot slot; next != end && copy(next, slot);) {
            ++next;
            if (!visit(slot)) {
                return;
            }
        }
    }
    static bool holds(Slot& slot, uint64_t ticket) {
        return std::atomic_ref(slot.slot_sequence).load(std::memory_order_acquire) == 2 * ticket + 2;
    }

  private:
    Slot* slots_ = nullptr;
    uint64_t mask_ = 0;
    format::RegionCursor* cursor_ = nullptr;
};

}  // namespace titan::tracer
