// Names of kernels for people. The record holds them as the compiler made them, cut at 240 bytes, or by a hostile hand.
#pragma once

#include <string>

namespace titan::analyzer {

// The name with its namespaces, without template arguments and parameters: "at::native::vectorized_elementwise_kernel".
// A name that is cut or not mangled is shortened as far as it can be read.
std::string short_kernel_name(const std::string& name);
// The full name if it is complete; else the short name followed by "...".
std::string full_kernel_name(const std::string& name);

}  // namespace titan::analyzer
