// Numbers on a command line, refused in words.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <string>

namespace titan::tools {

inline CLI::Validator number_that(bool (*fits)(double), const char* what) {
    return {[fits, what](std::string& text) {
                char* end = nullptr;
                const double number = std::strtod(text.c_str(), &end);
                const bool is_number = end != text.c_str() && *end == '\0';
                return is_number && fits(number) ? std::string() : "'" + text + "' is not a number " + what;
            },
            ""};
}

inline CLI::Validator positive_number() {
    return number_that([](double number) { return number > 0; }, "above 0");
}
inline CLI::Validator not_negative() {
    return number_that([](double number) { return number >= 0; }, "from 0 on");
}

}  // namespace titan::tools
