// Finds the files installed with titan-run: in a prefix, in a wheel's environment, in a tarball, or in the build
// directory.
#pragma once

#include <string>
#include <vector>

namespace titan::tools {

// Paths of libtitantrace.so and of titan-analyze; empty if there is none.
std::string library_path();
std::string analyzer_path();

// Runs titan-analyze in place of this process, a child: `words` are its path and its arguments. It is no part of the
// job, and what it prints goes to standard error, where titan-run speaks. Ends with status 2 where it cannot be run.
[[noreturn]] void become_analyzer(std::vector<std::string>& words);

}  // namespace titan::tools
