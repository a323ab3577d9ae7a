// The only ways to standard error and standard output. Both let nothing through that a terminal would act on but what
// our programs send (printable.h), so that a name that a message forgot to clean does no harm.
//
// Standard error is for messages: one that cannot be written changes nothing. Standard output is for results: where it
// cannot be written, the exit status says so (run_program).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace titan {

// Writes to standard error. Never throws, and neither a signal nor a stop of this process results, even if the write
// fails.
void say_text(std::string_view text);
template <typename... T>
void say(fmt::format_string<T...> format, T&&... arguments) {
    say_text(fmt::format(format, std::forward<T>(arguments)...));
}

// Writes to standard output; false if that failed.
bool print_text(const std::string& text);
template <typename... T>
bool print(fmt::format_string<T...> format, T&&... arguments) {
    return print_text(fmt::format(format, std::forward<T>(arguments)...));
}

// Fills closed descriptors among 0 to 2 with unusable ones, so that no file that we open gets their numbers. A program
// that we exec finds them closed.
void keep_standard_descriptors();

// Writes out what is buffered. False where anything printed did not come out; says why, unless the reader just left (as
// `head` does).
bool finish_output(const char* program);

}  // namespace titan
