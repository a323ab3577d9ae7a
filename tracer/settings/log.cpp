#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "base/clock.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/signals.h"
#include "base/text.h"
#include "tracer/warn.h"

namespace titan::tracer {
namespace {

constexpr uint32_t kRememberedWarnings = 64;
constexpr size_t kLineBytes = 1024;  // less than PIPE_BUF: one write is one line

struct FileIdentity {
    dev_t device;
    ino_t inode;
};

constinit FileIdentity stderr_at_load{};  // all zero: it was closed
constinit std::atomic<int32_t> log_rank{-1};
constinit std::atomic<uint64_t> window_start_ns{0};
constinit std::atomic<uint32_t> window_lines{0};
constinit std::atomic<uint64_t> warned[kRememberedWarnings]{};

bool within_rate() {
    const uint64_t now_ns = monotonic_now_ns();
    uint64_t start_ns = window_start_ns.load(std::memory_order_relaxed);
    if (start_ns == 0 || now_ns - start_ns > kLogWindowNs) {
        if (window_start_ns.compare_exchange_strong(start_ns, now_ns, std::memory_order_relaxed)) {
            window_lines.store(0, std::memory_order_relaxed);
        }
    }
    return window_lines.fetch_add(1, std::memory_order_relaxed) < kLogBurst;
}

// True the first time that this text is seen. A full table lets everything through to the rate limit.
bool first_time(const char* line, size_t length_bytes) {
    const uint64_t hash = fnv1a64(line, length_bytes) | 1;  // 0 is a free place
    for (auto& place : warned) {
        uint64_t seen = 0;
        if (place.compare_exchange_strong(seen, hash, std::memory_order_relaxed)) {
            return true;
        }
        if (seen == hash) {
            return false;
        }
    }
    return true;
}

bool same_file(const struct stat& status, const FileIdentity& file) {
    return status.st_dev == file.device && status.st_ino == file.inode;
}

// A program that closed its standard error, and opened something else since, has that under the number 2.
bool is_standard_error() {
    struct stat now {};
    struct stat output {};
    if (fstat(STDERR_FILENO, &now) != 0) {
        return false;
    }
    if (same_file(now, stderr_at_load)) {
        return true;
    }
    const int flags = fcntl(STDERR_FILENO, F_GETFL);
    const bool is_log = S_ISREG(now.st_mode) && (flags & O_ACCMODE) == O_WRONLY && (flags & O_APPEND) != 0;
    return is_log || (fstat(STDOUT_FILENO, &output) == 0 && same_file(now, {output.st_dev, output.st_ino}));
}

void write_line(const char* line, size_t size_bytes) {
    pollfd stderr_ready{STDERR_FILENO, POLLOUT, 0};
    if (is_standard_error() && poll(&stderr_ready, 1, 0) == 1 && stderr_ready.revents == POLLOUT) {
        const WithoutWriteSignals quiet;
        [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line, size_bytes);
    }
}

void emit(const char* pattern, va_list arguments, bool once) {
    int saved_errno = errno;
    char line[kLineBytes];
    TextWriter writer(line, sizeof(line) - 1);  // one byte kept for the newline of a cut line
    writer.text("titantrace: ");
    int32_t rank = log_rank.load(std::memory_order_relaxed);
    if (rank >= 0) {
        writer.format("rank %d: ", rank);
    }
    writer.format_list(pattern, arguments);
    // Settings, paths and names come from outside.
    size_t size_bytes = make_printable(line, writer.size_bytes());
    if ((!once || first_time(line, size_bytes)) && within_rate()) {
        line[size_bytes++] = '\n';
        write_line(line, size_bytes);
    }
    errno = saved_errno;
}

}  // namespace

void note_standard_error() {
    struct stat status {};
    if (fstat(STDERR_FILENO, &status) == 0) {
        stderr_at_load = {status.st_dev, status.st_ino};
    }
}

void set_log_rank(int32_t rank) { log_rank.store(rank, std::memory_order_relaxed); }

void forget_logged() {
    window_start_ns.store(0, std::memory_order_relaxed);
    window_lines.store(0, std::memory_order_relaxed);
    for (auto& place : warned) {
        place.store(0, std::memory_order_relaxed);
    }
}

void log_line(const char* pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    emit(pattern, arguments, false);
    va_end(arguments);
}

void warn_once(const char* pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    emit(pattern, arguments, true);
    va_end(arguments);
}

}  // namespace titan::tracer
