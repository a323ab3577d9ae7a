// The directories that a file lies in, if they are <run>/<attempt>; else empty.
#pragma once

#include <string>

namespace titan::analyzer {

struct RunDirectory {
    explicit RunDirectory(const std::string& path);
    std::string run;
    std::string attempt;
};

}  // namespace titan::analyzer
