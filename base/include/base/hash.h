// Hashes. signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan {

// Fibonacci hashing: 2^64 over the golden ratio. The upper bits of a product are the well mixed ones.
inline constexpr uint64_t kHashMultiplier = 0x9E37'79B9'7F4A'7C15;

constexpr uint64_t mix_hash(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * kHashMultiplier;
    return hash ^ (hash >> 32);
}

// Our files use this hash, too (formats/FORMAT.md).
template <typename Byte>
constexpr uint64_t fnv1a64(const Byte* bytes, size_t size_bytes) {
    static_assert(sizeof(Byte) == 1);
    uint64_t hash = 0xcbf2'9ce4'8422'2325;
    for (size_t i = 0; i < size_bytes; ++i) {
        hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100'0000'01b3;
    }
    return hash;
}

// Inline in any build: dlsym itself asks while a sanitizer is not ready yet for a call into code that it instruments.
[[gnu::always_inline]] constexpr uint32_t fnv1a32(const char* text) {
    uint32_t hash = 2'166'136'261;
    for (; *text != '\0'; ++text) {
        hash = (hash ^ static_cast<unsigned char>(*text)) * 16'777'619;
    }
    return hash;
}

}  // namespace titan
