#include "descriptor_room.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

namespace titan::tracer {
namespace {

constexpr int kSpares = 6;
constexpr rlim_t kLowestLimit = 256;
// Programs count on getting the lowest free number, after close(0) above all: spares lie out of their way.
constexpr int kFirstSpare = 200;

struct Spares {
    const RingFile* ring_file;
    dev_t device;
    ino_t inode;
    int files[kSpares] = {-1, -1, -1, -1, -1, -1};
};
constinit Spares spares{};

// The number may be another file's by now.
bool is_ours(int file) {
    struct stat status {};
    return file >= 0 && fstat(file, &status) == 0 && status.st_dev == spares.device && status.st_ino == spares.inode;
}

void take_spares() {
    const Fd ring(open(spares.ring_file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (!ring.valid() || fstat(ring.get(), &status) != 0) {
        return;
    }
    spares.device = status.st_dev;
    spares.inode = status.st_ino;
    for (int& file : spares.files) {
        file = fcntl(ring.get(), F_DUPFD_CLOEXEC, kFirstSpare);
    }
}

void give_spares_up() {
    for (int& file : spares.files) {
        if (is_ours(file)) {
            close(file);
        }
        file = -1;
    }
}

}  // namespace

void keep_spare_descriptors(const RingFile& ring_file) {
    spares = Spares{};
    rlimit limit{};
    if (ring_file.persistent && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= kLowestLimit) {
        spares.ring_file = &ring_file;
        take_spares();
    }
}

DescriptorRoom::DescriptorRoom() {
    if (spares.ring_file != nullptr) {
        give_spares_up();
    }
}

DescriptorRoom::~DescriptorRoom() {
    if (spares.ring_file != nullptr) {
        take_spares();
    }
}

}  // namespace titan::tracer
