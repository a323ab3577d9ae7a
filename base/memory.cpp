#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/page.h"
#include "base/process.h"
#include "base/text.h"

namespace titan {
namespace {

class KeepErrno {
  public:
    KeepErrno() : saved_(errno) {}
    ~KeepErrno() { errno = saved_; }
    KeepErrno(const KeepErrno&) = delete;
    KeepErrno& operator=(const KeepErrno&) = delete;

  private:
    int saved_;
};

long vm_readv(const Memory& memory, uint64_t address, void* into, size_t bytes) {
    const int32_t pid = memory.is_own ? gettid() : memory.pid;
    iovec here{into, bytes};
    iovec there{reinterpret_cast<void*>(address), bytes};
    return syscall(SYS_process_vm_readv, pid, &here, 1UL, &there, 1UL, 0UL);
}

long mem_read(int32_t fd, uint64_t address, void* into, size_t bytes) {
    return pread(fd, into, bytes, static_cast<off_t>(address));
}

template <class Once>
size_t read_in_pieces(uint64_t address, void* into, size_t bytes, Once once) {
    const KeepErrno keep;
    if (address + bytes < address || address >= uint64_t{1} << 63) {
        return 0;
    }
    size_t done = 0;
    size_t want = bytes;
    while (done < bytes) {
        const long got = once(address + done, static_cast<char*>(into) + done, want);
        if (got > 0) {
            done += static_cast<size_t>(got);
            want = bytes - done;
            continue;
        }
        if (got < 0 && errno == EINTR) {
            continue;
        }
        // The kernel may refuse a range as a whole whose first pages are there: once more, up to the end of the first
        // page.
        const uint64_t to_page_end = kPageBytes - (address + done) % kPageBytes;
        if (want <= to_page_end) {
            break;
        }
        want = static_cast<size_t>(to_page_end);
    }
    return done;
}

size_t read_by_vm(const Memory& memory, uint64_t address, void* into, size_t bytes) {
    return read_in_pieces(address, into, bytes,
                          [&](uint64_t at, void* to, size_t n) { return vm_readv(memory, at, to, n); });
}

size_t read_by_file(const Memory& memory, uint64_t address, void* into, size_t bytes) {
    return read_in_pieces(address, into, bytes,
                          [&](uint64_t at, void* to, size_t n) { return mem_read(memory.fd, at, to, n); });
}

}  // namespace

size_t read_own(int32_t file, uint64_t address, void* into, size_t bytes) {
    Memory own{};
    own.is_own = true;
    own.fd = file;
    return file >= 0 ? read_by_file(own, address, into, bytes) : read_by_vm(own, address, into, bytes);
}

int open_memory(int32_t pid, Memory& memory) {
    const KeepErrno keep;
    memory = Memory{};
    memory.pid = pid;
    memory.is_own = pid == getpid();
    char byte;
    // The kernel checks permission first. Page 0 is never mapped, so EFAULT means that we are permitted to read.
    if (vm_readv(memory, 0, &byte, 1) >= 0 || errno == EFAULT) {
        memory.read_some = read_by_vm;
        return 0;
    }
    const int refusal = errno;
    memory.fd = open_proc(pid, "mem");
    if (memory.fd < 0) {
        return refusal;
    }
    memory.read_some = read_by_file;
    return 0;
}

void PageCache::forget() {
    for (uint64_t& address : addresses_) {
        address = 1;  // no page's
    }
}

Memory PageCache::memory() {
    Memory memory = below_;
    memory.read_some = read_some;
    memory.context = this;
    return memory;
}

// Any page may lie in any place: frames and code objects would often enough meet in one.
const char* PageCache::page(uint64_t address) {
    for (size_t i = 0; i < kPages; ++i) {
        if (addresses_[i] == address) {
            return pages_[i];
        }
    }
    const size_t place = next_;
    next_ = (next_ + 1) % kPages;
    addresses_[place] = 1;
    if (!below_.read(address, pages_[place], kPageBytes)) {
        return nullptr;
    }
    addresses_[place] = address;
    return pages_[place];
}

size_t PageCache::read_some(const Memory& memory, uint64_t address, void* into, size_t bytes) {
    PageCache& self = *static_cast<PageCache*>(memory.context);
    if (address + bytes < address) {
        return 0;
    }
    size_t done = 0;
    while (done < bytes) {
        const uint64_t in_page = (address + done) % kPageBytes;
        const char* const page = self.page(address + done - in_page);
        if (page == nullptr) {
            break;
        }
        const size_t left = bytes - done, here = kPageBytes - in_page;
        const size_t piece = left < here ? left : here;
        std::memcpy(static_cast<char*>(into) + done, page + in_page, piece);
        done += piece;
    }
    return done;
}

void close_memory(Memory& memory) {
    if (memory.fd >= 0) {
        const KeepErrno keep;
        close(memory.fd);
    }
    memory = Memory{};
}

}  // namespace titan
