// When a file, or what is in a directory, was last changed.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace titan::analyzer {

inline int64_t time_ns(const struct stat& status) {
    return status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace titan::analyzer
