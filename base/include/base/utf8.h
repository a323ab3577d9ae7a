// UTF-8. signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan {

// Bytes of the character that starts the text; 0: there is none, or it is overlong, a surrogate, or past U+10FFFF.
size_t utf8_length(const char* text, size_t left_bytes);

// The code point of the character of `length_bytes` that starts the text.
constexpr uint32_t utf8_code(const char* text, size_t length_bytes) {
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
    uint32_t code = length_bytes == 1 ? byte(0) : byte(0) & (0x7FU >> length_bytes);
    for (size_t i = 1; i < length_bytes; ++i) {
        code = code << 6 | (byte(i) & 0x3F);
    }
    return code;
}

constexpr bool starts_utf8_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

struct Utf8Bytes {
    char bytes[4];
    size_t count;
};
// Encodes a code point up to U+10FFFF, surrogates included.
constexpr Utf8Bytes utf8_of(uint32_t code) {
    const uint32_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr uint8_t kLead[] = {0x00, 0xC0, 0xE0, 0xF0};
    Utf8Bytes character{{static_cast<char>(kLead[more] | code >> (6 * more))}, more + 1};
    for (uint32_t i = 1; i <= more; ++i) {
        character.bytes[i] = static_cast<char>(0x80 | (code >> (6 * (more - i)) & 0x3F));
    }
    return character;
}

}  // namespace titan
