#include "base/fd.h"

#include <errno.h>

namespace titan {

size_t read_at(int fd, uint64_t offset_bytes, void* into, size_t size_bytes) {
    size_t done = 0;
    while (done < size_bytes) {
        const ssize_t got =
            pread(fd, static_cast<char*>(into) + done, size_bytes - done, static_cast<off_t>(offset_bytes + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        done += static_cast<size_t>(got);
    }
    return done;
}

}  // namespace titan
