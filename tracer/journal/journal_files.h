// The files of a node's journal: appended to, and replaced when full; the oldest go. cold.
//
// A shared file system sees one open and one close per call of append(), and a few more where a file is begun. No
// descriptor stays open, because programs close those.
#pragma once

#include <limits.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "config.h"
#include "identity.h"

namespace titan::tracer {

class JournalFiles {
  public:
    // Files take `most_bytes` together, and 32 MiB where that is more.
    void start(const Config& config, const Identity& identity, uint64_t most_bytes);

    // Sections as they are to lie in the file. False with errno: nothing of it counts, and the next file is a new one.
    bool append(const void* bytes, size_t size_bytes);

  private:
    static constexpr uint32_t kFiles = 8;  // of which the newest is being filled

    bool begin_file();
    Fd open_directory() const;
    void forget_file();
    Fd open_newest() const;
    void remove_oldest(int directory) const;

    const Config* config_ = nullptr;
    const Identity* identity_ = nullptr;
    uint64_t file_most_bytes_ = 0;
    uint64_t file_bytes_ = 0;
    uint32_t number_ = 0;
    bool has_number_ = false;  // which no file has yet
    bool has_file_ = false;
    dev_t device_ = 0;
    ino_t inode_ = 0;
    char path_[PATH_MAX] = {};
};

}  // namespace titan::tracer
