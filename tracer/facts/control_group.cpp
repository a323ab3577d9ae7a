#include "control_group.h"

#include <fcntl.h>
#include <string.h>

#include "base/process.h"
#include "base/text.h"
#include "rooted_path.h"

namespace titan::tracer {
namespace {

// Whether "cpu,memory" holds "memory".
bool holds(const char* names, size_t names_bytes, const char* name) {
    const size_t name_bytes = strlen(name);
    const char* const end = names + names_bytes;
    for (const char* at = names; at <= end;) {
        const auto* const comma = static_cast<const char*>(memchr(at, ',', static_cast<size_t>(end - at)));
        const char* const item_end = comma == nullptr ? end : comma;
        if (static_cast<size_t>(item_end - at) == name_bytes && memcmp(at, name, name_bytes) == 0) {
            return true;
        }
        at = item_end + 1;
    }
    return false;
}

}  // namespace

// Lines "ID:CONTROLLERS:PATH"; version 2 has no controllers. A group outside of our namespace, "/../b", is not to be
// seen from here.
bool find_group(const char* text, const char* controller, char (&path)[kGroupPathBytes]) {
    for (const char* line = text; *line != '\0';) {
        const char* const end = line + strcspn(line, "\n");
        const char* const names = line + strcspn(line, ":\n") + 1;
        const char* const colon = names > end ? end : names + strcspn(names, ":\n");
        if (colon < end && holds(names, static_cast<size_t>(colon - names), controller)) {
            const auto bytes = static_cast<size_t>(end - colon - 1);
            if (bytes == 0 || bytes >= kGroupPathBytes || colon[1] != '/') {
                return false;
            }
            memcpy(path, colon + 1, bytes);
            path[bytes] = '\0';
            return strstr(path, "/..") == nullptr;
        }
        line = *end == '\0' ? end : end + 1;
    }
    return false;
}

bool control_group(pid_t pid, char (&path)[kGroupPathBytes]) {
    char file[32];
    char text[kGroupPathBytes + 512];
    TextWriter name(file, sizeof(file));
    pid == 0 ? name.text("/proc/self/cgroup") : name.format("/proc/%d/cgroup", pid);
    return read_small_file(AT_FDCWD, file, text, sizeof(text)) != 0 && find_group(text, "", path);
}

namespace {

// The path of our group below a mount. In a container that shows itself as the mount's root, the path is that of the
// host and leads nowhere.
size_t read_group_file(const char* root, const char* mount, const char* group, const char* file, char* out,
                       size_t capacity_bytes) {
    char path[kGroupPathBytes + 64];
    format_text(path, sizeof(path), "%s%s/%s", mount, group, file);
    const size_t size = read_small_file(AT_FDCWD, RootedPath(root, path).text, out, capacity_bytes);
    format_text(path, sizeof(path), "%s/%s", mount, file);
    return size != 0 ? size : read_small_file(AT_FDCWD, RootedPath(root, path).text, out, capacity_bytes);
}

uint64_t number_at(const char* at) {
    uint64_t number = 0;
    return at != nullptr && parse_u64(at, strspn(at, "0123456789"), number) ? number : 0;
}

// Linux, admin-guide/cgroup-v2: memory.events.
bool read_version_2(const char* root, const char* groups, MemoryEvents& events) {
    char group[kGroupPathBytes];
    char text[512] = "";
    if (!find_group(groups, "", group) ||
        read_group_file(root, "/sys/fs/cgroup", group, "memory.events", text, sizeof(text)) == 0) {
        return false;
    }
    events = {true, number_at(proc_field(text, "\nhigh ")), number_at(proc_field(text, "\nmax ")),
              number_at(proc_field(text, "\noom ")), number_at(proc_field(text, "\noom_kill "))};
    return true;
}

// Linux, admin-guide/cgroup-v1/memory: memory.oom_control (its oom_kill: since 4.13), memory.failcnt.
bool read_version_1(const char* root, const char* groups, MemoryEvents& events) {
    constexpr const char* kMount = "/sys/fs/cgroup/memory";
    char group[kGroupPathBytes];
    char control[256] = "";
    char failures[64] = "";
    if (!find_group(groups, "memory", group) ||
        read_group_file(root, kMount, group, "memory.oom_control", control, sizeof(control)) == 0) {
        return false;
    }
    read_group_file(root, kMount, group, "memory.failcnt", failures, sizeof(failures));
    events = {true, 0, number_at(failures), 0, number_at(proc_field(control, "\noom_kill "))};
    return true;
}

}  // namespace

MemoryEvents read_memory_events(const char* root) {
    char groups[4096] = "";
    MemoryEvents events{};
    read_small_file(AT_FDCWD, RootedPath(root, "/proc/self/cgroup").text, groups, sizeof(groups));
    return read_version_2(root, groups, events) || read_version_1(root, groups, events) ? events : MemoryEvents{};
}

}  // namespace titan::tracer
