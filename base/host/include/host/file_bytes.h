// A whole file as bytes. Rings are read with pread and not mapped: a mapping of a file that is cut under us ends in
// SIGBUS, and reading through a mapping of tmpfs makes the kernel allocate the pages that were never written.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "host/image_buffer.h"
#include "host/result.h"

namespace titan {

inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

enum class Links { kFollow, kRefuse };

class OpenFile {
  public:
    static Result<OpenFile> open(const std::string& path, Links links = Links::kFollow,
                                 uint64_t most_bytes = kMaxFileBytes);
    OpenFile(OpenFile&& other) noexcept;
    OpenFile& operator=(OpenFile&&) = delete;
    ~OpenFile();

    uint64_t size_bytes() const { return size_bytes_; }
    int64_t modified_ns() const { return modified_ns_; }
    uint32_t owner() const { return owner_; }
    // Reads up to `size_bytes`; returns how many bytes there were.
    size_t read_at(uint64_t offset_bytes, void* into, size_t size_bytes) const;
    Result<std::vector<std::byte>> read_all() const;
    // Reads into the zero-filled image, leaving holes of sparse files as zero pages.
    bool read_into(ImageBuffer& image) const;

  private:
    OpenFile(int descriptor, const struct stat& status);

    int descriptor_ = -1;
    uint64_t size_bytes_ = 0;
    int64_t modified_ns_ = 0;
    uint32_t owner_ = 0;
};

// A file that only its owner may read (0600), complete under a temporary name first, so that nobody reads half of it.
// Replaces a file of that name, and never follows a link. Nothing is left behind unless finish() has succeeded.
class PrivateFile {
  public:
    static Result<PrivateFile> create(std::string path);
    PrivateFile(PrivateFile&& other) noexcept;
    PrivateFile& operator=(PrivateFile&&) = delete;
    ~PrivateFile();

    // False: it could not be written; finish() says why.
    bool write(std::span<const std::byte> bytes);
    std::optional<Error> finish();

  private:
    PrivateFile(std::string path, std::string temporary, Fd file);

    std::string path_;
    std::string temporary_;  // empty: there is none any more
    Fd file_;
    int error_ = 0;  // errno of the first write that failed
};

// Likewise, in one go.
std::optional<Error> write_private_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace titan
