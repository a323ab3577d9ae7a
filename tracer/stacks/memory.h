// Memory of this process that may not be there: read through the kernel, which answers where a load would fault.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::tracer {

// Bytes that could be read from `address` on, up to `size_bytes`. signal-safe.
size_t read_memory(uint64_t address, void* into, size_t size_bytes);

template <typename T>
bool read_memory(uint64_t address, T& into) {
    return read_memory(address, &into, sizeof(T)) == sizeof(T);
}

}  // namespace titan::tracer
