#include "memory.h"

#include <unistd.h>

#include <atomic>

namespace titan::tracer {

namespace {
constinit std::atomic<int32_t> own_file{-1};
}

size_t read_memory(uint64_t address, void* into, size_t size_bytes) {
    return python::read_own(own_file.load(std::memory_order_acquire), address, into, size_bytes);
}

OwnMemory::OwnMemory() : refused_(python::open_memory(getpid(), memory_) != 0) {
    own_file.store(memory_.fd, std::memory_order_release);
}

OwnMemory::~OwnMemory() {
    own_file.store(-1, std::memory_order_release);
    python::close_memory(memory_);
}

}  // namespace titan::tracer
