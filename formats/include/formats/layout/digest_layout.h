// The digest: what an analysis needs of many processes, in a few kB each. A file header, then sections as in a dump
// (dump_layout.h), then an end section. FORMAT.md, section 9, is the prose twin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/layout/dump_layout.h"

namespace titan::format {

inline constexpr uint64_t kDigestMagic = 0x5453474944544954;  // "TITDIGST"
inline constexpr uint64_t kForeignDigestMagic = __builtin_bswap64(kDigestMagic);
inline constexpr uint16_t kDigestMajor = 1;  // a reader refuses another major
inline constexpr uint16_t kDigestMinor = 0;  // fields appended: a reader skips tags that it does not know

using DigestHeader = DumpHeader;

enum class DigestSection : uint32_t {
    kEnd = 0,
    kProblems = 1,  // what could not be read when the digest was made: count, then texts
    kGroups = 3,    // ranks of PyTorch's process groups: count, then id and list of each
    kProcess = 2,   // one process: fields, each a tag, a length and that many bytes
};

}  // namespace titan::format
