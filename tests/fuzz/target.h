// One target is one idea: it takes bytes, must not crash, hang or leak, and brings seeds that reach deep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size);

namespace titan::fuzz {
std::vector<std::vector<unsigned char>> seeds();
}
