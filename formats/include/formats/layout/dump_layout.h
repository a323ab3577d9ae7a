// The dump container: a file header, then sections, then an end section. FORMAT.md is the prose twin.
//
// A dump is the ring file taken apart into compressed pieces, so one reader (RingImage) serves both: sections of kind
// kRing put back at `offset_bytes` give the image of the ring at the time of the dump; those of kind kStacks, where all
// threads stood. Section kMeta is JSON.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hash.h"

namespace titan::format {

inline constexpr uint64_t kDumpMagic = 0x504D444E41544954;  // "TITANDMP"
inline constexpr uint16_t kDumpMajor = 1;
inline constexpr uint16_t kDumpMinor = 0;

// The README in the directory of a run, beside the directories of its attempts.
inline constexpr const char* kReadmeName = "README";
inline constexpr const char* kDumpRequestName = "dump-request";

enum class SectionKind : uint32_t {
    kEnd = 0,     // last section, empty: a file without it is truncated
    kMeta = 1,    // JSON, UTF-8
    kRing = 2,    // bytes of the ring image
    kStacks = 3,  // bytes of the image of stacks_layout.h
};

struct DumpHeader {
    uint64_t magic;
    uint16_t major;
    uint16_t minor;
    uint32_t header_bytes;
    uint64_t reserved;
    uint64_t check;  // fnv1a64 of the bytes before it
};
static_assert(sizeof(DumpHeader) == 32);

// Followed by `stored_bytes` of one zstd frame with its content checksum on (nothing for kEnd).
struct SectionHeader {
    SectionKind kind;
    uint32_t stored_check;  // lower half of fnv1a64 of the stored bytes: zstd lets some damage pass
    uint64_t stored_bytes;
    uint64_t raw_bytes;
    uint64_t offset_bytes;
    uint64_t check;  // fnv1a64 of the bytes before it
};
static_assert(sizeof(SectionHeader) == 40);

// fnv1a64 guards the headers and the stored bytes; zstd's own checksum guards what they unpack to.
constexpr uint32_t stored_check_of(const unsigned char* bytes, size_t size_bytes) {
    return static_cast<uint32_t>(fnv1a64(bytes, size_bytes));
}

}  // namespace titan::format
