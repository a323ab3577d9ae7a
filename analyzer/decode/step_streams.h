// What waits for what on a process's streams, in each of its steps.
#pragma once

#include <vector>

#include "formats/ring/ring_image.h"
#include "run.h"

namespace titan::analyzer {

// From the records and waits of events between streams that the ring still holds, of the newest two steps in a row that
// are ordered alike; empty without such. Runs after Process::steps are placed.
std::vector<StreamPiece> step_streams(const format::RingImage& image, const Process& process);

}  // namespace titan::analyzer
