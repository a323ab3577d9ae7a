#include "dump/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace titan::tools {

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) != 0) {}

void Progress::show(const std::string& text) {
    if (text == last_) {
        return;
    }
    last_ = text;
    drawn_ = terminal_;
    fmt::print(stderr, "{}titan-dump: {}{}", terminal_ ? "\r\033[K" : "", text, terminal_ ? "" : "\n");
    std::fflush(stderr);
}

void Progress::clear() {
    if (drawn_) {
        fmt::print(stderr, "\r\033[K");
        drawn_ = false;
        last_.clear();
    }
}

}  // namespace titan::tools
