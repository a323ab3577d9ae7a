#include "object_text.h"

#include "base/utf8.h"

namespace titan::tracer::python {
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

}  // namespace titan::tracer::python
