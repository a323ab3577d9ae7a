#include "base/rename_new.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

namespace titan {
namespace {

// NFS sends a request again if its answer got lost, and then hears that the name is taken: by this very file.
bool is_linked_twice(int dir, const char* name) {
    struct stat status {};
    return fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_nlink == 2;
}

}  // namespace

// Not every file system can rename without replacing (NFS), nor link (some parallel and FUSE ones); all can create
// exclusively, and an empty file that is replaced at once is the last resort.
bool rename_new(int dir, const char* from, const char* to) {
    if (syscall(SYS_renameat2, dir, from, dir, to, RENAME_NOREPLACE) == 0) {
        return true;
    }
    if (errno == EEXIST) {
        return false;
    }
    const bool linked = linkat(dir, from, dir, to, 0) == 0;
    const int error = errno;
    if (linked || (error == EEXIST && is_linked_twice(dir, from))) {
        unlinkat(dir, from, 0);
        return true;
    }
    if (error == EEXIST) {
        errno = error;
        return false;
    }
    const Fd claimed(openat(dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    return claimed.valid() && renameat(dir, from, dir, to) == 0;
}

}  // namespace titan
