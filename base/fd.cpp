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

bool write_all(int fd, const void* bytes, size_t size_bytes) {
    const char* next = static_cast<const char*>(bytes);
    while (size_bytes != 0) {
        const ssize_t written = write(fd, next, size_bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return false;
        }
        next += written;
        size_bytes -= static_cast<size_t>(written);
    }
    return true;
}

}  // namespace titan
