#include "formats/fr/pickle_writer.h"

#include <bit>
#include <limits>

namespace titan::format {

PickleWriter::PickleWriter() { put(std::string_view("\x80\x02", 2)); }

PickleWriter& PickleWriter::put(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
}

void PickleWriter::number(uint64_t value, size_t size_bytes) {
    for (size_t i = 0; i < size_bytes; ++i) {
        bytes_ += static_cast<char>(value >> (8 * i));
    }
}

void PickleWriter::memo(char short_form, char long_form, uint32_t index) {
    const bool fits = index <= std::numeric_limits<uint8_t>::max();
    bytes_ += fits ? short_form : long_form;
    number(index, fits ? 1 : 4);
}

PickleWriter& PickleWriter::text(std::string_view utf8) {
    const auto [found, inserted] = memo_.try_emplace(std::string(utf8), static_cast<uint32_t>(memo_.size()));
    if (!inserted) {
        memo('h', 'j', found->second);  // BINGET, LONG_BINGET
        return *this;
    }
    put("X");  // BINUNICODE
    number(utf8.size(), 4);
    put(utf8);
    memo('q', 'r', found->second);  // BINPUT, LONG_BINPUT
    return *this;
}

PickleWriter& PickleWriter::integer(int64_t value) {
    if (value >= 0 && value <= std::numeric_limits<uint8_t>::max()) {
        put("K");  // BININT1
        number(static_cast<uint64_t>(value), 1);
    } else if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max()) {
        put("J");  // BININT
        number(static_cast<uint64_t>(value), 4);
    } else {
        put("\x8a\x08");  // LONG1 of eight bytes
        number(static_cast<uint64_t>(value), 8);
    }
    return *this;
}

PickleWriter& PickleWriter::real(double value) {
    put("G");  // BINFLOAT, the one big-endian number
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8) {
        bytes_ += static_cast<char>(bits >> shift);
    }
    return *this;
}

std::span<const std::byte> PickleWriter::finish() {
    put(".");
    return std::as_bytes(std::span(bytes_));
}

}  // namespace titan::format
