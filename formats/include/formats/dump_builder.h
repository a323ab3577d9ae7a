// Packs a ring image into a dump in memory. For tools that have memory to spare (collecting rings, tests); the tracer
// writes its dumps with dump_writer.h, which allocates nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/result.h"

namespace titan::format {

// Stretches of zeros are left out: the reader fills them again.
Result<std::vector<std::byte>> build_dump(std::span<const std::byte> image, std::string_view meta_json,
                                          int compression_level = 1);

}  // namespace titan::format
