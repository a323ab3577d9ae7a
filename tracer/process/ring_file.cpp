#include "ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <atomic>

#include "base/clock.h"
#include "base/page.h"
#include "base/text.h"
#include "formats/layout/call_sites_layout.h"
#include "formats/layout/stacks_layout.h"
#include "log.h"
#include "tick_times.h"

namespace titan::tracer {
namespace {

using format::RegionKind;

constexpr uint32_t kCommunicatorRows = 1024;
constexpr uint32_t kThreadRows = 512;
constexpr uint64_t kStringHeapBytes = 512 << 10;
// Far more launches than a device queues: a row is not reused while its launch is under way.
constexpr uint32_t kLaunchRows = 16384;
constexpr uint32_t kChannelSlots = 2048;
constexpr uint32_t kHealthSlots = 2048;   // hours of readings, of which a dozen change from one to the next
constexpr uint32_t kOpenSpanRows = 8192;  // tasks of an event loop that are in a span at the same time
// Room for the p2p counters of 64 communicators of the whole world, which is more than ever send at a time.
constexpr uint64_t kMinP2pHeapBytes = 64 << 10;
constexpr uint64_t kMaxP2pHeapBytes = 1 << 20;
constexpr uint64_t kP2pBytesPerRank = 2 * sizeof(uint64_t) * 64;
constexpr uint32_t kMinSlots = 256;
// NCCL and data loaders need /dev/shm more than we do, and containers give it 64 MiB: a ring never takes more than this
// part of what is free.
constexpr uint64_t kShareOfFree = 16;
constexpr int kMaxNameClashes = 16;
constexpr const char* kRingEnding = ".ring";

struct RingSizes {
    uint32_t collectives;
    uint32_t cuda_calls;
    uint32_t markers;
    uint32_t stream_work;
    bool samples;
    bool operator==(const RingSizes&) const = default;
    // Samples of stacks are the first to go.
    bool make_smaller() {
        bool smaller = false;
        if (samples) {
            samples = false;
            return true;
        }
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
    return {config.collectives, config.cuda_calls, config.markers, config.stream_work, samples_stacks(config)};
}

struct Layout {
    format::RegionDescriptor regions[format::kMaxRegions];
    format::RegionDescriptor more_regions[format::kMoreRegions];
    uint32_t count;
    uint64_t bytes;
};

struct Table {
    RegionKind kind;
    uint32_t stride_bytes;
    uint64_t count;
};

// Behind what lies there: whole pages.
void place(const Table& table, format::RegionDescriptor& region, uint64_t& end_bytes) {
    region = {table.kind, table.stride_bytes, end_bytes, table.count, 0};
    end_bytes += (table.count * table.stride_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

uint64_t p2p_heap_bytes(const Identity& identity) {
    if (identity.world_size <= 0 || static_cast<uint64_t>(identity.world_size) * kP2pBytesPerRank > kMaxP2pHeapBytes) {
        return kMaxP2pHeapBytes;
    }
    const uint64_t wanted = static_cast<uint64_t>(identity.world_size) * kP2pBytesPerRank;
    return wanted > kMinP2pHeapBytes ? wanted : kMinP2pHeapBytes;
}

Layout lay_out(const RingSizes& sizes, const Config& config, const Identity& identity) {
    const Table rows[] = {
        {RegionKind::kCollectives, sizeof(format::CollectiveEntry), sizes.collectives},
        {RegionKind::kCudaCalls, sizeof(format::CudaCallEntry), sizes.cuda_calls},
        {RegionKind::kMarkers, sizeof(format::MarkerEntry), sizes.markers},
        {RegionKind::kCommunicators, sizeof(format::CommunicatorRecord), kCommunicatorRows},
        {RegionKind::kThreads, sizeof(format::ThreadRecord), kThreadRows},
        {RegionKind::kStringIndex, sizeof(format::StringRecord), kStringRows},
        {RegionKind::kStringHeap, 1, kStringHeapBytes},
        {RegionKind::kP2pCounters, 1, p2p_heap_bytes(identity)},
        {RegionKind::kStreamWork, sizeof(format::StreamWorkEntry), sizes.stream_work},
        {RegionKind::kLaunchMarks, sizeof(format::LaunchMarks), kLaunchRows},
        {RegionKind::kChannels, sizeof(format::ChannelEntry), kChannelSlots},
        {RegionKind::kCallSites, 1, config.stacks.call_sites != 0 ? format::call_sites_bytes() : 0},
    };
    const Table more_rows[format::kMoreRegions] = {
        {RegionKind::kOpenSpans, sizeof(format::OpenSpanRecord), kOpenSpanRows},
        {RegionKind::kMarkerSites, sizeof(format::MarkerSiteRecord), uint64_t{1} << kMarkerSiteRowsLog2},
        {RegionKind::kLabels, sizeof(format::LabelRecord), kLabelRows},
        {RegionKind::kHealth, sizeof(format::HealthEntry), kHealthSlots},
        {RegionKind::kStackSamples, 1, sizes.samples ? format::kSampleImages * format::sample_image_bytes() : 0},
    };
    Layout layout{};
    layout.bytes = format::kHeaderBytes;
    for (const Table& row : rows) {
        if (row.count != 0) {
            place(row, layout.regions[layout.count++], layout.bytes);
        }
    }
    for (uint32_t i = 0; i < format::kMoreRegions; ++i) {
        if (more_rows[i].count != 0) {
            place(more_rows[i], layout.more_regions[i], layout.bytes);
        }
    }
    return layout;
}

bool room_for(int dir_fd, uint64_t bytes) {
    struct statvfs free_space {};
    if (!may_have_bytes(bytes)) {
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
    for (uint32_t i = 0; i < format::kMoreRegions; ++i) {
        header.more_regions[i] = layout.more_regions[i];
    }
    header.clock_source = clock_source();
    header.ticks_per_second = ticks_per_second();
    write_anchor(header.first_anchor);
    write_anchor(header.last_anchor);
    header.heartbeat_ticks = now_ticks();
    // A reader that sees the magic sees everything above; analyzers look into rings while they are being made.
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
    return read_at(file.get(), 0, &header, sizeof(header)) != sizeof(header) || header.magic != format::kRingMagic ||
           header.pid_namespace == identity.pid_namespace;
}

Fd create_file(int dir_fd, const Identity& identity, char (&name)[96]) {
    for (int clash = 0; clash < kMaxNameClashes; ++clash) {
        TextWriter writer(name, sizeof(name));
        writer.format("%d-%lu", identity.pid, identity.pid_start_ticks);
        if (clash != 0) {
            writer.format("-%d", clash);
        }
        writer.text(kRingEnding);
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

// Pages of a disk's cache are no memory for a device: write-back takes their buffers away while the driver has them
// pinned, and not every kernel survives that.
bool is_memory(int file) {
    constexpr unsigned long kTmpfs = 0x01021994;
    constexpr unsigned long kRamfs = 0x858458f6;
    constexpr unsigned long kHugetlbfs = 0x958458f6;
    struct statfs status {};
    if (fstatfs(file, &status) != 0) {
        return false;
    }
    const auto type = static_cast<unsigned long>(status.f_type) & 0xffffffff;
    return type == kTmpfs || type == kRamfs || type == kHugetlbfs;
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
    remove_stale_rings(dir.get(), parent, config, identity);
    char name[96];
    Fd file = create_file(dir.get(), identity, name);
    if (!file.valid()) {
        warn_once("cannot create a ring file in %s: %s", parent, error_text(errno));
        return false;
    }
    RingSizes sizes{};
    Layout layout{};
    format::RingHeader* header = nullptr;
    do {
        sizes = sizes_of(config);
        errno = ENOSPC;
        do {
            layout = lay_out(sizes, config, identity);
            if (room_for(dir.get(), layout.bytes)) {
                header = map_file(file.get(), layout.bytes);
            }
        } while (header == nullptr && (errno == ENOSPC || errno == EFBIG) && sizes.make_smaller());
    } while (header == nullptr && errno == ENOSPC && remove_superseded_ring(dir.get(), parent, identity));
    if (header == nullptr) {
        warn_once("cannot make a ring of %lu bytes in %s: %s", layout.bytes, parent, error_text(errno));
        unlinkat(dir.get(), name, 0);
        return false;
    }
    if (!(sizes == sizes_of(config))) {
        warn_once(
            "little room in %s: the ring keeps %u collectives, %u CUDA calls, %u pieces of stream work and %u "
            "markers%s",
            parent, sizes.collectives, sizes.cuda_calls, sizes.stream_work, sizes.markers,
            samples_stacks(config) ? ", and no samples of stacks" : "");
    }
    ring_file.header = header;
    ring_file.bytes = layout.bytes;
    ring_file.persistent = true;
    ring_file.for_devices = is_memory(file.get());
    format_text(ring_file.path, sizeof(ring_file.path), "%s/%s/%s", parent, private_dir_name().text, name);
    fill_header(*header, layout, config, identity);
    return true;
}

bool create_anonymous(const Config& config, const Identity& identity, RingFile& ring_file) {
    Layout layout = lay_out(sizes_of(config), config, identity);
    void* memory = mmap(nullptr, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        warn_once("no memory for a ring of %lu bytes: nothing is recorded", layout.bytes);
        return false;
    }
    warn_once("the ring is in private memory and will not survive kill -9");
    ring_file.header = static_cast<format::RingHeader*>(memory);
    ring_file.bytes = layout.bytes;
    ring_file.persistent = ring_file.for_devices = false;
    ring_file.path[0] = '\0';
    fill_header(*ring_file.header, layout, config, identity);
    return true;
}

// Cuts the last part off a path, and returns it; null where there is none.
const char* cut_last_part(char* path) {
    char* const slash = strrchr(path, '/');
    if (slash == nullptr) {
        return nullptr;
    }
    *slash = '\0';
    return slash + 1;
}

// The private directory that the path of a ring leads into, and the ring's name there. Other processes of this user may
// have written the path.
Fd directory_of(const char* path, char (&name)[96]) {
    char parent[PATH_MAX];
    copy_text(parent, sizeof(parent), path);
    const PrivateDirName private_name = private_dir_name();
    const char* const file = cut_last_part(parent);
    const size_t length = file != nullptr && copy_text(name, sizeof(name), file) ? strlen(name) : 0;
    const char* const directory = length > strlen(kRingEnding) ? cut_last_part(parent) : nullptr;
    if (directory == nullptr || !same_text(directory, private_name.text) ||
        !same_text(name + length - strlen(kRingEnding), kRingEnding)) {
        return Fd();
    }
    Fd base(open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return base.valid() ? open_private_dir(base.get(), private_name.text) : Fd();
}

}  // namespace

bool may_have_bytes(uint64_t bytes) {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

Fd open_ring_at(const char* path) {
    char name[96];
    Fd dir = directory_of(path, name);
    return Fd(dir.valid() ? openat(dir.get(), name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1);
}

void remove_ring_at(const char* path) {
    char name[96];
    Fd dir = directory_of(path, name);
    if (dir.valid()) {
        unlinkat(dir.get(), name, 0);
    }
}

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

bool has_ring(const Config& config, pid_t pid, uint64_t start_ticks) {
    const PrivateDirName directory = private_dir_name();
    for (const char* parent : {config.ring_dir, "/tmp"}) {
        char path[PATH_MAX + 96];
        format_text(path, sizeof(path), "%s/%s/%d-%lu%s", parent, directory.text, pid, start_ticks, kRingEnding);
        if (access(path, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

bool create_ring_file(const Config& config, const Identity& identity, RingFile& ring_file) {
    ring_file = RingFile{};
    if (create_in(config.ring_dir, config, identity, ring_file)) {
        return true;
    }
    return (!same_text(config.ring_dir, "/tmp") && create_in("/tmp", config, identity, ring_file)) ||
           create_anonymous(config, identity, ring_file);
}

char* region_bytes(format::RingHeader& header, RegionKind kind, const format::RegionDescriptor** descriptor,
                   format::RegionCursor** cursor) {
    char* found = nullptr;
    format::for_each_region(header, [&](const format::RegionDescriptor& region, format::RegionCursor* its_cursor) {
        if (region.kind != kind) {
            return;
        }
        if (descriptor != nullptr) {
            *descriptor = &region;
        }
        if (cursor != nullptr) {
            *cursor = its_cursor;
        }
        found = reinterpret_cast<char*>(&header) + region.offset_bytes;
    });
    return found;
}

}  // namespace titan::tracer
