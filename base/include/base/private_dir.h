// Directories in places that others can write to (/dev/shm, /tmp): ours alone, or not used.
//
// A directory is only trusted through the descriptor that was checked, and files in it are reached with *at()
// calls, so a link planted meanwhile changes nothing. signal-safe; no allocation (readdir would).
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/fd.h"

namespace titan {

// An exclusive lock on a file, let go at the end of the scope: a mapping of the file keeps the open file
// alive, and with it the lock, so closing the descriptor would not do. Not valid where another holds the lock for
// longer than `patience_ms`: a debugger may have stopped that process, and the job must go on.
class LockedFile {
  public:
    LockedFile() = default;
    LockedFile(Fd file, int patience_ms);
    LockedFile(LockedFile&&) = default;
    LockedFile& operator=(LockedFile&&) = default;
    ~LockedFile();
    int get() const { return file_.get(); }
    bool valid() const { return file_.valid(); }
    bool is_held_by_another() const { return is_held_by_another_; }

  private:
    Fd file_;
    bool is_held_by_another_ = false;
};

inline constexpr const char* kPrivateDirPrefix = "titantrace-";

// "titantrace-1000"
struct PrivateDirName {
    char text[32];
};
PrivateDirName private_dir_name();  // the current user's
PrivateDirName private_dir_name(uid_t owner);

// Anyone may create names in /dev/shm and /tmp: only a directory of this user, which nobody else can enter, may be
// trusted.
inline bool is_private_dir(const struct stat& status, uid_t owner) {
    return S_ISDIR(status.st_mode) && status.st_uid == owner && (status.st_mode & 077) == 0;
}

// Opens `name` below `parent`, making it if needed. Refuses (errno ELOOP, ENOTDIR, EPERM) links, files,
// directories of other users and ones that others can enter.
Fd open_private_dir(int parent, const char* name);

// As above, for a directory that others may read: created with mode 0777 less the umask, and never a link. `made` says
// whether this call created it.
Fd open_plain_dir(int parent, const char* name, bool* made = nullptr);

// Makes every missing directory of an absolute path (0777 less the umask) and opens the last. Links are
// followed: the path is the user's own word.
Fd open_user_path(const char* path);

// Calls visit(name) for every entry but "." and "..", until it returns false. Safe when entries are removed
// meanwhile.
bool each_entry(int dir_fd, bool (*visit)(void* context, const char* name), void* context);

template <typename Visit>
bool each_entry(int dir_fd, Visit visit) {
    return each_entry(
        dir_fd, [](void* context, const char* name) { return (*static_cast<Visit*>(context))(name); }, &visit);
}

}  // namespace titan
