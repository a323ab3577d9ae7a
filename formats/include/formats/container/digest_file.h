// Writes and reads the container of a digest. Sizes in a file are claims, as in a dump; only the analyzer knows what a
// section holds. Not thread-safe; a reader needs nothing but the bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "formats/layout/digest_layout.h"
#include "host/result.h"

struct ZSTD_CCtx_s;

namespace titan::format {

// A process of a million calls needs about 4 MiB.
inline constexpr uint64_t kMaxDigestSectionBytes = uint64_t{32} << 20;
inline constexpr uint32_t kMaxDigestSections = uint32_t{1} << 20;

class DigestBuilder {
  public:
    DigestBuilder();
    ~DigestBuilder();
    DigestBuilder(const DigestBuilder&) = delete;
    DigestBuilder& operator=(const DigestBuilder&) = delete;

    // False where the section is over the limit, or memory is out; it is left out then.
    bool add(DigestSection kind, std::span<const std::byte> raw);
    std::vector<std::byte> finish();

  private:
    void put_section(DigestSection kind, std::span<const std::byte> stored, size_t raw_bytes);

    ZSTD_CCtx_s* compressor_;
    std::vector<std::byte> file_;
    std::vector<std::byte> frame_;
};

bool is_digest(std::span<const std::byte> file);

// Calls visit(kind, bytes) for every intact section, in the order of the file; the bytes live until it returns. The
// result names the damaged ones. An error if this is no digest that we can read.
Result<std::vector<std::string>> read_digest(
    std::span<const std::byte> file, const std::function<void(DigestSection, std::span<const std::byte>)>& visit);

}  // namespace titan::format
