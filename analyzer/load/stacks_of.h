// The stacks of a process of a run, read once more from where it was loaded from.
#pragma once

#include "formats/image_buffer.h"
#include "named_stacks.h"
#include "run.h"

namespace titan::analyzer {

// Of the file that the process was read from; its notes say where there is none. A digest has them without addresses,
// and of a few threads.
ProcessStacks stacks_of(const Process& process, format::ImageBuffer& memory, Symbols& symbols);

}  // namespace titan::analyzer
