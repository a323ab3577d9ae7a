// The file of a dump: its directory, its name and its bytes; never half written, never over another, the last N kept.
// cold; no heap.
#pragma once

#include <limits.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/private_dir.h"
#include "config.h"
#include "dump_meta.h"
#include "dump_reasons.h"
#include "formats/layout/dump_name.h"

namespace titan::tracer {

// The process whose dump it is.
struct DumpOwner {
    const char* run;
    int32_t attempt;
    int32_t rank;
    int32_t pid;
};

// TITANTRACE_GROUP: files that are made from now on may be read by it. A file that cannot be given stays private.
void set_reading_group(uint32_t group);
void let_group_read(int file);

// TMPDIR, or /tmp. Reads the environment, which a program may be changing: once, at the start.
const char* temporary_directory();

// The numbers of a process's dumps that show a hang, a crash or an end: dumps for other reasons do not push those out,
// nor do later dumps of an incident push out that of its hang.
class EvidenceNumbers {
  public:
    static constexpr uint64_t kNone = UINT64_MAX;

    bool holds(uint64_t number) const;
    // The one that must make room, now that there are more than `keep`; kNone where none must.
    uint64_t add(uint64_t number, Evidence evidence, uint32_t keep);

  private:
    static constexpr uint32_t kMost = 16;
    uint32_t hang_of_incident() const;

    // The oldest first, and the one that is added.
    uint64_t numbers_[kMost + 1] = {};
    Evidence evidence_[kMost + 1] = {};
    uint32_t count_ = 0;
};

// A dump file while it is being written. Dropped without commit() it leaves nothing behind.
class DumpFile {
  public:
    DumpFile() = default;
    ~DumpFile();
    DumpFile(const DumpFile&) = delete;
    DumpFile& operator=(const DumpFile&) = delete;

    // Opens a file below `base`, the user's absolute path. False, with errno.
    bool open_in(const char* base, const DumpOwner& owner);
    // Opens a file in a private directory below `temporary`, for when the first directory is full or read-only.
    bool open_fallback(const char* temporary, const DumpOwner& owner);

    bool write(const void* bytes, size_t size_bytes);
    int error_number() const { return error_number_; }  // errno of the failed write

    // Gives the file its final name, with the first free number from `first_number` on, and removes this owner's files
    // that are more than `keep` numbers older and not among `evidence`. False, with errno.
    bool commit(uint64_t first_number, uint32_t keep, const EvidenceNumbers& evidence);
    // Removes this owner's file with that number. Only after commit.
    bool remove(uint64_t number);

    // The number after the highest that this owner has in the directory. Lists it, and it holds names of all ranks: for
    // tools.
    uint64_t next_number();

    uint64_t number() const { return number_; }
    const char* path() const { return path_; }  // valid after commit

  private:
    bool open_at(Fd base, const char* base_path, const DumpOwner& owner);
    void remove_older(uint32_t keep, const EvidenceNumbers& evidence);

    Fd dir_;
    Fd file_;
    format::DumpStem stem_;
    char temporary_[64] = {};  // empty: nothing to remove
    char directory_[PATH_MAX] = {};
    char path_[PATH_MAX] = {};
    uint64_t number_ = 0;
    int error_number_ = 0;
};

// Opens (and makes) <base>/<run>: the directories of its attempts are there, and the dump-request file.
Fd open_run_dir(int base, const char* run);

// The bytes of one dump: its description, the ring, the stacks.
struct DumpContent {
    DumpMeta meta;
    const char* image;
    uint64_t image_bytes;
    std::span<const char> stacks;
};

// Memory to work in: section_workspace_bytes() of formats/container/dump_writer.h, and kMetaBytes.
struct DumpRoom {
    char* workspace;
    size_t workspace_bytes;
    char* meta;
};

// Writes the content, under that number, and gives the file its name. False, with errno.
bool write_dump_file(DumpFile& file, DumpContent& content, const DumpRoom& room, uint64_t number, uint32_t keep,
                     const EvidenceNumbers& evidence);

}  // namespace titan::tracer
