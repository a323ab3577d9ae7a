// Memory of this process that may not be there: read through the kernel, which answers where a load would fault.
//
// Uses process_vm_readv; where that is denied, as by seccomp filters of containers, /proc/self/mem, which needs a
// descriptor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/memory.h"

namespace titan {

// Bytes that could be read from `address` on, up to `size_bytes`. signal-safe.
size_t read_memory(uint64_t address, void* into, size_t size_bytes);

template <typename T>
bool read_memory(uint64_t address, T& into) {
    return read_memory(address, &into, sizeof(T)) == sizeof(T);
}

// The same as a reader.
Memory own_memory();

// While one lives (one at a time), read_memory has what it needs: a signal handler opens nothing.
class OwnMemory {
  public:
    OwnMemory();
    ~OwnMemory();
    OwnMemory(const OwnMemory&) = delete;
    OwnMemory& operator=(const OwnMemory&) = delete;

    bool refused() const { return refused_; }  // both ways

  private:
    Memory memory_;
    bool refused_;
};

}  // namespace titan
