// Threads that ask the GPU again and again instead of blocking.
#pragma once

#include "formats/ring/ring_image.h"
#include "run.h"

namespace titan::analyzer {

// A host that polls cudaEventQuery or cudaStreamQuery waits as one does that blocks in a synchronisation: from here on
// its thread is inside the query, since its newest call of NCCL. `process` has the image's threads and entries.
void take_polling_for_waiting(const format::RingImage& image, Process& process);

}  // namespace titan::analyzer
