// The part of a job that a span is, whatever its framework calls it (phases.def).
#pragma once

#include <string_view>

namespace titan::analyzer {

// "model_forward" for "forward-compute"; empty where the name is none of those that are known.
std::string_view phase_of(std::string_view span_name);

}  // namespace titan::analyzer
