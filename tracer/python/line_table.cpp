#include "line_table.h"

namespace titan::tracer::python {
namespace {

constexpr uint64_t kMaxTableBytes = 16 << 20;

// The table's bytes one by one, read in larger pieces.
class ByteStream {
  public:
    ByteStream(const Memory& memory, uint64_t address, uint64_t bytes)
        : memory_(memory), address_(address), left_bytes_(bytes < kMaxTableBytes ? bytes : kMaxTableBytes) {}

    bool next(uint8_t& byte) {
        if (at_ == filled_ && !fill()) {
            return false;
        }
        byte = static_cast<uint8_t>(window_[at_++]);
        return true;
    }
    // 6 bits a byte, the lowest first; bit 6 says that more follow.
    bool next_varint(uint32_t& value) {
        value = 0;
        uint8_t byte = 0x40;
        for (uint32_t shift = 0; (byte & 0x40) != 0; shift += 6) {
            if (shift > 30 || !next(byte)) {
                return false;
            }
            value |= static_cast<uint32_t>(byte & 0x3F) << shift;
        }
        return true;
    }

  private:
    bool fill() {
        const size_t bytes = left_bytes_ < sizeof(window_) ? left_bytes_ : sizeof(window_);
        if (bytes == 0 || !memory_.read(address_, window_, bytes)) {
            return false;
        }
        address_ += bytes;
        left_bytes_ -= bytes;
        at_ = 0;
        filled_ = bytes;
        return true;
    }

    const Memory& memory_;
    uint64_t address_, left_bytes_;
    size_t at_ = 0, filled_ = 0;
    char window_[512];
};

// 3.9: pairs of (bytes of code, lines) to add up; a line holds from where it was reached.
int32_t line_in_lnotab(ByteStream& table, int32_t first_line, int32_t offset) {
    int64_t at = 0, line = first_line;
    for (uint8_t bytes, lines; table.next(bytes) && table.next(lines);) {
        at += bytes;
        if (at > offset) {
            break;
        }
        line += static_cast<int8_t>(lines);
    }
    return static_cast<int32_t>(line);
}

// 3.10: pairs too, but a line holds for the bytes of its own pair, and -128 stands for no line.
int32_t line_in_ranges(ByteStream& table, int32_t first_line, int32_t offset) {
    int64_t end = 0, line = first_line;
    for (uint8_t bytes, lines; table.next(bytes) && table.next(lines);) {
        const bool none = lines == 0x80;
        line += none ? 0 : static_cast<int8_t>(lines);
        end += bytes;
        if (end > offset) {
            return none ? 0 : static_cast<int32_t>(line);
        }
    }
    return 0;
}

// 3.11: entries of a head byte (bit 7 set; 4 bits of form; code units - 1) and what the form calls for.
int32_t line_in_locations(ByteStream& table, int32_t first_line, int32_t offset) {
    constexpr uint8_t kNone = 15, kLong = 14, kNoColumns = 13, kThreeLines = 12, kOneLine = 10;
    int64_t end = 0, line = first_line;
    uint8_t head;
    bool more = table.next(head);
    while (more && (head & 0x80) != 0) {
        const uint8_t form = head >> 3 & 15;
        end += int64_t{2} * ((head & 7) + 1);
        if (form == kLong || form == kNoColumns) {
            uint32_t delta;
            if (!table.next_varint(delta)) {
                return 0;
            }
            line += (delta & 1) != 0 ? -static_cast<int64_t>(delta >> 1) : static_cast<int64_t>(delta >> 1);
        } else if (form >= kOneLine && form <= kThreeLines) {
            line += form - kOneLine;
        }
        if (end > offset) {
            return form == kNone ? 0 : static_cast<int32_t>(line);
        }
        // Columns: up to the next head.
        do {
            more = table.next(head);
        } while (more && (head & 0x80) == 0);
    }
    return 0;
}

}  // namespace

int32_t line_of(const Memory& memory, LineTable kind, uint64_t table, uint64_t table_bytes, int32_t first_line,
                int32_t offset) {
    if (offset < 0) {
        return first_line;  // the frame has not begun
    }
    ByteStream stream(memory, table, table_bytes);
    switch (kind) {
        case LineTable::kLnotab: return line_in_lnotab(stream, first_line, offset);
        case LineTable::kRanges: return line_in_ranges(stream, first_line, offset);
        case LineTable::kLocations: return line_in_locations(stream, first_line, offset);
    }
    return 0;
}

}  // namespace titan::tracer::python
