// A block of a journal as the image of a ring, which has nothing but these markers and what they refer to: who reads
// rings reads journals.
#pragma once

#include <cstddef>
#include <vector>

#include "formats/container/journal_reader.h"
#include "formats/ring/ring_image.h"
#include "host/result.h"

namespace titan::format {

// The image lives in `memory`.
Result<RingImage> image_of(const MarkerBlock& block, std::vector<std::byte>& memory);

}  // namespace titan::format
