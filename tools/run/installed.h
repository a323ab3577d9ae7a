// Finds the files installed with titan-run: in a prefix, in a wheel's environment, in a tarball, or in the build
// directory.
#pragma once

#include <string>

namespace titan::tools {

// Paths of libtitantrace.so and of titan-analyze; empty if there is none.
std::string library_path();
std::string analyzer_path();

}  // namespace titan::tools
