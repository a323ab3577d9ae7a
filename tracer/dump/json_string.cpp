#include "json_string.h"

#include "base/utf8.h"

namespace titan::tracer {

void json_string(TextWriter& json, const char* text, size_t size_bytes) {
    if (size_bytes > kMaxJsonValueBytes) {
        size_bytes = kMaxJsonValueBytes;
    }
    json.put('"');
    for (size_t i = 0; i < size_bytes;) {
        size_t length = utf8_length(text + i, size_bytes - i);
        auto byte = static_cast<unsigned char>(text[i]);
        if (length == 0) {
            json.text("\\ufffd");
            ++i;
        } else if (byte == '"' || byte == '\\') {
            json.put('\\');
            json.put(text[i++]);
        } else if (byte < 0x20 || byte == 0x7f) {
            json.text("\\u");
            json.number(byte, 16, 4);
            ++i;
        } else {
            json.text(text + i, length);
            i += length;
        }
    }
    json.put('"');
}

}  // namespace titan::tracer
