// Text as a JSON string. signal-safe.
#pragma once

#include <cstddef>

#include "base/text.h"

namespace titan::tracer {

inline constexpr size_t kMaxJsonValueBytes = 512;

// At most kMaxJsonValueBytes of the text, each of which takes six at most. Bytes above ASCII pass only as whole UTF-8
// sequences.
void json_string(TextWriter& json, const char* text, size_t size_bytes);

}  // namespace titan::tracer
