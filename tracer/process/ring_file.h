// The ring file: where it lies, how it is made, and how those of dead processes go away. cold.
#pragma once

#include <limits.h>

#include <cstdint>

#include "base/private_dir.h"
#include "config.h"
#include "formats/layout/ring_layout.h"
#include "identity.h"

namespace titan::tracer {

inline constexpr uint32_t kStringRows = 8192;
inline constexpr uint32_t kLabelRows = 256;
inline constexpr uint32_t kMarkerSiteRowsLog2 = 11;  // places of a program, not calls

struct RingFile {
    format::RingHeader* header;
    uint64_t bytes;
    bool persistent;      // false: an anonymous mapping, gone with the process
    bool for_devices;     // a device may write to it: memory, not the cache of a disk
    char path[PATH_MAX];  // empty when not persistent
};

// Tries TITANTRACE_RING_DIR, then /tmp, then anonymous memory, with smaller rings where room is short; says so on
// stderr. False when even that fails. The header is complete (start_clock() came before), its state kStarting. The file
// is fully allocated: touching the mapping never raises SIGBUS on a full file system.
bool create_ring_file(const Config& config, const Identity& identity, RingFile& ring_file);

// Start of the region's bytes, or null for a kind that this ring lacks.
char* region_bytes(format::RingHeader& header, format::RegionKind kind, const format::RegionDescriptor** descriptor,
                   format::RegionCursor** cursor = nullptr);

// The process has a ring where we would make ours: it records, or did.
bool has_ring(const Config& config, pid_t pid, uint64_t start_ticks);

// The directory "<parent>/titantrace-<uid>", see private_dir.h; a warning and an invalid one where it cannot be
// trusted.
Fd open_ring_dir(const char* parent);

// The ring of another process, by the path that its job segment tells: only files in a private directory of this user
// are opened, or removed. No link is followed.
Fd open_ring_at(const char* path);
void remove_ring_at(const char* path);

// posix_fallocate past RLIMIT_FSIZE would end the job with SIGXFSZ.
bool may_have_bytes(uint64_t bytes);

// Rings of dead processes: removed where all of a job ended well, when they are older than TITANTRACE_RINGS_DAYS, and
// while all take more than TITANTRACE_RINGS_MIB or a quarter of the file system. The first attempt of a run with a
// death and its newest one go last. Says so. Files that are not ours to judge stay.
void remove_stale_rings(int dir_fd, const char* parent, const Config& config, const Identity& identity);
// One of those that an earlier attempt of our run left: a new ring needs the room. False where there is none.
bool remove_superseded_ring(int dir_fd, const char* parent, const Identity& identity);
inline constexpr uint64_t kForeignRingAgeNs = 3600ull * 1'000'000'000;

}  // namespace titan::tracer
