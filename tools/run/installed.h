// What lies beside titan-run: in a prefix, in a wheel's environment, in a tarball, or in the build directory.
#pragma once

#include <string>

namespace titan::tools {

// Of libtitantrace.so and of titan-analyze; empty where there is none.
std::string library_path();
std::string analyzer_path();

}  // namespace titan::tools
