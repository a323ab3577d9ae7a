// The lines of protocol 0, where values are text: numbers, quoted strings, escapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/fr/tree.h"

namespace titan::format::fr {

// "12", "12L", "-3": kInt, or kWideInt beyond 64 bits.
std::optional<Value> parse_integer(std::string_view line);
// As above; "00" and "01" are booleans.
std::optional<Value> parse_integer_or_bool(std::string_view line);
std::optional<Value> parse_float(std::string_view line);
// 'abc', "abc", with backslash escapes.
std::optional<std::string> parse_quoted(std::string_view line);
// Latin-1 with \uXXXX and \UXXXXXXXX, as UTF-8.
std::optional<std::string> parse_raw_unicode(std::string_view line);
// Two's complement, little endian, any length.
Value parse_long(std::string_view bytes);

}  // namespace titan::format::fr
