#include "base/private_dir.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/text.h"

namespace titan {
namespace {

constexpr int kOpenDir = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

Fd open_or_make(int parent, const char* name, mode_t mode, bool* made = nullptr) {
    // Mostly it is there already, and opening it changes nothing: a file server can answer thousands of those.
    Fd existing(openat(parent, name, kOpenDir | O_NOFOLLOW));
    if (existing.valid() || errno != ENOENT) {
        return existing;
    }
    const bool is_new = mkdirat(parent, name, mode) == 0;
    if (made != nullptr) {
        *made = is_new;
    }
    return is_new || errno == EEXIST ? Fd(openat(parent, name, kOpenDir | O_NOFOLLOW)) : Fd();
}

struct KernelDirent {
    uint64_t inode;
    int64_t offset;
    unsigned short record_bytes;
    unsigned char type;
    __extension__ char name[];
};

}  // namespace

LockedFile::LockedFile(Fd file, int patience_ms) {
    constexpr int kPauseMs = 5;
    for (int waited_ms = 0; file.valid() && waited_ms < patience_ms; waited_ms += kPauseMs) {
        if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
            file_ = std::move(file);
            return;
        }
        const timespec pause{.tv_sec = 0, .tv_nsec = kPauseMs * 1'000'000L};
        nanosleep(&pause, nullptr);
    }
    is_held_by_another_ = file.valid();
}

LockedFile::~LockedFile() {
    if (file_.valid()) {
        flock(file_.get(), LOCK_UN);
    }
}

PrivateDirName private_dir_name(uid_t owner) {
    PrivateDirName name{};
    format_text(name.text, sizeof(name.text), "%s%u", kPrivateDirPrefix, owner);
    return name;
}

PrivateDirName private_dir_name() { return private_dir_name(geteuid()); }

Fd open_private_dir(int parent, const char* name) {
    Fd dir = open_or_make(parent, name, 0700);
    struct stat status {};
    if (dir.valid() && (fstat(dir.get(), &status) != 0 || !is_private_dir(status, geteuid()))) {
        dir.close_now();
        errno = EPERM;
    }
    return dir;
}

Fd open_plain_dir(int parent, const char* name, bool* made) { return open_or_make(parent, name, 0777, made); }

Fd open_user_path(const char* path) {
    char prefix[PATH_MAX];
    if (!copy_text(prefix, sizeof(prefix), path)) {
        errno = ENAMETOOLONG;
        return Fd();
    }
    // Mostly it is there already: one call, and no mkdir on parents that a file server guards.
    Fd whole(open(prefix, kOpenDir));
    if (whole.valid() || errno != ENOENT) {
        return whole;
    }
    for (char* slash = strchr(prefix + 1, '/'); slash != nullptr; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(prefix, 0777) != 0 && errno != EEXIST && access(prefix, F_OK) != 0) {
            return Fd();
        }
        *slash = '/';
    }
    if (mkdir(prefix, 0777) != 0 && errno != EEXIST) {
        return Fd();
    }
    return Fd(open(prefix, kOpenDir));
}

bool each_entry(int dir_fd, bool (*visit)(void* context, const char* name), void* context) {
    if (lseek(dir_fd, 0, SEEK_SET) != 0) {
        return false;
    }
    alignas(KernelDirent) char entries[4096];
    for (;;) {
        long got = syscall(SYS_getdents64, dir_fd, entries, sizeof(entries));
        if (got <= 0) {
            return got == 0;
        }
        for (long at = 0; at < got;) {
            const auto* entry = reinterpret_cast<const KernelDirent*>(entries + at);
            at += entry->record_bytes;
            if (!same_text(entry->name, ".") && !same_text(entry->name, "..") && !visit(context, entry->name)) {
                return true;
            }
        }
    }
}

}  // namespace titan
