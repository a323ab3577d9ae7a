// Names of C++ functions for people.
#pragma once

#include <string>
#include <string_view>

namespace titan::analyzer {

// A frame's text without the parameters and template arguments of its function: "Trainer::wait_for(CUstream_st*) at
// trainer.cpp:315 (titan-sim)" becomes "Trainer::wait_for at trainer.cpp:315 (titan-sim)". Any other text stays as it
// is.
std::string short_frame(std::string_view text);

// --- Tells source files of a framework from those of the program.

// PyTorch's own, or of no source that is known: not where a program's author would look.
bool is_framework_file(std::string_view file);

// --- Names of kernels for people. The record holds them as the compiler made them, cut at 240 bytes, or by a hostile
// hand.

// The name with its namespaces, without template arguments and parameters: "at::native::vectorized_elementwise_kernel".
// A name that is cut or not mangled is shortened as far as it can be read.
std::string short_kernel_name(const std::string& name);

// The full name if it is complete; else the short name followed by "...".
std::string full_kernel_name(const std::string& name);

}  // namespace titan::analyzer
