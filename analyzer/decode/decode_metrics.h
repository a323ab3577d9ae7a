// The program's metrics and events, from its markers.
#pragma once

#include "formats/ring/ring_image.h"
#include "run.h"
#include "text_table.h"

namespace titan::analyzer {

// Fills Process::metrics and its newest event.
void decode_metrics(const format::RingImage& image, TextTable& texts, Process& process);

}  // namespace titan::analyzer
