#include "memory_events.h"

#include <fcntl.h>
#include <string.h>

#include "base/process.h"
#include "base/text.h"
#include "control_group.h"
#include "rooted_path.h"

namespace titan::tracer {
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
