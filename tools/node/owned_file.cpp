#include "node/owned_file.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "base/private_dir.h"
#include "node/as_user.h"

namespace titan::tools {
namespace {

std::string because(int error_number) { return std::strerror(error_number); }

}  // namespace

Result<OwnedFile> OwnedFile::open(const PrivateDir& directory, const std::string& name, For purpose) {
    const AsUser as_owner(directory.owner);
    const Fd dir(::open(directory.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!dir.valid() || ::fstat(dir.get(), &status) != 0) {
        return Error(because(errno)).within(directory.path);
    }
    if (!is_private_dir(status, directory.owner)) {
        return Error(directory.path + ": not a private directory of user " + std::to_string(directory.owner));
    }
    if (name.empty() || name.find('/') != std::string::npos) {
        return Error("no file name");
    }
    const int access = purpose == For::kAsking ? O_RDWR : O_RDONLY;
    const int flags = access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    Fd file(::openat(dir.get(), name.c_str(), flags | O_NOATIME));
    if (!file.valid() && errno == EPERM) {
        file = Fd(::openat(dir.get(), name.c_str(), flags));
    }
    const std::string path = directory.path + "/" + name;
    if (!file.valid()) {
        return Error(errno == ELOOP ? "it is a link" : because(errno)).within(path);
    }
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != directory.owner ||
        status.st_nlink != 1) {
        return Error(path + ": not a file of user " + std::to_string(directory.owner) + " alone");
    }
    return OwnedFile(std::move(file), static_cast<uint64_t>(status.st_size));
}

size_t OwnedFile::read_at(uint64_t offset_bytes, void* into, size_t size_bytes) const {
    return titan::read_at(file_.get(), offset_bytes, into, size_bytes);
}

bool OwnedFile::write_at(uint64_t offset_bytes, const void* from, size_t size_bytes) const {
    return ::pwrite(file_.get(), from, size_bytes, static_cast<off_t>(offset_bytes)) ==
           static_cast<ssize_t>(size_bytes);
}

// The kernel looks the word up by file and offset; we never touch the mapping, so it does not matter if the file is
// cut.
bool OwnedFile::wake_at(uint64_t offset_bytes) const {
    // Maps from the beginning of the file: an offset must be a multiple of this machine's page size, which varies.
    const size_t bytes = offset_bytes + sizeof(uint32_t);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    char* const word = static_cast<char*>(memory) + offset_bytes;
    const bool woken = ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0) >= 0;
    ::munmap(memory, bytes);
    return woken;
}

}  // namespace titan::tools
