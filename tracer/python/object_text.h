// A Python str as UTF-8. Async-signal-safe, bounded.
#pragma once

#include "runtime.h"

namespace titan::tracer::python {

// Bytes written without the NUL behind them. 0 with an empty text: no str that we understand lies there.
uint32_t copy_text_object(const Memory& memory, const Runtime& runtime, uint64_t object, char* out, size_t room_bytes,
                          bool& cut);

}  // namespace titan::tracer::python
