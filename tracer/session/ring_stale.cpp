// Clearing away of rings that dead processes left behind: see remove_stale_rings in ring_file.h.
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/private_dir.h"
#include "base/process.h"
#include "base/text.h"
#include "dump/job_file.h"
#include "ring_file.h"

namespace titan::tracer {
namespace {

constexpr size_t kMaxCandidates = 1024;
// What an earlier attempt of this very run left may take no more than this part of the file system: NCCL and data loaders
// need a container's 64 MiB of /dev/shm more.
constexpr uint64_t kSupersededShare = 4;

struct DeadRing {
    char name[64];
    uint64_t last_life_ns;
    uint64_t bytes;
    bool superseded;  // of an earlier attempt of our run, or our own rank's
};

struct DeadRings {
    DeadRing rings[kMaxCandidates];
    size_t count;
};

bool has_ending(const char* name, const char* ending) {
    size_t length = strlen(name);
    size_t ending_length = strlen(ending);
    return length > ending_length && same_text(name + length - ending_length, ending);
}

// "1234-5678.ring", "1234-5678-1.ring"
bool ring_name(const char* name, uint64_t& pid, uint64_t& start_ticks) {
    size_t pid_digits = strcspn(name, "-");
    if (!has_ending(name, ".ring") || strlen(name) >= sizeof(DeadRing::name) || name[pid_digits] != '-') {
        return false;
    }
    const char* start = name + pid_digits + 1;
    return parse_u64(name, pid_digits, pid) && pid <= INT32_MAX && parse_u64(start, strcspn(start, "-."), start_ticks);
}

uint64_t age_ns(uint64_t now_ns, uint64_t then_ns) { return now_ns > then_ns ? now_ns - then_ns : 0; }

// Fills `ring` and returns true when the process that wrote this file is gone for certain.
bool judge(int dir_fd, const char* name, const Identity& identity, uint64_t now_ns, DeadRing& ring) {
    uint64_t pid = 0;
    uint64_t start_ticks = 0;
    struct stat status {};
    Fd file(ring_name(name, pid, start_ticks) ? openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                                              : -1);
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) {
        return false;
    }
    copy_text(ring.name, sizeof(ring.name), name);
    ring.bytes = static_cast<uint64_t>(status.st_size);
    ring.superseded = false;
    ring.last_life_ns = static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000;
    format::RingHeader header;
    if (read_at(file.get(), 0, &header, sizeof(header)) != sizeof(header) || header.magic != format::kRingMagic) {
        // Never finished. Its maker may be at it right now, or look alive to us by a reused pid: time decides.
        return !process_alive(static_cast<pid_t>(pid), start_ticks) &&
               age_ns(now_ns, ring.last_life_ns) > kForeignRingAgeNs;
    }
    // Stores through a mapping do not move a tmpfs file's mtime; the anchor moves every second.
    if (header.last_anchor.realtime_ns > ring.last_life_ns && header.last_anchor.realtime_ns <= now_ns) {
        ring.last_life_ns = header.last_anchor.realtime_ns;
    }
    ring.superseded = strncmp(header.run, identity.run, sizeof(header.run)) == 0 &&
                      (header.attempt < identity.attempt ||
                       (header.attempt == identity.attempt && header.rank >= 0 && header.rank == identity.rank));
    if (strncmp(header.boot_id, identity.boot_id, sizeof(header.boot_id)) != 0) {
        return age_ns(now_ns, ring.last_life_ns) > kForeignRingAgeNs;  // a node before its reboot, or a shared disk
    }
    if (header.pid_namespace != identity.pid_namespace) {
        return age_ns(now_ns, ring.last_life_ns) > kForeignRingAgeNs;
    }
    return !process_alive(header.pid, header.pid_start_ticks);
}

void remove_ring(int dir_fd, DeadRings& dead, size_t index) {
    unlinkat(dir_fd, dead.rings[index].name, 0);
    dead.rings[index] = dead.rings[--dead.count];
}

bool any(const DeadRing&) { return true; }
bool superseded(const DeadRing& ring) { return ring.superseded; }

// The oldest of them goes; false where there is none.
bool remove_oldest(int dir_fd, DeadRings& dead, bool (*is_meant)(const DeadRing& ring)) {
    size_t oldest = dead.count;
    for (size_t i = 0; i < dead.count; ++i) {
        if (is_meant(dead.rings[i]) &&
            (oldest == dead.count || dead.rings[i].last_life_ns < dead.rings[oldest].last_life_ns)) {
            oldest = i;
        }
    }
    if (oldest == dead.count) {
        return false;
    }
    remove_ring(dir_fd, dead, oldest);
    return true;
}

void keep_below(uint64_t limit_bytes, int dir_fd, DeadRings& dead, bool (*is_meant)(const DeadRing& ring)) {
    for (;;) {
        uint64_t total_bytes = 0;
        for (size_t i = 0; i < dead.count; ++i) {
            total_bytes += is_meant(dead.rings[i]) ? dead.rings[i].bytes : 0;
        }
        if (total_bytes <= limit_bytes || !remove_oldest(dir_fd, dead, is_meant)) {
            return;
        }
    }
}

// Calls use(rings, now) with the dead rings of the directory, and before that see_page(name, now) for its job segments.
template <typename SeePage, typename Use>
void with_dead_rings(int dir_fd, const Identity& identity, SeePage see_page, Use use) {
    void* memory = mmap(nullptr, sizeof(DeadRings), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return;
    }
    auto& dead = *static_cast<DeadRings*>(memory);
    const uint64_t now_ns = realtime_now_ns();
    each_entry(dir_fd, [&](const char* name) {
        if (has_ending(name, ".job")) {
            see_page(name, now_ns);
        } else if (judge(dir_fd, name, identity, now_ns, dead.rings[dead.count])) {
            ++dead.count;
        }
        return dead.count < kMaxCandidates;
    });
    use(dead, now_ns);
    munmap(memory, sizeof(DeadRings));
}

}  // namespace

void remove_stale_rings(int dir_fd, const Identity& identity) {
    with_dead_rings(
        dir_fd, identity, [&](const char* page, uint64_t now_ns) { remove_stale_job_segment(dir_fd, page, now_ns); },
        [&](DeadRings& dead, uint64_t now_ns) {
            for (size_t i = 0; i < dead.count;) {
                if (age_ns(now_ns, dead.rings[i].last_life_ns) > kStaleRingAgeNs) {
                    remove_ring(dir_fd, dead, i);
                } else {
                    ++i;
                }
            }
            keep_below(kDeadRingsLimitBytes, dir_fd, dead, any);
            struct statvfs whole {};
            if (fstatvfs(dir_fd, &whole) == 0) {
                keep_below(whole.f_blocks * whole.f_frsize / kSupersededShare, dir_fd, dead, superseded);
            }
        });
}

bool remove_superseded_ring(int dir_fd, const Identity& identity) {
    bool removed = false;
    with_dead_rings(
        dir_fd, identity, [](const char*, uint64_t) {},
        [&](DeadRings& dead, uint64_t) { removed = remove_oldest(dir_fd, dead, superseded); });
    return removed;
}

}  // namespace titan::tracer
