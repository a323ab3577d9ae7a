#include "snapshot.h"

#include <atomic>

namespace titan::tracer {
namespace {

// Word by word: an aligned field that its writer stores at once is never copied in two halves, as memcpy might. That it
// races with writers is the point of slot_sequence, which ThreadSanitizer cannot know.
__attribute__((no_sanitize("thread"))) void copy_words(char* from, char* to, uint64_t bytes) {
    auto* source = reinterpret_cast<uint64_t*>(from);
    auto* target = reinterpret_cast<uint64_t*>(to);
    for (uint64_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
        target[i] = __atomic_load_n(&source[i], __ATOMIC_RELAXED);
    }
}

// Every slot begins with its slot_sequence.
void copy_slots(char* from, char* to, const format::RegionDescriptor& region) {
    for (uint64_t i = 0; i < region.count; ++i, from += region.stride_bytes, to += region.stride_bytes) {
        std::atomic_ref sequence(*reinterpret_cast<uint64_t*>(from));
        const uint64_t before = sequence.load(std::memory_order_acquire);
        if (before == 0) {
            *reinterpret_cast<uint64_t*>(to) = 0;  // never used: the image's memory is zero
            continue;
        }
        copy_words(from, to, region.stride_bytes);
        std::atomic_thread_fence(std::memory_order_acquire);  // partner: the fence of Ring::begin
        const uint64_t after = sequence.load(std::memory_order_relaxed);
        *reinterpret_cast<uint64_t*>(to) = before == after ? before : (after | 1);
    }
}

}  // namespace

void copy_ring(format::RingHeader& ring, uint64_t bytes, char* image) {
    char* base = reinterpret_cast<char*>(&ring);
    copy_words(base, image, format::kHeaderBytes);
    format::for_each_region(ring, [&](const format::RegionDescriptor& region, const format::RegionCursor*) {
        const uint64_t region_bytes = region.count * region.stride_bytes;
        if (region.offset_bytes > bytes || region_bytes > bytes - region.offset_bytes) {
            return;
        }
        if (format::is_ring(region.kind)) {
            copy_slots(base + region.offset_bytes, image + region.offset_bytes, region);
        } else {
            copy_words(base + region.offset_bytes, image + region.offset_bytes, region_bytes);
        }
    });
}

}  // namespace titan::tracer
