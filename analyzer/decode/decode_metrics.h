// The program's metrics, events and errors, from its markers.
#pragma once

#include <string>

#include "formats/ring/ring_image.h"
#include "named_stacks.h"
#include "run.h"
#include "text_table.h"

namespace titan::analyzer {

// Fills Process::metrics and its newest event and error. Native places have no names without symbols.
void decode_metrics(const format::RingImage& image, TextTable& texts, Symbols* symbols, Process& process);

// The value of an attribute in words; `text` is that of the marker.
std::string attribute_text(const format::MarkerEntry& attribute, std::string text);

}  // namespace titan::analyzer
