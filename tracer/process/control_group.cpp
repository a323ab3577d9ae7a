#include "control_group.h"

#include <fcntl.h>
#include <string.h>

#include "base/process.h"
#include "base/text.h"

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

}  // namespace titan::tracer
