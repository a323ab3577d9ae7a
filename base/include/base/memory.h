// Memory that may not be there: another process's, or our own while other threads change it.
//
// Thread-safety: any thread; everything is async-signal-safe (system calls and nothing else), keeps errno, never
// faults.
// Errors: a read that is not whole says so by its result; why memory may not be read at all is open_memory's answer.
// Source: process_vm_readv(2), proc_pid_mem(5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/page.h"

namespace titan {

// One way to read. A test gives its own `read_some`.
struct Memory {
    // The bytes that could be read from the start of the range.
    using ReadSome = size_t (*)(const Memory& memory, uint64_t address, void* into, size_t bytes);

    ReadSome read_some = nullptr;
    int32_t pid = 0;
    bool is_own = false;  // of this process: read through the calling thread, for the main thread may have left
    int32_t fd = -1;
    void* context = nullptr;

    bool read(uint64_t address, void* into, size_t bytes) const {
        return read_some(*this, address, into, bytes) == bytes;
    }
    template <class T>
    bool get(uint64_t address, T& into) const {
        return read(address, &into, sizeof(into));
    }
    bool same_text(uint64_t address, const char* text) const {
        char there[64];
        const size_t length_bytes = std::strlen(text) + 1;
        return length_bytes <= sizeof(there) && read(address, there, length_bytes) &&
               std::memcmp(there, text, length_bytes) == 0;
    }
    // Copies the bytes into `room` and returns it, or nullptr if they cannot be read.
    const char* view(uint64_t address, char* room, size_t bytes) const {
        return read(address, room, bytes) ? room : nullptr;
    }
};

// Our own memory without a system call and without a net: only for frames of the calling thread, which cannot go away
// meanwhile.
struct DirectMemory {
    static const char* view(uint64_t address, char*, size_t) {
        constexpr uint64_t kFirstPageBytes = 4096, kUserSpaceEnd = uint64_t{1} << 47;
        return address >= kFirstPageBytes && address < kUserSpaceEnd && address % 8 == 0
                   ? reinterpret_cast<const char*>(address)
                   : nullptr;
    }
};

// A field of what view() gave.
template <class T>
T field(const char* bytes, size_t offset) {
    T value;
    std::memcpy(&value, bytes + offset, sizeof(value));
    return value;
}

// Reads memory of this process by process_vm_readv, or, if `file` is given, from that descriptor of /proc/self/mem.
// Returns the number of bytes that could be read from the start of the range.
size_t read_own(int32_t file, uint64_t address, void* into, size_t bytes);

// process_vm_readv where it is allowed, else /proc/PID/mem, which needs a descriptor until close_memory. 0, or the
// errno of the first refusal: EPERM and ENOSYS come from ptrace rules and seccomp filters, ESRCH when there is no such
// process.
int open_memory(int32_t pid, Memory& memory);
void close_memory(Memory& memory);

// Reads whole pages and keeps them, for many small reads close together: a system call costs more than a page. What it
// gives is as old as the last forget(). The caller gives the object (132 KiB) and what lies below, which must outlive
// it.
class PageCache {
  public:
    explicit PageCache(const Memory& below) : below_(below) { forget(); }
    Memory memory();
    void forget();

  private:
    static constexpr size_t kPages = 32;
    static size_t read_some(const Memory& memory, uint64_t address, void* into, size_t bytes);

    const char* page(uint64_t address);

    const Memory& below_;
    uint64_t addresses_[kPages];
    size_t next_ = 0;  // the page to give up
    char pages_[kPages][kPageBytes];
};

}  // namespace titan
