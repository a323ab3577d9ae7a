// What of somebody else's text may reach a terminal, a log or a page. signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan {

// True for characters that do something other than show themselves: C0 and C1 controls, escape sequences among them;
// Unicode's format characters (general category Cf), which turn the direction of text, join it or are not visible; and
// the separators of lines and paragraphs.
// Source: Unicode 15.1, DerivedGeneralCategory.txt, Cc, Cf, Zl and Zp, but for those that scripts need in words: U+200C
// and U+200D are taken as the others are, because names in logs and traces do without them.
constexpr bool is_unprintable(uint32_t code) {
    struct Range {
        uint32_t first, last;
    };
    constexpr Range kRanges[] = {
        {0x0000, 0x001F},   {0x007F, 0x009F},   {0x00AD, 0x00AD},   {0x0600, 0x0605},   {0x061C, 0x061C},
        {0x06DD, 0x06DD},   {0x070F, 0x070F},   {0x0890, 0x0891},   {0x08E2, 0x08E2},   {0x180E, 0x180E},
        {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},
        {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
        {0xE0000, 0xE0FFF},
    };
    for (const Range& range : kRanges) {
        if (code <= range.last) {
            return code >= range.first;
        }
    }
    return false;
}

enum class Keep : uint8_t {
    kNothing,   // a name or a word in a line
    kOwnLines,  // whole output: newlines, tabs, and what our programs send to a terminal (\r, colours, "erase the
                // line")
};

// Replaces each character that is unprintable, and each byte that is no UTF-8, by '?', in place. Returns the new size,
// which is never greater.
size_t make_printable(char* text, size_t size_bytes, Keep keep = Keep::kNothing);

}  // namespace titan
