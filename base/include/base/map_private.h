// Memory of our own beside the program's heap: zeroed, and taken from the machine page by page as it is touched. cold.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>

namespace titan {

// Null where there is none. Without rights first: a program may lock all memory that is to come (mlockall), and its
// kernel would fetch every page at once.
template <typename T>
T* map_private(size_t count = 1) {
    const size_t bytes = count * sizeof(T);
    void* const mapped = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return nullptr;
    }
    munlock(mapped, bytes);
    if (mprotect(mapped, bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapped, bytes);
        return nullptr;
    }
    return static_cast<T*>(mapped);
}

// Gives the pages back, and makes them zeros: whole pages of what map_private gave. The program may have locked them
// since.
inline void release_pages(void* pages, size_t bytes) {
    if (madvise(pages, bytes, MADV_DONTNEED) != 0 &&
        (munlock(pages, bytes) != 0 || madvise(pages, bytes, MADV_DONTNEED) != 0)) {
        std::memset(pages, 0, bytes);
    }
}

}  // namespace titan
