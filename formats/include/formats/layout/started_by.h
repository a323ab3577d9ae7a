// The variable by which titan-run marks what it starts. No setting, but dumps record it as one: its name begins so.
#pragma once

namespace titan::format {

inline constexpr const char* kStartedByVariable = "TITANTRACED_BY";

}  // namespace titan::format
