// The smallest page of the machines that have such GPUs: what is laid out by pages is so on all of them. Where a
// mapping must begin on a page of this machine (64 KiB on many with aarch64), ask sysconf(_SC_PAGESIZE).
#pragma once

#include <cstdint>

namespace titan {

inline constexpr uint64_t kPageBytes = 4096;

}  // namespace titan
