// Reads the dump container. Sizes in a file are claims: each is checked against the file, the limits below and the zstd
// frame before a byte is written. The intact parts of a cut or damaged dump are kept, and the others are named.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "formats/layout/dump_layout.h"
#include "formats/layout/ring_layout.h"
#include "host/file_bytes.h"
#include "host/image_buffer.h"
#include "host/result.h"

namespace titan::format {

inline constexpr uint64_t kMaxImageBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxMetaBytes = uint64_t{16} << 20;
inline constexpr uint64_t kMaxStacksBytes = uint64_t{32} << 20;
inline constexpr uint32_t kMaxSections = 16384;

struct Dump {
    std::string meta_json;              // empty where the section is lost
    std::vector<std::byte> stacks;      // image of stacks_layout.h, empty where there are none
    std::vector<std::string> problems;  // one sentence for each thing that is not whole
};

// kFrame leaves out stacks and the rings of calls, of work and of readings, which are most of a dump. What it leaves
// out is neither unpacked nor checked, and zero.
enum class DumpExtent { kAll, kFrame };

// The bytes of a dump file -> its ring in `image` and the rest as a value. An error where nothing can be used.
Result<Dump> read_dump(std::span<const std::byte> file, ImageBuffer& image, DumpExtent extent = DumpExtent::kAll);

// Only the meta section: cheap, to choose among several dumps of one rank.
Result<std::string> read_dump_meta(std::span<const std::byte> file);

// The ring's header alone, from the head of a dump or ring file: to see whose it is. An error where it cannot be had
// so.
Result<RingHeader> read_ring_header(const OpenFile& file);

// Judges by the content, not by the name.
bool is_dump(const std::string& path);

}  // namespace titan::format
