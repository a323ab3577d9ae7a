// Seconds, as settings and options have them. signal-safe.
#pragma once

#include <cstdint>

namespace titan {

// Decimal seconds with an optional fraction: "300", "0.25"; up to a year. False for anything else.
bool parse_seconds(const char* text, uint64_t& value_ns);

}  // namespace titan
