#include "control_group.h"

#include <fcntl.h>
#include <string.h>

#include "base/process.h"
#include "base/text.h"

namespace titan::tracer {

bool control_group(pid_t pid, char (&path)[kGroupPathBytes]) {
    char file[32];
    char text[kGroupPathBytes + 512];
    TextWriter name(file, sizeof(file));
    pid == 0 ? name.text("/proc/self/cgroup") : name.format("/proc/%d/cgroup", pid);
    read_small_file(AT_FDCWD, file, text, sizeof(text));
    // The one of version 2: "0::/a/b". One outside of our namespace, "/../b", is not to be seen from here.
    char* const group = starts_with(text, "0::/") ? text + 3 : strstr(text, "\n0::/");
    if (group == nullptr) {
        return false;
    }
    char* const begin = group + (*group == '\n' ? 4 : 0);
    begin[strcspn(begin, "\n")] = '\0';
    if (strstr(begin, "/..") != nullptr || strlen(begin) >= kGroupPathBytes) {
        return false;
    }
    copy_text(path, kGroupPathBytes, begin);
    return true;
}

}  // namespace titan::tracer
