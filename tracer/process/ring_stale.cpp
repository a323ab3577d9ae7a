// Clearing away of rings that dead processes left behind: see remove_stale_rings in ring_file.h.
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/private_dir.h"
#include "base/process.h"
#include "base/text.h"
#include "job_file.h"
#include "log.h"
#include "ring_file.h"

namespace titan::tracer {
namespace {

constexpr size_t kMaxRings = 1024;
// At most a quarter of the file system, whatever the limits say: NCCL and data loaders need a container's 64 MiB of
// /dev/shm more.
constexpr uint64_t kShareOfFileSystem = 4;
constexpr uint64_t kMostDays = 36'500;
constexpr uint64_t kDayNs = 24ull * 3600 * 1'000'000'000;
constexpr uint64_t kToldTogetherSeconds = 60;

// The end of a process, as its ring shows it.
enum class End : uint8_t { kInOrder, kToldTo, kDeath };

struct StaleRing {
    char name[64];
    uint64_t last_life_ns;
    uint64_t bytes;
    uint64_t run;  // hash of its name
    int32_t attempt;
    bool is_dead;
    End end;
    bool has_dumped;
    bool superseded;  // from an earlier attempt of our run, or our own rank's
};

// The order in which rings go if there is no room for all: first those of attempts without a death, then those from the
// middle of a restart loop.
enum class Worth : uint8_t { kLeftover, kNoDeath, kMiddle, kFirstOrNewest };

struct StaleRings {
    StaleRing rings[kMaxRings];
    size_t count;
    uint64_t removed;  // removed rings that had something to tell
    uint64_t removed_bytes;
};

bool has_ending(const char* name, const char* ending) {
    size_t length = strlen(name);
    size_t ending_length = strlen(ending);
    return length > ending_length && same_text(name + length - ending_length, ending);
}

// "1234-5678.ring", "1234-5678-1.ring"
bool ring_name(const char* name, uint64_t& pid, uint64_t& start_ticks) {
    size_t pid_digits = strcspn(name, "-");
    if (!has_ending(name, ".ring") || strlen(name) >= sizeof(StaleRing::name) || name[pid_digits] != '-') {
        return false;
    }
    const char* start = name + pid_digits + 1;
    return parse_u64(name, pid_digits, pid) && pid <= INT32_MAX && parse_u64(start, strcspn(start, "-."), start_ticks);
}

uint64_t age_ns(uint64_t now_ns, uint64_t then_ns) { return now_ns > then_ns ? now_ns - then_ns : 0; }

End end_of(const format::RingHeader& header) {
    const bool told = header.end_ticks != 0 &&
                      header.heartbeat_ticks - header.end_ticks < kToldTogetherSeconds * header.ticks_per_second;
    const bool exited = header.state == format::ProcessState::kExited;
    return exited && header.exit_status_next <= 1 ? End::kInOrder : told ? End::kToldTo : End::kDeath;
}

// True if the process that wrote this ring is certainly gone. A process before a reboot, on a shared disk or with
// another container's pids counts as gone once it has been silent for long.
bool is_gone(const format::RingHeader& header, const Identity& identity, uint64_t silent_ns) {
    const bool comparable = strncmp(header.boot_id, identity.boot_id, sizeof(header.boot_id)) == 0 &&
                            header.pid_namespace == identity.pid_namespace;
    return comparable ? !process_alive(header.pid, header.pid_start_ticks) : silent_ns > kForeignRingAgeNs;
}

// Fills `ring`; false where the file is no ring, or nobody knows what it is.
bool judge(int dir_fd, const char* name, const Identity& identity, uint64_t now_ns, StaleRing& ring) {
    uint64_t pid = 0;
    uint64_t start_ticks = 0;
    struct stat status {};
    Fd file(ring_name(name, pid, start_ticks) ? openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                                              : -1);
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) {
        return false;
    }
    ring = {};
    copy_text(ring.name, sizeof(ring.name), name);
    ring.bytes = static_cast<uint64_t>(status.st_size);
    ring.last_life_ns = static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000;
    format::RingHeader header;
    if (read_at(file.get(), 0, &header, sizeof(header)) != sizeof(header) || header.magic != format::kRingMagic) {
        // Never finished. Its maker may be at it right now, or look alive to us by a reused pid: time decides.
        ring.is_dead = !process_alive(static_cast<pid_t>(pid), start_ticks) &&
                       age_ns(now_ns, ring.last_life_ns) > kForeignRingAgeNs;
        return ring.is_dead;
    }
    // Stores through a mapping do not move a tmpfs file's mtime; the anchor moves every second.
    if (header.last_anchor.realtime_ns > ring.last_life_ns && header.last_anchor.realtime_ns <= now_ns) {
        ring.last_life_ns = header.last_anchor.realtime_ns;
    }
    header.run[sizeof(header.run) - 1] = '\0';
    ring.run = fnv1a64(header.run, strlen(header.run));
    ring.attempt = header.attempt;
    ring.end = end_of(header);
    ring.has_dumped = header.dumps_written != 0;
    ring.superseded = strncmp(header.run, identity.run, sizeof(header.run)) == 0 &&
                      (header.attempt < identity.attempt ||
                       (header.attempt == identity.attempt && header.rank >= 0 && header.rank == identity.rank));
    ring.is_dead = is_gone(header, identity, age_ns(now_ns, ring.last_life_ns));
    return true;
}

Worth worth_of(const StaleRings& stale, const StaleRing& ring) {
    bool all_in_order = true;
    bool death = false;
    bool newest = true;
    bool death_before = false;
    for (size_t i = 0; i < stale.count; ++i) {
        const StaleRing& other = stale.rings[i];
        const bool died = other.is_dead && other.end == End::kDeath;
        if (other.run == ring.run && other.attempt == ring.attempt) {
            all_in_order = all_in_order && other.is_dead && other.end == End::kInOrder && !other.has_dumped;
            death = death || died;
        } else if (other.run == ring.run) {
            newest = newest && other.attempt < ring.attempt;
            death_before = death_before || (died && other.attempt < ring.attempt);
        }
    }
    return all_in_order                         ? Worth::kLeftover
           : newest || (death && !death_before) ? Worth::kFirstOrNewest
           : death                              ? Worth::kMiddle
                                                : Worth::kNoDeath;
}

void remove_ring(int dir_fd, StaleRings& stale, size_t index, bool tells) {
    const StaleRing& ring = stale.rings[index];
    // Ranks that start together may all try: only the one that removes the file counts it.
    if (unlinkat(dir_fd, ring.name, 0) == 0 && tells) {
        ++stale.removed;
        stale.removed_bytes += ring.bytes;
    }
    stale.rings[index] = stale.rings[--stale.count];
}

// Removes rings of jobs that ended well, but whose last process could not remove them.
void remove_leftovers(int dir_fd, StaleRings& stale) {
    bool leftover[kMaxRings];
    for (size_t i = 0; i < stale.count; ++i) {
        leftover[i] = worth_of(stale, stale.rings[i]) == Worth::kLeftover;
    }
    for (size_t i = stale.count; i-- > 0;) {
        if (leftover[i]) {
            remove_ring(dir_fd, stale, i, false);
        }
    }
}

void remove_old(int dir_fd, StaleRings& stale, uint64_t now_ns, uint64_t limit_ns) {
    for (size_t i = stale.count; i-- > 0;) {
        if (stale.rings[i].is_dead && age_ns(now_ns, stale.rings[i].last_life_ns) > limit_ns) {
            remove_ring(dir_fd, stale, i, true);
        }
    }
}

// The oldest goes of those that are worth least; false where there is none.
template <typename IsMeant>
bool remove_least(int dir_fd, StaleRings& stale, IsMeant is_meant) {
    size_t least = stale.count;
    Worth least_worth{};
    for (size_t i = 0; i < stale.count; ++i) {
        const StaleRing& ring = stale.rings[i];
        if (!ring.is_dead || !is_meant(ring)) {
            continue;
        }
        const Worth worth = worth_of(stale, ring);
        if (least == stale.count || worth < least_worth ||
            (worth == least_worth && ring.last_life_ns < stale.rings[least].last_life_ns)) {
            least = i;
            least_worth = worth;
        }
    }
    if (least == stale.count) {
        return false;
    }
    remove_ring(dir_fd, stale, least, true);
    return true;
}

void keep_below(uint64_t limit_bytes, int dir_fd, StaleRings& stale) {
    for (;;) {
        uint64_t total_bytes = 0;
        for (size_t i = 0; i < stale.count; ++i) {
            total_bytes += stale.rings[i].is_dead ? stale.rings[i].bytes : 0;
        }
        if (total_bytes <= limit_bytes || !remove_least(dir_fd, stale, [](const StaleRing&) { return true; })) {
            return;
        }
    }
}

uint64_t limit_bytes_of(int dir_fd, const Config& config) {
    const uint64_t limit_bytes = uint64_t{config.rings_mib} << 20;
    struct statvfs whole {};
    if (fstatvfs(dir_fd, &whole) != 0) {
        return limit_bytes;
    }
    const uint64_t share_bytes = whole.f_blocks * whole.f_frsize / kShareOfFileSystem;
    return limit_bytes < share_bytes ? limit_bytes : share_bytes;
}

void say_removed(const StaleRings& stale, const char* parent) {
    if (stale.removed != 0) {
        log_line(
            "removed %lu ring%s of processes that ended (%lu MiB) from %s: more than TITANTRACE_RINGS_MIB or a quarter "
            "of "
            "the file system, or older than TITANTRACE_RINGS_DAYS",
            stale.removed, stale.removed == 1 ? "" : "s", stale.removed_bytes >> 20, parent);
    }
}

// Calls use(rings, now) with the rings of the directory, and before that see_page(name, now) for its job segments.
template <typename SeePage, typename Use>
void with_rings(int dir_fd, const Identity& identity, SeePage see_page, Use use) {
    void* memory = mmap(nullptr, sizeof(StaleRings), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return;
    }
    auto& stale = *static_cast<StaleRings*>(memory);
    const uint64_t now_ns = realtime_now_ns();
    each_entry(dir_fd, [&](const char* name) {
        if (has_ending(name, ".job")) {
            see_page(name, now_ns);
        } else if (judge(dir_fd, name, identity, now_ns, stale.rings[stale.count])) {
            ++stale.count;
        }
        return stale.count < kMaxRings;
    });
    use(stale, now_ns);
    munmap(memory, sizeof(StaleRings));
}

}  // namespace

void remove_stale_rings(int dir_fd, const char* parent, const Config& config, const Identity& identity) {
    with_rings(
        dir_fd, identity, [&](const char* page, uint64_t now_ns) { remove_stale_job_segment(dir_fd, page, now_ns); },
        [&](StaleRings& stale, uint64_t now_ns) {
            remove_leftovers(dir_fd, stale);
            remove_old(dir_fd, stale, now_ns, (config.rings_days < kMostDays ? config.rings_days : kMostDays) * kDayNs);
            keep_below(limit_bytes_of(dir_fd, config), dir_fd, stale);
            say_removed(stale, parent);
        });
}

bool remove_superseded_ring(int dir_fd, const char* parent, const Identity& identity) {
    bool removed = false;
    with_rings(
        dir_fd, identity, [](const char*, uint64_t) {},
        [&](StaleRings& stale, uint64_t) {
            removed = remove_least(dir_fd, stale, [](const StaleRing& ring) { return ring.superseded; });
            say_removed(stale, parent);
        });
    return removed;
}

}  // namespace titan::tracer
