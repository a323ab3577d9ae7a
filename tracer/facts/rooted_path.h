// A path of /proc or /sys below a root: "" on a machine, a directory where a test invents one.
#pragma once

#include "base/text.h"

namespace titan::tracer {

struct RootedPath {
    char text[640];
    RootedPath(const char* root, const char* path) { format_text(text, sizeof(text), "%s%s", root, path); }
};

}  // namespace titan::tracer
