#include "string_table.h"

#include <string.h>

#include <atomic>

#include "base/hash.h"

namespace titan::tracer {

namespace {

// Probing stops here: a table that is nearly full must not turn every marker into a walk over it.
constexpr uint64_t kMaxProbes = 32;
constexpr uint64_t kOfLength = 0xA0761D6478BD642F;
__extension__ typedef unsigned __int128 Wide;

// Both halves of the product: the upper bits of a word, its last characters, reach the lower bits of the hash, which
// choose the row, only through the upper half.
uint64_t mix(uint64_t hash, uint64_t word) {
    const Wide product = static_cast<Wide>(hash ^ word) * kHashMultiplier;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <typename Word>
uint64_t load(const char* at) {
    Word word;
    memcpy(&word, at, sizeof(word));
    return word;
}

// Words of eight bytes; the last one overlaps the one before it, so that no byte is read one by one.
uint64_t hash_of(const char* text, size_t length) {
    uint64_t hash = length * kOfLength;  // far from what words are: "10" and "101" are two names
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

// The rows to look in for a name, one after another. The step depends on the name, too: two names that meet in one row
// do not meet again.
uint64_t probe_row(uint64_t hash, uint64_t probe, uint64_t mask) { return (hash + probe * (hash >> 32 | 1)) & mask; }

}  // namespace

uint64_t StringTable::hash_at(uint64_t row) const {
    return std::atomic_ref(records_[row].hash).load(std::memory_order_relaxed);
}

[[gnu::always_inline]] inline void StringTable::note_use(uint64_t row, bool for_good) {
    if (states_ == nullptr) {
        return;
    }
    std::atomic_ref(states_[row].used).store(1, std::memory_order_relaxed);
    const std::atomic_ref<uint8_t> kept(states_[row].for_good);
    if (for_good && kept.load(std::memory_order_relaxed) == 0 && kept.exchange(1, std::memory_order_relaxed) == 0) {
        std::atomic_ref(for_now_).fetch_sub(1, std::memory_order_relaxed);
    }
}

[[gnu::always_inline]] inline uint32_t StringTable::intern_as(const char* text, bool for_good) {
    if (text == nullptr || *text == '\0') {
        return 0;
    }
    const size_t whole_length = strlen(text);
    const size_t length = whole_length < kMaxStringBytes ? whole_length : kMaxStringBytes;
    const uint64_t hash = hash_of(text, length);
    const uint64_t row = probe_row(hash, 0, mask_);
    if (hash_at(row) == hash) [[likely]] {
        note_use(row, for_good);
        return static_cast<uint32_t>(row + 1);  // equal 64-bit hashes: taken as the same string
    }
    return intern_slow(hash, text, length, for_good);
}

uint32_t StringTable::intern(const char* text) { return intern_as(text, true); }
uint32_t StringTable::intern_for_now(const char* text) { return intern_as(text, false); }

[[gnu::cold]] uint32_t StringTable::intern_slow(uint64_t hash, const char* text, size_t length, bool for_good) {
    // Rows are freed, so that a name may lie behind a free row.
    uint64_t free_rows[kMaxProbes];
    uint64_t free_count = 0;
    for (uint64_t probe = 0; probe < kMaxProbes; ++probe) {
        const uint64_t row = probe_row(hash, probe, mask_);
        const uint64_t found = hash_at(row);
        if (found == hash) {
            note_use(row, for_good);
            return static_cast<uint32_t>(row + 1);
        }
        if (found == 0) {
            free_rows[free_count++] = row;
        }
    }
    const bool within_share = for_good || std::atomic_ref(for_now_).load(std::memory_order_relaxed) < limit_for_now();
    for (uint64_t i = 0; within_share && i < free_count; ++i) {
        const uint32_t id = insert(free_rows[i], {hash, text, length}, for_good);
        if (id != 0) {
            return id;
        }
    }
    std::atomic_ref(*dropped_).fetch_add(1, std::memory_order_relaxed);
    return 0;
}

// Finds a place in the heap for the row: that of its last name if it is large enough, else a new one.
bool StringTable::take_place(uint64_t row, size_t length, bool for_good) {
    constexpr uint64_t kGrainBytes = 16;  // names of one kind differ by a few characters
    const uint16_t kept_bytes = states_ != nullptr ? states_[row].room_bytes : uint16_t{0};
    if (kept_bytes >= length) {
        return true;
    }
    const uint64_t wanted = states_ != nullptr ? (length + kGrainBytes - 1) / kGrainBytes * kGrainBytes : length;
    const uint64_t limit_bytes = for_good ? heap_bytes_ : heap_bytes_ / 4 * 3;
    const std::atomic_ref<uint64_t> head(heap_cursor_->head);
    uint64_t offset = head.load(std::memory_order_relaxed);
    do {
        if (offset + wanted > limit_bytes) {
            return false;
        }
    } while (!head.compare_exchange_weak(offset, offset + wanted, std::memory_order_relaxed));
    records_[row].offset_bytes = static_cast<uint32_t>(offset);
    if (states_ != nullptr) {
        states_[row].room_bytes = static_cast<uint16_t>(wanted);
    }
    return true;
}

// 0 when another thread took the row for another string, or the heap has no room.
uint32_t StringTable::insert(uint64_t row, const Text& text, bool for_good) {
    format::StringRecord& record = records_[row];
    uint64_t expected = 0;
    if (!std::atomic_ref(record.hash).compare_exchange_strong(expected, text.hash, std::memory_order_acquire)) {
        return expected == text.hash ? static_cast<uint32_t>(row + 1) : 0;
    }
    if (!take_place(row, text.length, for_good)) {
        std::atomic_ref(record.hash).store(0, std::memory_order_release);
        return 0;
    }
    if (states_ != nullptr) {
        std::atomic_ref(states_[row].used).store(1, std::memory_order_relaxed);
        if (for_good) {
            std::atomic_ref(states_[row].for_good).store(1, std::memory_order_relaxed);
        } else {
            std::atomic_ref(for_now_).fetch_add(1, std::memory_order_relaxed);
        }
    }
    memcpy(heap_ + record.offset_bytes, text.bytes, text.length);
    std::atomic_ref(record.length_bytes).store(static_cast<uint32_t>(text.length + 1), std::memory_order_release);
    return static_cast<uint32_t>(row + 1);
}

const char* StringTable::text_of(uint32_t id, size_t& length) const {
    if (id == 0 || id > rows()) {
        return nullptr;
    }
    format::StringRecord& record = records_[id - 1];
    const uint32_t length_plus_one = std::atomic_ref(record.length_bytes).load(std::memory_order_acquire);
    const uint32_t offset_bytes = std::atomic_ref(record.offset_bytes).load(std::memory_order_acquire);
    if (length_plus_one == 0 || offset_bytes >= heap_bytes_ || length_plus_one - 1 > heap_bytes_ - offset_bytes) {
        return nullptr;
    }
    length = length_plus_one - 1;
    return heap_ + offset_bytes;
}

uint64_t StringTable::names_for_now() const {
    return std::atomic_ref(const_cast<uint64_t&>(for_now_)).load(std::memory_order_relaxed);
}

bool StringTable::is_for_now(uint64_t row) const {
    return hash_at(row) != 0 && std::atomic_ref(records_[row].length_bytes).load(std::memory_order_acquire) != 0 &&
           std::atomic_ref(states_[row].for_good).load(std::memory_order_relaxed) == 0;
}

bool StringTable::take_used(uint64_t row) {
    return std::atomic_ref(states_[row].used).exchange(0, std::memory_order_relaxed) != 0;
}

void StringTable::free_row(uint64_t row) {
    std::atomic_ref(records_[row].length_bytes).store(0, std::memory_order_release);
    std::atomic_ref(for_now_).fetch_sub(1, std::memory_order_relaxed);
    std::atomic_ref(records_[row].hash).store(0, std::memory_order_release);
}

}  // namespace titan::tracer
