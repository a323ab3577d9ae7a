// One target is one reader and what the analyzer makes of what it read. It takes any bytes, and must not crash, hang,
// leak or take memory out of proportion.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size);

namespace titan::fuzz {

using Bytes = std::vector<unsigned char>;

// The reader that the others ask, by the name of its corpus. False: there is none of that name.
bool choose(std::string_view reader);
// What the reader says, "read: ..." or the reason why not.
std::string read(std::span<const unsigned char> file);
// Checksums that no mutation would have right are made right, so that mutations get behind them. False
// where there are none.
bool seal(Bytes& file);

}  // namespace titan::fuzz
