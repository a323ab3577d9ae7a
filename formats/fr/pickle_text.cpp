#include "pickle_text.h"

#include <charconv>

#include "base/utf8.h"

namespace titan::format::fr {
namespace {

void append_utf8(std::string& text, uint32_t code) {
    const Utf8Bytes character = utf8_of(code);
    text.append(character.bytes, character.count);
}

std::optional<uint32_t> hex_digits(std::string_view text, size_t count) {
    uint32_t number = 0;
    if (text.size() < count) {
        return std::nullopt;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + count, number, 16);
    return error == std::errc() && end == text.data() + count ? std::optional(number) : std::nullopt;
}

Value wide_integer() {
    Value value;
    value.kind = Kind::kWideInt;
    return value;
}

// The character that a letter after a backslash stands for; 0 if it stands for none.
char plain_escape(char letter) {
    switch (letter) {
        case 'n': return '\n';
        case 't': return '\t';
        case 'r': return '\r';
        case 'a': return '\a';
        case 'b': return '\b';
        case 'f': return '\f';
        case 'v': return '\v';
        case '\\':
        case '\'':
        case '"': return letter;
        default: return 0;
    }
}

}  // namespace

std::optional<Value> parse_integer(std::string_view line) {
    if (line.ends_with('L')) {
        line.remove_suffix(1);
    }
    int64_t number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (line.empty() || end != line.data() + line.size() || error == std::errc::invalid_argument) {
        return std::nullopt;
    }
    return error == std::errc() ? int_value(number) : wide_integer();
}

std::optional<Value> parse_integer_or_bool(std::string_view line) {
    if (line == "00" || line == "01") {
        return bool_value(line == "01");
    }
    return parse_integer(line);
}

std::optional<Value> parse_float(std::string_view line) {
    double number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    return error == std::errc() && end == line.data() + line.size() ? std::optional(float_value(number)) : std::nullopt;
}

std::optional<std::string> parse_quoted(std::string_view line) {
    if (line.size() < 2 || line.front() != line.back() || (line.front() != '\'' && line.front() != '"')) {
        return std::nullopt;
    }
    line = line.substr(1, line.size() - 2);
    std::string text;
    while (!line.empty()) {
        if (line.front() != '\\') {
            text += line.front();
            line.remove_prefix(1);
            continue;
        }
        if (line.size() < 2) {
            return std::nullopt;
        }
        const char letter = line[1];
        line.remove_prefix(2);
        if (letter == 'x') {
            const auto code = hex_digits(line, 2);
            if (!code) {
                return std::nullopt;
            }
            text += static_cast<char>(*code);
            line.remove_prefix(2);
        } else if (const char plain = plain_escape(letter); plain != 0) {
            text += plain;
        } else {
            return std::nullopt;
        }
    }
    return text;
}

std::optional<std::string> parse_raw_unicode(std::string_view line) {
    std::string text;
    while (!line.empty()) {
        const size_t digits = line.starts_with("\\u") ? 4 : line.starts_with("\\U") ? 8 : 0;
        if (digits == 0) {
            append_utf8(text, static_cast<unsigned char>(line.front()));
            line.remove_prefix(1);
            continue;
        }
        const auto code = hex_digits(line.substr(2), digits);
        if (!code || *code > 0x10FFFF) {
            return std::nullopt;
        }
        append_utf8(text, *code);
        line.remove_prefix(2 + digits);
    }
    return text;
}

Value parse_long(std::string_view bytes) {
    if (bytes.empty()) {
        return int_value(0);
    }
    const bool negative = (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
    const char filler = negative ? '\xFF' : '\0';
    while (bytes.size() > 8 && bytes.back() == filler) {
        bytes.remove_suffix(1);
    }
    const bool still_negative = (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
    if (bytes.size() > 8 || (bytes.size() == 8 && still_negative != negative)) {
        return wide_integer();
    }
    uint64_t number = negative ? UINT64_MAX : 0;
    for (size_t i = bytes.size(); i-- > 0;) {
        number = number << 8 | static_cast<unsigned char>(bytes[i]);
    }
    return int_value(static_cast<int64_t>(number));
}

}  // namespace titan::format::fr
