// The files in a tar (plain or compressed) or zip archive, one after the other: a form in which dumps come from other
// machines. Nothing is unpacked to disk, so names in it lead nowhere. Its own size limits what it may unpack to: an
// archive that packs more is hostile. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/result.h"

struct archive;

namespace titan::analyzer {

// Judges by the name: .tar, .tar.gz, .tgz, .tar.bz2, .tar.xz, .tar.zst, .zip.
bool is_archive_name(std::string_view file_name);

struct ArchiveMember {
    std::string name;  // path inside the archive
    int64_t modified_ns = 0;
};

class Archive {
  public:
    static Result<Archive> open(const std::string& path);
    static Result<Archive> open(std::span<const std::byte> bytes);  // the bytes must outlive it

    // The next regular file. Empty at the end; an error ends it, too.
    Result<std::optional<ArchiveMember>> next();
    // Appends what follows of that file until `into` has `most` bytes or the file ends.
    std::optional<Error> read(std::vector<std::byte>& into, size_t most);

  private:
    struct Close {
        void operator()(archive* open) const;
    };
    Archive(std::unique_ptr<archive, Close> open, uint64_t size_bytes);

    Error failure() const;

    std::unique_ptr<archive, Close> open_;
    uint64_t budget_bytes_;
    uint64_t read_bytes_ = 0;
};

// Appends that file of an archive, up to `most` bytes.
std::optional<Error> read_member(const std::string& path, const std::string& member, std::vector<std::byte>& into,
                                 size_t most);

}  // namespace titan::analyzer
