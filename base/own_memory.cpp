#include "base/own_memory.h"

#include <unistd.h>

#include <atomic>

namespace titan {

namespace {
constinit std::atomic<int32_t> own_file{-1};
}

size_t read_memory(uint64_t address, void* into, size_t size_bytes) {
    return read_own(own_file.load(std::memory_order_acquire), address, into, size_bytes);
}

Memory own_memory() {
    Memory memory{};
    memory.read_some = [](const Memory&, uint64_t address, void* into, size_t bytes) {
        return read_memory(address, into, bytes);
    };
    return memory;
}

OwnMemory::OwnMemory() : refused_(open_memory(getpid(), memory_) != 0) {
    own_file.store(memory_.fd, std::memory_order_release);
}

OwnMemory::~OwnMemory() {
    own_file.store(-1, std::memory_order_release);
    close_memory(memory_);
}

}  // namespace titan
