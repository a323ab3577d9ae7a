#include "segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace simgpu {

namespace {

// Few cores carry many ranks: a little patience for a peer on another core, then sleep.
constexpr int kSpins = 64;
constexpr int kYields = 2;
constexpr long kSleepNs = 20'000'000;  // bounds how late a wait sees that it shall stop

// A segment has a name only until all members have come. One of a process that is not there may be a job that starts in
// another PID namespace: without its name its members would wait for each other in two halves, for ever.
constexpr time_t kStaleSeconds = 600;

void relax_processor() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) {
    const timespec timeout{0, kSleepNs};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void nap() {
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
}

size_t round_up(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

size_t slots_offset(int members) { return round_up(sizeof(Header) + sizeof(Member) * static_cast<size_t>(members)); }

size_t mailboxes_offset(int members) { return slots_offset(members) + static_cast<size_t>(members) * 2 * kSlotBytes; }

}  // namespace

void Bell::ring() {
    value.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&value), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool wait_on(Bell& bell, const std::function<bool()>& done, const Stop& stop) {
    for (int tries = 0;; ++tries) {
        const uint32_t seen = bell.value.load(std::memory_order_acquire);
        if (done()) {
            return true;
        }
        if (stop()) {
            return false;
        }
        if (tries < kSpins) {
            relax_processor();
        } else if (tries < kSpins + kYields) {
            sched_yield();
        } else {
            futex_wait(bell.value, seen);
        }
    }
}

size_t Segment::size_for(int members) {
    const auto n = static_cast<size_t>(members);
    return mailboxes_offset(members) + 2 * n * n * round_up(sizeof(Mailbox));
}

Member& Segment::member(int rank) {
    return *reinterpret_cast<Member*>(static_cast<char*>(base_) + sizeof(Header) +
                                      sizeof(Member) * static_cast<size_t>(rank));
}

unsigned char* Segment::slot(int rank, int phase) {
    return static_cast<unsigned char*>(base_) + slots_offset(members_) +
           (static_cast<size_t>(rank) * 2 + static_cast<size_t>(phase)) * kSlotBytes;
}

Mailbox& Segment::mailbox(int from, int to) {
    const auto index = static_cast<size_t>(from) * static_cast<size_t>(members_) + static_cast<size_t>(to);
    return *reinterpret_cast<Mailbox*>(static_cast<char*>(base_) + mailboxes_offset(members_) +
                                       index * round_up(sizeof(Mailbox)));
}

Mailbox& Segment::rma_mailbox(int from, int to) { return mailbox(from + members_, to); }

bool Segment::pass(Barrier& barrier, const Stop& stop) {
    const uint32_t generation = barrier.generation.value.load(std::memory_order_acquire);
    if (barrier.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(members_)) {
        barrier.arrived.store(0, std::memory_order_relaxed);
        barrier.generation.ring();
        return true;
    }
    return wait_on(
        barrier.generation, [&] { return barrier.generation.value.load(std::memory_order_acquire) != generation; },
        stop);
}

JoinResult Segment::join(const std::string& name, int members, int rank, int device, uint64_t host, const Stop& stop,
                         std::shared_ptr<Segment>* out) {
    const size_t bytes = size_for(members);
    int fd = -1;
    bool creator = false;
    while (fd < 0) {
        fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        creator = fd >= 0;
        if (!creator && errno == EEXIST) {
            fd = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
        }
        if (fd < 0 && errno != ENOENT) {
            return JoinResult::kSystemError;
        }
    }
    if (creator && ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
        close(fd);
        return JoinResult::kSystemError;
    }
    struct stat status;
    while (fstat(fd, &status) == 0 && status.st_size == 0) {  // its creator has not sized it yet
        if (stop()) {
            close(fd);
            return JoinResult::kStopped;
        }
        nap();
    }
    if (status.st_size != static_cast<off_t>(bytes)) {
        close(fd);
        return JoinResult::kWrongSize;
    }
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (base == MAP_FAILED) {
        return JoinResult::kSystemError;
    }
    std::shared_ptr<Segment> segment(new Segment(base, bytes, members));
    Header& header = segment->header();
    if (creator) {
        header.member_count = members;
        header.ready.store(1, std::memory_order_release);
    }
    Member& self = segment->member(rank);
    if (self.present.exchange(1) != 0) {
        return JoinResult::kRankTaken;
    }
    self.device = device;
    self.host = host;
    if (header.arrived.value.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(members)) {
        shm_unlink(name.c_str());
        syscall(SYS_futex, reinterpret_cast<uint32_t*>(&header.arrived.value), FUTEX_WAKE, INT_MAX, nullptr, nullptr,
                0);
    }
    const bool complete = wait_on(
        header.arrived,
        [&] { return header.arrived.value.load(std::memory_order_acquire) >= static_cast<uint32_t>(members); }, stop);
    if (!complete) {
        shm_unlink(name.c_str());
        return JoinResult::kStopped;
    }
    *out = std::move(segment);
    return JoinResult::kJoined;
}

Segment::~Segment() { munmap(base_, bytes_); }

std::string segment_prefix(int pid) {
    char text[64];
    std::snprintf(text, sizeof(text), "/simgpu-%u-%d-", getuid(), pid);
    return text;
}

void sweep_stale_segments() {
    char prefix[32];
    std::snprintf(prefix, sizeof(prefix), "simgpu-%u-", getuid());
    DIR* directory = opendir("/dev/shm");
    if (!directory) {
        return;
    }
    while (const dirent* entry = readdir(directory)) {
        if (std::strncmp(entry->d_name, prefix, std::strlen(prefix)) != 0) {
            continue;
        }
        const long pid = std::strtol(entry->d_name + std::strlen(prefix), nullptr, 10);
        struct stat status {};
        const bool old = fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                         time(nullptr) - status.st_mtime > kStaleSeconds;
        if (pid > 0 && old && kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) {
            shm_unlink((std::string("/") + entry->d_name).c_str());
        }
    }
    closedir(directory);
}

}  // namespace simgpu
