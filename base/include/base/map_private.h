// Memory of our own beside the program's heap: zeroed, and taken from the machine page by page as it is touched. cold.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace titan {

// Null where there is none.
template <typename T>
T* map_private(size_t count = 1) {
    void* const mapped =
        mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<T*>(mapped);
}

}  // namespace titan
