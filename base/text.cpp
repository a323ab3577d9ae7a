#include "base/text.h"

#include <errno.h>
#include <strings.h>

#include <cstring>

namespace titan {

void TextWriter::put(char c) {
    if (size_bytes_ + 1 >= capacity_bytes_) {
        cut_ = true;
        return;
    }
    out_[size_bytes_++] = c;
    out_[size_bytes_] = '\0';
}

void TextWriter::text(const char* string) { text(string, string == nullptr ? 0 : strlen(string)); }

void TextWriter::text(const char* string, size_t length_bytes) {
    for (size_t i = 0; i < length_bytes; ++i) {
        put(string[i]);
    }
}

void TextWriter::escaped(const char* string, size_t limit_bytes) {
    for (size_t i = 0; string[i] != '\0'; ++i) {
        if (i == limit_bytes) {
            text("...");
            return;
        }
        auto byte = static_cast<unsigned char>(string[i]);
        if (byte < 0x20 || byte >= 0x7f || byte == '\\') {
            text("\\x");
            number(byte, 16, 2);
        } else {
            put(string[i]);
        }
    }
}

void TextWriter::number(uint64_t value, unsigned base, unsigned width) {
    char digits[20];
    unsigned count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    for (unsigned i = count; i < width; ++i) {
        put('0');
    }
    while (count != 0) {
        put(digits[--count]);
    }
}

void TextWriter::signed_number(int64_t value, unsigned width) {
    if (value < 0) {
        put('-');
        number(uint64_t{0} - static_cast<uint64_t>(value), 10, width);
    } else {
        number(static_cast<uint64_t>(value), 10, width);
    }
}

void TextWriter::format(const char* pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    format_list(pattern, arguments);
    va_end(arguments);
}

void TextWriter::format_list(const char* pattern, va_list arguments) {
    for (const char* p = pattern; *p != '\0'; ++p) {
        if (*p != '%') {
            put(*p);
            continue;
        }
        unsigned width = 0;
        for (++p; *p >= '0' && *p <= '9'; ++p) {
            width = width * 10 + static_cast<unsigned>(*p - '0');
        }
        bool wide = false;
        for (; *p == 'l' || *p == 'z'; ++p) {
            wide = true;
        }
        switch (*p) {
            case 's': text(va_arg(arguments, const char*)); break;
            case 'c': put(static_cast<char>(va_arg(arguments, int))); break;
            case 'd': signed_number(wide ? va_arg(arguments, long) : va_arg(arguments, int), width); break;
            case 'u':
            case 'x':
                number(wide ? va_arg(arguments, unsigned long) : va_arg(arguments, unsigned), *p == 'u' ? 10 : 16,
                       width);
                break;
            case '\0': return;
            default: put(*p);
        }
    }
}

size_t format_text(char* out, size_t capacity_bytes, const char* pattern, ...) {
    TextWriter writer(out, capacity_bytes);
    va_list arguments;
    va_start(arguments, pattern);
    writer.format_list(pattern, arguments);
    va_end(arguments);
    return writer.size_bytes();
}

bool copy_text(char* out, size_t capacity_bytes, const char* string) {
    TextWriter writer(out, capacity_bytes);
    writer.text(string);
    return !writer.cut();
}

bool same_text(const char* a, const char* b) { return strcmp(a, b) == 0; }

bool starts_with(const char* text, const char* prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

bool parse_u64(const char* text, size_t length_bytes, uint64_t& value) {
    uint64_t result = 0;
    for (size_t i = 0; i < length_bytes; ++i) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        if (__builtin_mul_overflow(result, uint64_t{10}, &result) ||
            __builtin_add_overflow(result, static_cast<uint64_t>(text[i] - '0'), &result)) {
            return false;
        }
    }
    value = result;
    return length_bytes != 0;
}

bool parse_u64(const char* text, uint64_t& value) { return parse_u64(text, strlen(text), value); }

bool parse_switch(const char* text, bool& value) {
    static constexpr const char* kWords[] = {"0", "1", "off", "on", "false", "true", "no", "yes"};
    for (size_t i = 0; i < sizeof(kWords) / sizeof(kWords[0]); ++i) {
        if (strcasecmp(text, kWords[i]) == 0) {
            value = i % 2 == 1;
            return true;
        }
    }
    return false;
}

const char* error_text(int error_number) {
    switch (error_number) {
        case EACCES:
        case EPERM: return "permission denied";
        case EEXIST: return "the name is taken";
        case EFBIG: return "over the limit of file sizes";
        case EDQUOT:
        case ENOSPC: return "no space left";
        case EIO: return "input/output error";
        case ELOOP: return "a symbolic link is in the way";
        case EMFILE:
        case ENFILE: return "too many open files";
        case ENAMETOOLONG: return "the path is too long";
        case ENOENT: return "no such directory";
        case ENOMEM: return "no memory";
        case ECONNABORTED:
        case ENOTCONN: return "its file server is gone";
        case ENOTDIR: return "not a directory";
        case EROFS: return "the file system is read-only";
        case ESTALE: return "stale file handle";
        case ETIMEDOUT: return "no answer in time";
        default: return "unexpected error";
    }
}

}  // namespace titan
