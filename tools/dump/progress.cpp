#include "dump/progress.h"

#include <unistd.h>

#include "host/output.h"

namespace titan::tools {
namespace {

constexpr std::chrono::seconds kPauseOfLines{5};

}  // namespace

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) != 0) {}

void Progress::show(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    if (text == last_ || (!terminal_ && !last_.empty() && now - shown_ < kPauseOfLines)) {
        return;
    }
    last_ = text;
    shown_ = now;
    drawn_ = terminal_;
    say("{}titan-dump: {}{}", terminal_ ? "\r\033[K" : "", text, terminal_ ? "" : "\n");
}

void Progress::clear() {
    if (drawn_) {
        say("\r\033[K");
        drawn_ = false;
        last_.clear();
    }
}

}  // namespace titan::tools
