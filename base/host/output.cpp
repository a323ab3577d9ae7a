#include "host/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/signals.h"
#include "host/words.h"

namespace titan {
namespace {

bool reader_is_gone() {
    pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
    return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

void say_text(std::string_view text) {
    const std::string clean = printable(text, Keep::kOwnLines);
    const WithoutWriteSignals quiet;
    std::fwrite(clean.data(), 1, clean.size(), stderr);
    std::fflush(stderr);
}

bool print_text(const std::string& text) {
    const std::string clean = printable(text, Keep::kOwnLines);
    return std::fwrite(clean.data(), 1, clean.size(), stdout) == clean.size();
}

void keep_standard_descriptors() {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(standard, F_GETFD) == -1) {
            // Takes the lowest free number, which is this one, and opens it the wrong way round, so that its use fails
            // as before.
            ::open("/dev/null", (standard == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

bool finish_output(const char* program) {
    const bool written = std::fflush(stdout) == 0;
    const int error = errno;
    if (written && std::ferror(stdout) == 0) {
        return true;
    }
    if (!reader_is_gone()) {
        say("{}: cannot write to standard output{}{}\n", program, written ? "" : ": ",
            written ? "" : std::strerror(error));
    }
    return false;
}

}  // namespace titan
