#include "ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <atomic>

#include "clock.h"
#include "hot/call_sites.h"
#include "log.h"
#include "text.h"

namespace titan::tracer {
namespace {

using format::RegionKind;

constexpr uint64_t kPage_bytes = 4096;
constexpr uint32_t kCommunicatorRows = 1024;
constexpr uint32_t kThreadRows = 512;
constexpr uint32_t kStringRows = 8192;
constexpr uint64_t kStringHeap_bytes = 512 << 10;
// Far more launches than a device queues: a row is not reused while its launch is under way.
constexpr uint32_t kLaunchRows = 16384;
constexpr uint32_t kChannelSlots = 2048;
constexpr uint64_t kP2pHeap_bytes = 1 << 20;
constexpr uint32_t kMinSlots = 256;
// NCCL and data loaders need /dev/shm more than we do, and containers give it 64 MiB: a ring never takes more than this
// part of what is free.
constexpr uint64_t kShareOfFree = 16;
constexpr int kMaxNameClashes = 16;

struct RingSizes {
    uint32_t collectives;
    uint32_t cuda_calls;
    uint32_t markers;
    uint32_t stream_work;
    bool operator==(const RingSizes&) const = default;
    bool halve() {
        bool smaller = false;
        for (uint32_t* slots : {&collectives, &cuda_calls, &markers, &stream_work}) {
            if (*slots > kMinSlots) {
                *slots /= 2;
                smaller = true;
            }
        }
        return smaller;
    }
};

RingSizes sizes_of(const Config& config) {
    return {config.collectives, config.cuda_calls, config.markers, config.stream_work};
}

struct Layout {
    format::RegionDescriptor regions[format::kMaxRegions];
    uint32_t count;
    uint64_t bytes;
};

Layout lay_out(const RingSizes& sizes, const Config& config) {
    const struct {
        RegionKind kind;
        uint32_t stride_bytes;
        uint64_t count;
    } rows[] = {
        {RegionKind::kCollectives, sizeof(format::CollectiveEntry), sizes.collectives},
        {RegionKind::kCudaCalls, sizeof(format::CudaCallEntry), sizes.cuda_calls},
        {RegionKind::kMarkers, sizeof(format::MarkerEntry), sizes.markers},
        {RegionKind::kCommunicators, sizeof(format::CommunicatorRecord), kCommunicatorRows},
        {RegionKind::kThreads, sizeof(format::ThreadRecord), kThreadRows},
        {RegionKind::kStringIndex, sizeof(format::StringRecord), kStringRows},
        {RegionKind::kStringHeap, 1, kStringHeap_bytes},
        {RegionKind::kP2pCounters, 1, kP2pHeap_bytes},
        {RegionKind::kStreamWork, sizeof(format::StreamWorkEntry), sizes.stream_work},
        {RegionKind::kLaunchMarks, sizeof(format::LaunchMarks), kLaunchRows},
        {RegionKind::kChannels, sizeof(format::ChannelEntry), kChannelSlots},
        {RegionKind::kCallSites, 1, config.stacks.call_sites != 0 ? CallSites::region_bytes() : 0},
    };
    Layout layout{};
    uint64_t offset_bytes = format::kHeaderBytes;
    for (const auto& row : rows) {
        if (row.count == 0) {
            continue;
        }
        layout.regions[layout.count++] = {row.kind, row.stride_bytes, offset_bytes, row.count, 0};
        offset_bytes += (row.count * row.stride_bytes + kPage_bytes - 1) / kPage_bytes * kPage_bytes;
    }
    layout.bytes = offset_bytes;
    return layout;
}

// posix_fallocate past RLIMIT_FSIZE would end the job with SIGXFSZ.
bool room_for(int dir_fd, uint64_t bytes) {
    rlimit limit{};
    struct statvfs free_space {};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
        return false;
    }
    return fstatvfs(dir_fd, &free_space) != 0 || free_space.f_bavail * free_space.f_frsize / kShareOfFree >= bytes;
}

void fill_header(format::RingHeader& header, const Layout& layout, const Config& config, const Identity& identity) {
    header.major = format::kRingMajor;
    header.minor = format::kRingMinor;
    header.endian_tag = format::kEndianTag;
    header.header_bytes = format::kHeaderBytes;
    header.region_count = layout.count;
    header.file_bytes = layout.bytes;
    copy_text(header.writer, sizeof(header.writer), "titantrace " TITAN_VERSION);
    header.pid = identity.pid;
    header.uid = identity.uid;
    header.pid_start_ticks = identity.pid_start_ticks;
    header.pid_namespace = identity.pid_namespace;
    header.rank = identity.rank;
    header.world_size = identity.world_size;
    header.local_rank = identity.local_rank;
    header.attempt = identity.attempt;
    copy_text(header.host, sizeof(header.host), identity.host);
    copy_text(header.boot_id, sizeof(header.boot_id), identity.boot_id);
    copy_text(header.run, sizeof(header.run), identity.run);
    copy_text(header.executable, sizeof(header.executable), identity.executable);
    header.state = format::ProcessState::kStarting;
    header.step = format::kNoStep;
    header.timeout_ns = config.timeout_ns;
    header.dumps_kept = config.keep;
    if (!copy_text(header.dump_directory, sizeof(header.dump_directory), config.dir)) {
        header.dump_directory[0] = '\0';
    }
    for (uint32_t i = 0; i < layout.count; ++i) {
        header.regions[i] = layout.regions[i];
    }
    header.clock_source = clock_source();
    header.ticks_per_second = ticks_per_second();
    write_anchor(header.first_anchor);
    write_anchor(header.last_anchor);
    header.heartbeat_ticks = now_ticks();
    // Whoever sees the magic sees all of the above; analyzers look into rings while they are being made.
    std::atomic_ref(header.magic).store(format::kRingMagic, std::memory_order_release);
}

// A file of our name is left from before an exec or a reused pid, or belongs to a container that shares the directory
// and whose pids look like ours: only the former may go.
bool leftover(int dir_fd, const char* name, const Identity& identity) {
    Fd file(openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    format::RingHeader header;
    struct stat status {};
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return true;  // a link, a fifo: not something that a tracer made
    }
    return pread(file.get(), &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
           header.magic != format::kRingMagic || header.pid_namespace == identity.pid_namespace;
}

Fd create_file(int dir_fd, const Identity& identity, char (&name)[96]) {
    for (int clash = 0; clash < kMaxNameClashes; ++clash) {
        TextWriter writer(name, sizeof(name));
        writer.format("%d-%lu", identity.pid, identity.pid_start_ticks);
        if (clash != 0) {
            writer.format("-%d", clash);
        }
        writer.text(".ring");
        for (int attempt = 0; attempt < 2; ++attempt) {
            Fd file(openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
            if (file.valid() || errno != EEXIST) {
                return file;
            }
            if (!leftover(dir_fd, name, identity) || unlinkat(dir_fd, name, 0) != 0) {
                break;
            }
        }
    }
    errno = EEXIST;
    return Fd();
}

format::RingHeader* map_file(int file, uint64_t bytes) {
    int failure = posix_fallocate(file, 0, static_cast<off_t>(bytes));
    if (failure != 0) {
        errno = failure;
        return nullptr;
    }
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<format::RingHeader*>(memory);
}

bool create_in(const char* parent, const Config& config, const Identity& identity, RingFile& ring_file) {
    Fd dir = open_ring_dir(parent);
    if (!dir.valid()) {
        return false;
    }
    remove_stale_rings(dir.get(), identity);
    char name[96];
    Fd file = create_file(dir.get(), identity, name);
    if (!file.valid()) {
        warn_once("cannot create a ring file in %s: %s", parent, error_text(errno));
        return false;
    }
    RingSizes sizes = sizes_of(config);
    Layout layout = lay_out(sizes, config);
    format::RingHeader* header = nullptr;
    errno = ENOSPC;
    do {
        layout = lay_out(sizes, config);
        if (room_for(dir.get(), layout.bytes)) {
            header = map_file(file.get(), layout.bytes);
        }
    } while (header == nullptr && (errno == ENOSPC || errno == EFBIG) && sizes.halve());
    if (header == nullptr) {
        warn_once("cannot make a ring of %lu bytes in %s: %s", layout.bytes, parent, error_text(errno));
        unlinkat(dir.get(), name, 0);
        return false;
    }
    if (!(sizes == sizes_of(config))) {
        warn_once(
            "little room in %s: the ring keeps %u collectives, %u CUDA calls, %u pieces of stream work and %u markers",
            parent, sizes.collectives, sizes.cuda_calls, sizes.stream_work, sizes.markers);
    }
    ring_file.header = header;
    ring_file.bytes = layout.bytes;
    ring_file.persistent = true;
    format_text(ring_file.path, sizeof(ring_file.path), "%s/%s/%s", parent, private_dir_name().text, name);
    fill_header(*header, layout, config, identity);
    return true;
}

bool create_anonymous(const Config& config, const Identity& identity, RingFile& ring_file) {
    Layout layout = lay_out(sizes_of(config), config);
    void* memory = mmap(nullptr, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        warn_once("no memory for a ring of %lu bytes: nothing is recorded", layout.bytes);
        return false;
    }
    warn_once("the ring lies in private memory: what it holds will not survive kill -9");
    ring_file.header = static_cast<format::RingHeader*>(memory);
    ring_file.bytes = layout.bytes;
    ring_file.persistent = false;
    ring_file.path[0] = '\0';
    fill_header(*ring_file.header, layout, config, identity);
    return true;
}

}  // namespace

Fd open_ring_dir(const char* parent) {
    Fd base(open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    PrivateDirName name = private_dir_name();
    Fd dir = base.valid() ? open_private_dir(base.get(), name.text) : Fd();
    if (!dir.valid()) {
        warn_once("%s/%s is not used: %s", parent, name.text,
                  errno == EPERM ? "it is not a private directory of this user" : error_text(errno));
    }
    return dir;
}

bool create_ring_file(const Config& config, const Identity& identity, RingFile& ring_file) {
    ring_file = RingFile{};
    if (create_in(config.ring_dir, config, identity, ring_file)) {
        return true;
    }
    return (!same_text(config.ring_dir, "/tmp") && create_in("/tmp", config, identity, ring_file)) ||
           create_anonymous(config, identity, ring_file);
}

void remove_ring_file(RingFile& ring_file) {
    if (ring_file.persistent) {
        unlink(ring_file.path);
        ring_file.persistent = false;
    }
}

char* region_bytes(format::RingHeader& header, RegionKind kind, const format::RegionDescriptor** descriptor,
                   format::RegionCursor** cursor) {
    for (uint32_t i = 0; i < header.region_count && i < format::kMaxRegions; ++i) {
        if (header.regions[i].kind == kind) {
            if (descriptor != nullptr) {
                *descriptor = &header.regions[i];
            }
            if (cursor != nullptr) {
                *cursor = &header.cursors[i];
            }
            return reinterpret_cast<char*>(&header) + header.regions[i].offset_bytes;
        }
    }
    return nullptr;
}

}  // namespace titan::tracer
