// Standard error is for messages: one that cannot be written changes nothing. Standard output is for results: where it
// cannot be written, the exit status says so (run_program).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace titan {

// To standard error. No exception, no signal and no stop of this process comes of it, whatever becomes of the text.
void say_text(std::string_view text);
template <typename... T>
void say(fmt::format_string<T...> format, T&&... arguments) {
    say_text(fmt::format(format, std::forward<T>(arguments)...));
}

// To standard output; false where it could not be written.
bool print_text(const std::string& text);
template <typename... T>
bool print(fmt::format_string<T...> format, T&&... arguments) {
    return print_text(fmt::format(format, std::forward<T>(arguments)...));
}

// Of descriptors 0 to 2 those that are closed cannot be used, and no file that we open gets their numbers. A program
// that we exec finds them closed.
void keep_standard_descriptors();

// Writes out what is buffered. False where anything printed did not come out; says why, unless the reader just left (as
// `head` does).
bool finish_output(const char* program);

}  // namespace titan
