#include "base/printable.h"

#include "base/utf8.h"

namespace titan {
namespace {

// Bytes of ESC [ NUMBER ; NUMBER m or K at the start of the text; 0: something else.
size_t own_escape_bytes(const char* text, size_t left_bytes) {
    if (left_bytes < 3 || text[0] != '\033' || text[1] != '[') {
        return 0;
    }
    size_t i = 2;
    while (i < left_bytes && ((text[i] >= '0' && text[i] <= '9') || text[i] == ';')) {
        ++i;
    }
    return i < left_bytes && (text[i] == 'm' || text[i] == 'K') ? i + 1 : 0;
}

// Bytes of what stays at the start of the text; 0: nothing does.
size_t kept_bytes(const char* text, size_t left_bytes, Keep keep) {
    if (keep == Keep::kOwnLines) {
        if (*text == '\n' || *text == '\t' || *text == '\r') {
            return 1;
        }
        if (const size_t escape = own_escape_bytes(text, left_bytes); escape != 0) {
            return escape;
        }
    }
    const size_t length = utf8_length(text, left_bytes);
    return length == 0 || is_unprintable(utf8_code(text, length)) ? 0 : length;
}

}  // namespace

size_t make_printable(char* text, size_t size_bytes, Keep keep) {
    size_t to = 0;
    for (size_t from = 0; from < size_bytes;) {
        const size_t kept = kept_bytes(text + from, size_bytes - from, keep);
        if (kept == 0) {
            const size_t length = utf8_length(text + from, size_bytes - from);
            from += length == 0 ? 1 : length;
            text[to++] = '?';
        } else {
            for (size_t i = 0; i < kept; ++i) {
                text[to++] = text[from++];
            }
        }
    }
    return to;
}

}  // namespace titan
