#include "base/process.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool read_process_stat(pid_t pid, ProcessStat& out) {
    char path[32];
    format_text(path, sizeof(path), "/proc/%d/stat", pid);
    char stat[1024];
    if (pid <= 0 || read_small_file(AT_FDCWD, path, stat, sizeof(stat)) == 0) {
        return false;
    }
    // "123 (any ) name) S 1 ...": the name is in the program's hand, so count fields from the last parenthesis.
    const char* field = strrchr(stat, ')');
    if (field == nullptr || field[1] != ' ') {
        return false;
    }
    constexpr int kStateField = 3;
    constexpr int kStartField = 22;
    field += 2;
    out.state = *field;
    for (int i = kStateField; i < kStartField && field != nullptr; ++i) {
        field = strchr(field, ' ');
        field = field == nullptr ? nullptr : field + 1;
    }
    return field != nullptr && parse_u64(field, strcspn(field, " "), out.start_ticks);
}

uint64_t process_start_ticks(pid_t pid) {
    ProcessStat stat{};
    return read_process_stat(pid, stat) && stat.state != 'Z' && stat.state != 'X' ? stat.start_ticks : 0;
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
