// Integers as varints: 7 bits a byte, the lowest first, the top bit says that more follow. Signed ones and differences
// are zigzag.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace titan::format {

constexpr uint64_t zigzag(uint64_t difference) {
    return difference << 1 ^ (static_cast<int64_t>(difference) < 0 ? UINT64_MAX : 0);
}
inline constexpr size_t kMostVarintBytes = 10;
// Returns how many bytes it takes.
constexpr size_t write_varint(uint64_t value, unsigned char* into) {
    size_t length = 0;
    for (; value >= 0x80; value >>= 7) {
        into[length++] = static_cast<unsigned char>(value | 0x80);
    }
    into[length++] = static_cast<unsigned char>(value);
    return length;
}

constexpr uint64_t unzigzag(uint64_t coded) { return coded >> 1 ^ ((coded & 1) != 0 ? UINT64_MAX : 0); }

// A number by its highest bits: exact below 2^bits, else to half of one part in 2^(bits - 1). As a small number.
constexpr uint64_t to_coarse(uint64_t value, unsigned bits) {
    const auto width = static_cast<unsigned>(std::bit_width(value));
    if (width <= bits) {
        return value;
    }
    const unsigned shift = width - bits;
    return (uint64_t{shift} << (bits - 1)) + (value >> shift) + (value >> (shift - 1) & 1);
}
constexpr uint64_t from_coarse(uint64_t coded, unsigned bits) {
    if (coded < uint64_t{1} << bits) {
        return coded;
    }
    const uint64_t shift = (coded >> (bits - 1)) - 1;
    const uint64_t top = coded - (shift << (bits - 1));
    return shift > 64 - bits ? UINT64_MAX : top << shift;
}

namespace packed {
// Signed numbers of any width as 64 bits, and back.
template <typename T>
constexpr uint64_t widen(T value) {
    if constexpr (std::is_enum_v<T>) {
        return widen(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_signed_v<T>) {
        return static_cast<uint64_t>(static_cast<int64_t>(value));
    } else {
        return static_cast<uint64_t>(value);
    }
}
template <typename T>
inline constexpr bool kIsSigned = std::is_signed_v<T>;
}  // namespace packed

}  // namespace titan::format
