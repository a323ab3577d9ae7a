// Packs a ring image into a dump in memory, with dump_writer.h. For tools (collecting rings, tests); the tracer itself
// uses the writer without a heap.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/result.h"

namespace titan::format {

Result<std::vector<std::byte>> build_dump(std::span<const std::byte> image, std::string_view meta_json);

}  // namespace titan::format
