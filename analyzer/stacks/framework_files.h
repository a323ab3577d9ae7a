// Tells source files of a framework from those of the program.
#pragma once

#include <string_view>

namespace titan::analyzer {

// PyTorch's own, or of no source that is known: not where a program's author would look.
bool is_framework_file(std::string_view file);

}  // namespace titan::analyzer
