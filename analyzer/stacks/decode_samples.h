// Samples of stacks in a ring, for stragglers, flame graphs and digests.
#pragma once

#include "formats/ring/ring_image.h"
#include "named_stacks.h"
#include "run.h"

namespace titan::analyzer {

// Fills Process::stack_samples. An image that cannot be read leaves it empty.
void decode_samples(const format::RingImage& ring, Symbols& symbols, Process& process);

}  // namespace titan::analyzer
