// Names of C++ functions for people.
#pragma once

#include <string>
#include <string_view>

namespace titan::analyzer {

// A frame's text without the parameters and template arguments of its function: "Trainer::wait_for(CUstream_st*) at
// trainer.cpp:315 (titan-sim)" becomes "Trainer::wait_for at trainer.cpp:315 (titan-sim)". Any other text stays as it
// is.
std::string short_frame(std::string_view text);

}  // namespace titan::analyzer
