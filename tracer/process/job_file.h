// The job segment as a file: found, made, mapped, never changed under those who have it mapped. cold.
//
// A segment that cannot be used (damaged, of an earlier job of the same name) is not cleared: its name goes, its users
// keep their memory, and a new one is made.
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/private_dir.h"
#include "formats/layout/job_layout.h"
#include "identity.h"

namespace titan::tracer {

struct JobPlace {
    char directory[PATH_MAX];  // "<parent>/titantrace-<uid>"
    char name[192];
    ino_t inode;
};

// The segment's file, locked for the moment of joining or leaving; the name still means this file.
LockedFile open_job_file(int dir, const char* name, bool create, int patience_ms);

// Maps the segment `place.name` below `parent`, or makes it if wanted; the file stays locked in `lock`. `not_ours`
// tells of a sound segment that it is of another job. Null: there is none and none can be made, or
// lock.is_held_by_another().
format::JobSegment* open_job_segment(const char* parent, bool create, JobPlace& place, LockedFile& lock,
                                     bool (*not_ours)(const format::JobSegment& segment, const Identity& identity),
                                     const Identity& identity);

// `name` in the ring directory is a segment that nobody has used for a day: it goes.
void remove_stale_job_segment(int dir_fd, const char* name, uint64_t now_ns);

}  // namespace titan::tracer
