#include "hot/strings.h"

#include <string.h>

#include <atomic>

namespace titan::tracer {

namespace {

// Probing stops here: a table that is nearly full must not turn every marker into a walk over it.
constexpr uint64_t kMaxProbes = 32;
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;

uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * kMultiplier;
    return hash ^ (hash >> 29);
}

template <typename Word>
uint64_t load(const char* at) {
    Word word;
    memcpy(&word, at, sizeof word);
    return word;
}

// Words of eight bytes; the last one overlaps the one before it, so that no byte is read one by one.
uint64_t hash_of(const char* text, size_t length) {
    uint64_t hash = length;
    if (length >= sizeof(uint64_t)) {
        const char* const last = text + length - sizeof(uint64_t);
        for (; text < last; text += sizeof(uint64_t)) {
            hash = mix(hash, load<uint64_t>(text));
        }
        hash = mix(hash, load<uint64_t>(last));
    } else if (length >= sizeof(uint32_t)) {
        hash = mix(hash, load<uint32_t>(text) << 32 | load<uint32_t>(text + length - sizeof(uint32_t)));
    } else {
        const auto byte = [text](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(text[i])); };
        hash = mix(hash, byte(0) << 16 | byte(length / 2) << 8 | byte(length - 1));
    }
    return hash != 0 ? hash : 1;  // 0 marks a free row
}

}  // namespace

uint32_t StringTable::intern(const char* text) {
    if (text == nullptr || *text == '\0') {
        return 0;
    }
    const size_t whole_length = strlen(text);
    const size_t length = whole_length < kMaxStringBytes ? whole_length : kMaxStringBytes;
    const uint64_t hash = hash_of(text, length);
    const uint64_t row = hash & mask_;
    if (std::atomic_ref(records_[row].hash).load(std::memory_order_relaxed) == hash) [[likely]] {
        return static_cast<uint32_t>(row + 1);  // equal 64-bit hashes: taken as the same string
    }
    return intern_slow(hash, text, length);
}

[[gnu::cold]] uint32_t StringTable::intern_slow(uint64_t hash, const char* text, size_t length) {
    for (uint64_t probe = 0; probe < kMaxProbes; ++probe) {
        const uint64_t row = (hash + probe) & mask_;
        const uint64_t found = std::atomic_ref(records_[row].hash).load(std::memory_order_relaxed);
        if (found == hash) {
            return static_cast<uint32_t>(row + 1);
        }
        if (found == 0) {
            const uint32_t id = insert(row, hash, text, length);
            if (id != 0) {
                return id;
            }
        }
    }
    std::atomic_ref(*dropped_).fetch_add(1, std::memory_order_relaxed);
    return 0;
}

// 0 when another thread took the row for another string.
uint32_t StringTable::insert(uint64_t row, uint64_t hash, const char* text, size_t length) {
    format::StringRecord& record = records_[row];
    uint64_t expected = 0;
    if (!std::atomic_ref(record.hash).compare_exchange_strong(expected, hash, std::memory_order_relaxed)) {
        return expected == hash ? static_cast<uint32_t>(row + 1) : 0;
    }
    const uint64_t offset = std::atomic_ref(heap_cursor_->head).fetch_add(length, std::memory_order_relaxed);
    const std::atomic_ref<uint32_t> published(record.length_bytes);
    if (offset + length > heap_bytes_) {
        std::atomic_ref(*dropped_).fetch_add(1, std::memory_order_relaxed);
        published.store(1, std::memory_order_release);
        return static_cast<uint32_t>(row + 1);
    }
    memcpy(heap_ + offset, text, length);
    record.offset_bytes = static_cast<uint32_t>(offset);
    published.store(static_cast<uint32_t>(length + 1), std::memory_order_release);
    return static_cast<uint32_t>(row + 1);
}

}  // namespace titan::tracer
