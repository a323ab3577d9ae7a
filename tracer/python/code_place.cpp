#include "code_place.h"

#include "base/utf8.h"
#include "frames.h"

namespace titan::tracer::python {

// 1. The line of an instruction. Sources: CPython's Objects/lnotab_notes.txt (3.9, 3.10) and its description of code
// locations (3.11 and later).

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

// 2. A Python str as UTF-8.

namespace {

constexpr int64_t kMaxLength = 1 << 20;  // no file's or function's name is longer
constexpr uint32_t kReplacement = 0xFFFD;

class Utf8Writer {
  public:
    Utf8Writer(char* out, size_t room_bytes) : out_(out), room_bytes_(room_bytes) {}

    // False: no room for the whole character.
    bool put(uint32_t c) {
        if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
            c = kReplacement;
        }
        const Utf8Bytes character = utf8_of(c);
        if (size_bytes_ + character.count >= room_bytes_) {
            return false;
        }
        for (size_t i = 0; i < character.count; ++i) {
            out_[size_bytes_++] = character.bytes[i];
        }
        return true;
    }
    uint32_t finish() {
        out_[size_bytes_] = '\0';
        return static_cast<uint32_t>(size_bytes_);
    }

  private:
    char* out_;
    size_t room_bytes_;
    size_t size_bytes_ = 0;
};

uint32_t character(const char* data, size_t index, uint32_t width) {
    switch (width) {
        case 1: return field<uint8_t>(data, index);
        case 2: return field<uint16_t>(data, index * 2);
        default: return field<uint32_t>(data, index * 4);
    }
}

}  // namespace

uint32_t copy_text_object(const Memory& memory, const Runtime& runtime, uint64_t object, char* out, size_t room_bytes,
                          bool& cut) {
    cut = false;
    if (room_bytes == 0) {
        return 0;
    }
    out[0] = '\0';
    const Layout& layout = runtime.layout;
    char head[kMaxViewBytes];
    if (object == 0 || object % 8 != 0 || !memory.read(object, head, layout.text_ascii_bytes) ||
        field<uint64_t>(head, layout.object_type) != runtime.text_type) {
        return 0;
    }
    const auto length = field<int64_t>(head, layout.text_length);
    const uint32_t state = field<uint32_t>(head, layout.text_state) >> layout.text_kind_shift;
    const uint32_t width = state & 7;
    const bool compact = (state >> 3 & 1) != 0, ascii = (state >> 4 & 1) != 0;
    if (!compact || length < 0 || length > kMaxLength || (width != 1 && width != 2 && width != 4)) {
        return 0;
    }
    uint64_t at = object + (ascii ? layout.text_ascii_bytes : layout.text_compact_bytes);
    Utf8Writer writer(out, room_bytes);
    char data[256];
    for (uint64_t left_bytes = static_cast<uint64_t>(length) * width; left_bytes > 0 && !cut;) {
        const size_t piece_bytes = left_bytes < sizeof(data) ? left_bytes : sizeof(data);
        if (!memory.read(at, data, piece_bytes)) {
            cut = true;
            break;
        }
        for (size_t i = 0; i < piece_bytes / width && !cut; ++i) {
            cut = !writer.put(character(data, i, width));
        }
        at += piece_bytes;
        left_bytes -= piece_bytes;
    }
    return writer.finish();
}

// 3. Both, of a code object.

namespace {

bool is_code(const Memory& memory, const Runtime& runtime, uint64_t code) {
    uint64_t type;
    return code != 0 && code % 8 == 0 && memory.get(code + runtime.layout.object_type, type) &&
           type == runtime.code_type;
}

int32_t current_line(const Memory& memory, const Runtime& runtime, uint64_t code, int32_t first_line, int32_t offset) {
    const Layout& layout = runtime.layout;
    uint64_t table, type;
    int64_t table_bytes;
    if (offset == kUnknownOffset || !memory.get(code + layout.code_lines, table) || table % 8 != 0 ||
        !memory.get(table + layout.object_type, type) || type != runtime.bytes_type ||
        !memory.get(table + layout.bytes_size, table_bytes) || table_bytes < 0) {
        return 0;
    }
    return line_of(memory, layout.lines, table + layout.bytes_data, static_cast<uint64_t>(table_bytes), first_line,
                   offset);
}

}  // namespace

bool describe(const Memory& memory, const Runtime& runtime, uint64_t code, int32_t offset, char* file,
              size_t file_room_bytes, char* name, size_t name_room_bytes, Place& place) {
    place = Place{};
    const Layout& layout = runtime.layout;
    uint64_t file_object, name_object;
    if (!is_code(memory, runtime, code) || !memory.get(code + layout.code_first_line, place.first_line) ||
        !memory.get(code + layout.code_file, file_object) ||
        !memory.get(code + (layout.code_qualname != 0 ? layout.code_qualname : layout.code_name), name_object)) {
        return false;
    }
    place.line = current_line(memory, runtime, code, place.first_line, offset);
    place.file_bytes = copy_text_object(memory, runtime, file_object, file, file_room_bytes, place.file_cut);
    place.name_bytes = copy_text_object(memory, runtime, name_object, name, name_room_bytes, place.name_cut);
    return is_code(memory, runtime, code);  // still the same
}

}  // namespace titan::tracer::python
