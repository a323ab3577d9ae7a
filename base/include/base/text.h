// Bounded text for places where snprintf, std::string and the heap are out of reach: signal handlers, the dump path.
//
// Everything here is async-signal-safe: no locale, no allocation, no errno. Text that does not fit is cut, never
// overrun, and the result is always NUL-terminated.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>

namespace titan {

class TextWriter {
  public:
    TextWriter(char* out, size_t capacity_bytes) : out_(out), capacity_bytes_(capacity_bytes) {
        if (capacity_bytes_ != 0) {
            out_[0] = '\0';
        }
    }

    void put(char c);
    void text(const char* string);
    void text(const char* string, size_t length_bytes);
    // Prints ASCII as it is and all other bytes as \xNN: text from the environment never reaches a terminal raw.
    void escaped(const char* string, size_t limit_bytes = SIZE_MAX);
    void number(uint64_t value, unsigned base = 10, unsigned width = 0);
    void signed_number(int64_t value, unsigned width = 0);
    // The part of printf that we use: %s %c %d %u %x with l, ll and z, a zero-padded width (%05d), and %%.
    __attribute__((format(printf, 2, 3))) void format(const char* pattern, ...);
    void format_list(const char* pattern, va_list arguments);

    size_t size_bytes() const { return size_bytes_; }
    bool cut() const { return cut_; }

  private:
    char* out_;
    size_t capacity_bytes_;
    size_t size_bytes_ = 0;
    bool cut_ = false;
};

__attribute__((format(printf, 3, 4))) size_t format_text(char* out, size_t capacity_bytes, const char* pattern, ...);

// Copies and cuts; returns false when it had to cut.
bool copy_text(char* out, size_t capacity_bytes, const char* string);

bool same_text(const char* a, const char* b);
bool starts_with(const char* text, const char* prefix);

// A whole decimal number and nothing else: no sign, no blanks, at least one digit, no overflow.
bool parse_u64(const char* text, size_t length_bytes, uint64_t& value);
bool parse_u64(const char* text, uint64_t& value);

// A switch of the environment, in any case: 0, off, false, no and 1, on, true, yes. False for any other word.
bool parse_switch(const char* text, bool& value);
inline bool is_off(const char* text) {
    bool value = true;
    return parse_switch(text, value) && !value;
}

// The meaning of errno, for the few values that file systems return; strerror takes locks and allocates.
const char* error_text(int error_number);

}  // namespace titan
