#include "stack_room.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/process.h"
#include "base/text.h"

namespace titan::tracer {
namespace {

// A frame of a signal with all registers of the widest processors takes 12 KiB, and our handler as much.
constexpr uint64_t kHandlerBytes = 64 << 10;

}  // namespace

bool main_stack_may_grow() {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return true;
    }
    char text[128];
    uint64_t pages = 0;
    read_small_file(AT_FDCWD, "/proc/self/statm", text, sizeof(text));
    if (!parse_u64(text, strspn(text, "0123456789"), pages)) {
        return false;
    }
    const uint64_t used_bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return used_bytes < limit.rlim_cur && limit.rlim_cur - used_bytes >= kHandlerBytes;
}

}  // namespace titan::tracer
