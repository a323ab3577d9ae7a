#include "job_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

#include "base/text.h"
#include "ring_file.h"

namespace titan::tracer {
namespace {

using format::JobSegment;
using format::kJobMagic;

constexpr uint64_t kStaleJobNs = 24ull * 3600 * 1'000'000'000;
constexpr int kTries = 8;
// A hundred ranks that start together on a node without a processor to spare wait for each other.
constexpr int kPatienceMs = 10'000;

JobSegment* map_segment(int file) {
    void* const memory = mmap(nullptr, sizeof(JobSegment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<JobSegment*>(memory);
}

// Nobody has a file without bytes mapped, and it is locked: all that happens to it happens here.
JobSegment* make_segment(int file) {
    if (!may_have_bytes(sizeof(JobSegment)) || posix_fallocate(file, 0, sizeof(JobSegment)) != 0) {
        return nullptr;
    }
    JobSegment* const segment = map_segment(file);
    if (segment != nullptr) {
        segment->bytes = sizeof(JobSegment);
        segment->magic.store(kJobMagic, std::memory_order_release);
    }
    return segment;
}

JobSegment* map_sound_segment(int file, off_t file_bytes) {
    JobSegment* const segment = file_bytes == static_cast<off_t>(sizeof(JobSegment)) ? map_segment(file) : nullptr;
    if (segment != nullptr &&
        (segment->magic.load(std::memory_order_acquire) != kJobMagic || segment->bytes != sizeof(JobSegment))) {
        munmap(segment, sizeof(JobSegment));
        return nullptr;
    }
    return segment;
}

}  // namespace

LockedFile open_job_file(int dir, const char* name, bool create, int patience_ms) {
    for (int attempt = 0; attempt < kTries; ++attempt) {
        LockedFile file(
            Fd(openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (create ? O_CREAT : 0), 0600)),
            patience_ms);
        if (file.is_held_by_another()) {
            return file;
        }
        struct stat opened {};
        struct stat named {};
        if (!file.valid() || fstat(file.get(), &opened) != 0 || !S_ISREG(opened.st_mode) ||
            opened.st_uid != geteuid()) {
            break;
        }
        if (fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == opened.st_ino) {
            return file;
        }
    }
    return LockedFile();
}

JobSegment* open_job_segment(const char* parent, bool create, JobPlace& place, LockedFile& lock,
                             bool (*not_ours)(const JobSegment& segment, const Identity& identity),
                             const Identity& identity) {
    Fd base(open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const PrivateDirName private_name = private_dir_name();
    Fd dir = base.valid() ? open_private_dir(base.get(), private_name.text) : Fd();
    format_text(place.directory, sizeof(place.directory), "%s/%s", parent, private_name.text);
    for (int attempt = 0; dir.valid() && attempt < kTries; ++attempt) {
        LockedFile file = open_job_file(dir.get(), place.name, create, kPatienceMs);
        struct stat status {};
        if (!file.valid() || fstat(file.get(), &status) != 0) {
            lock = std::move(file);
            return nullptr;
        }
        const bool empty = status.st_size == 0;
        JobSegment* segment =
            empty && create ? make_segment(file.get()) : map_sound_segment(file.get(), status.st_size);
        if (segment != nullptr && !not_ours(*segment, identity)) {
            place.inode = status.st_ino;
            lock = std::move(file);
            return segment;
        }
        if (segment != nullptr) {
            munmap(segment, sizeof(JobSegment));
        }
        if (!create) {
            return nullptr;
        }
        unlinkat(dir.get(), place.name, 0);
        if (empty) {
            return nullptr;  // no room for it here
        }
    }
    return nullptr;
}

void remove_stale_job_segment(int dir_fd, const char* name, uint64_t now_ns) {
    Fd file(openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    constexpr size_t kHeadBytes = offsetof(JobSegment, requests);
    alignas(JobSegment) char head[kHeadBytes];
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        read_at(file.get(), 0, head, sizeof(head)) != sizeof(head)) {
        return;
    }
    uint64_t magic = 0;
    uint64_t last_life_ns = 0;
    memcpy(&magic, head + offsetof(JobSegment, magic), sizeof(magic));
    memcpy(&last_life_ns, head + offsetof(JobSegment, last_life_realtime_ns), sizeof(last_life_ns));
    if (magic == kJobMagic && now_ns > last_life_ns && now_ns - last_life_ns > kStaleJobNs) {
        unlinkat(dir_fd, name, 0);
    }
}

}  // namespace titan::tracer
