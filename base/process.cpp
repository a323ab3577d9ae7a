#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "base/text.h"

namespace titan {

size_t read_small_file(int dir_fd, const char* path, char* out, size_t capacity_bytes) {
    out[0] = '\0';
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return 0;
    }
    size_t size_bytes = 0;
    while (size_bytes + 1 < capacity_bytes) {
        ssize_t got = read(fd, out + size_bytes, capacity_bytes - 1 - size_bytes);
        if (got <= 0) {
            break;
        }
        size_bytes += static_cast<size_t>(got);
    }
    close(fd);
    while (size_bytes != 0 && out[size_bytes - 1] == '\n') {
        --size_bytes;
    }
    out[size_bytes] = '\0';
    return size_bytes;
}

namespace {

// Parses "boottime SECONDS NANOSECONDS". Negative seconds wrap around, and the later difference wraps back.
uint64_t offset_ticks(const char* text) {
    const char* seconds = proc_field(text, "\nboottime");
    if (seconds == nullptr) {
        return 0;
    }
    const bool negative = *seconds == '-';
    seconds += negative ? 1 : 0;
    const size_t digits = strcspn(seconds, " ");
    const char* nanoseconds = seconds + digits + strspn(seconds + digits, " ");
    uint64_t whole = 0;
    uint64_t part = 0;
    if (!parse_u64(seconds, digits, whole) || !parse_u64(nanoseconds, strcspn(nanoseconds, "\n"), part)) {
        return 0;
    }
    const auto per_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
    return (negative ? -whole : whole) * per_second + part * per_second / 1'000'000'000;
}

constinit std::atomic<uint64_t> known{0};
constinit std::atomic<pid_t> known_for{0};

// The clock ticks that the reader's time namespace adds to times since boot. Only a process with a single thread can
// enter another namespace, so the cached value stays valid for a process with more threads.
uint64_t shown_later_ticks() {
    const pid_t self = getpid();
    if (known_for.load(std::memory_order_acquire) == self) {
        return known.load(std::memory_order_relaxed);
    }
    struct stat own {};
    struct stat of_children {};
    char text[256];
    uint64_t ticks = 0;
    // The file tells what children will have; that is ours where both are one namespace.
    if (stat("/proc/self/ns/time", &own) == 0 && stat("/proc/self/ns/time_for_children", &of_children) == 0 &&
        own.st_ino == of_children.st_ino &&
        read_small_file(AT_FDCWD, "/proc/self/timens_offsets", text, sizeof(text)) != 0) {
        ticks = offset_ticks(text);
    }
    known.store(ticks, std::memory_order_relaxed);
    known_for.store(self, std::memory_order_release);
    return ticks;
}

}  // namespace

bool read_process_stat(pid_t pid, ProcessStat& out) {
    char path[32];
    // /proc may be that of another pid namespace, where our number is someone else's.
    if (pid == getpid()) {
        copy_text(path, sizeof(path), "/proc/self/stat");
    } else {
        format_text(path, sizeof(path), "/proc/%d/stat", pid);
    }
    char stat[1024];
    if (pid <= 0 || read_small_file(AT_FDCWD, path, stat, sizeof(stat)) == 0) {
        return false;
    }
    // "123 (any ) name) S 1 ...": the name is in the program's hand, so count fields from the last parenthesis.
    const char* field = strrchr(stat, ')');
    if (field == nullptr || field[1] != ' ') {
        return false;
    }
    const char* const name = strchr(stat, '(');
    copy_text(out.name, sizeof(out.name), "");
    if (name != nullptr && name < field) {
        TextWriter(out.name, sizeof(out.name)).text(name + 1, static_cast<size_t>(field - name - 1));
    }
    // Numbers of fields as proc(5) counts them.
    constexpr int kState = 3, kParent = 4, kThreads = 20, kStart = 22, kExitCode = 52;
    field += 2;
    out.state = *field;
    out.parent = 0;
    out.start_ticks = 0;
    out.wait_status = 0;
    out.threads = 0;
    bool has_start = false;
    for (int number = kState + 1; number <= kExitCode; ++number) {
        field = strchr(field, ' ');
        if (field == nullptr) {
            break;
        }
        ++field;
        uint64_t value = 0;
        const bool is_number = parse_u64(field, strcspn(field, " "), value);
        if (number == kParent && is_number) {
            out.parent = static_cast<pid_t>(value);
        } else if (number == kThreads && is_number) {
            out.threads = static_cast<uint32_t>(value);
        } else if (number == kStart) {
            has_start = is_number;
            out.start_ticks = value - shown_later_ticks();
        } else if (number == kExitCode && is_number) {
            out.wait_status = static_cast<int32_t>(value);
        }
    }
    return has_start;
}

int open_proc(pid_t pid, const char* what) {
    char path[64];
    if (pid == getpid()) {
        format_text(path, sizeof(path), "/proc/thread-self/%s", what);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 || errno != ENOENT) {
            return fd;
        }
        format_text(path, sizeof(path), "/proc/self/%s", what);  // kernels before 3.17
    } else {
        format_text(path, sizeof(path), "/proc/%d/%s", pid, what);
    }
    return open(path, O_RDONLY | O_CLOEXEC);
}

uint64_t process_start_ticks(pid_t pid) {
    ProcessStat stat{};
    return read_process_stat(pid, stat) && !is_over(stat) ? stat.start_ticks : 0;
}

uint64_t pid_namespace_inode() {
    struct stat status {};
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

bool read_process_user(pid_t pid, uid_t& user) {
    char path[32];
    format_text(path, sizeof(path), "/proc/%d/status", pid);
    char status[4096];
    read_small_file(AT_FDCWD, path, status, sizeof(status));
    const char* real = proc_field(status, "\nUid:");
    if (real == nullptr) {
        return false;
    }
    const char* const effective = real + strcspn(real, " \t");
    const char* const digits = effective + strspn(effective, " \t");
    uint64_t number = 0;
    const bool known = parse_u64(digits, strspn(digits, "0123456789"), number);
    user = static_cast<uid_t>(number);
    return known;
}

BootId read_boot_id() {
    BootId id{};
    read_small_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", id.text, sizeof(id.text));
    return id;
}

const char* proc_field(const char* text, const char* key) {
    const char* at = strstr(text, key);
    if (at == nullptr) {
        return nullptr;
    }
    at += strlen(key);
    return at + strspn(at, " \t");
}

}  // namespace titan
