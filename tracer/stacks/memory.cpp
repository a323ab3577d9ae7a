#include "memory.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace titan::tracer {

size_t read_memory(uint64_t address, void* into, size_t size_bytes) {
    const iovec local{into, size_bytes};
    const iovec remote{reinterpret_cast<void*>(address), size_bytes};
    const long got = syscall(SYS_process_vm_readv, getpid(), &local, 1ul, &remote, 1ul, 0ul);
    return got < 0 ? 0 : static_cast<size_t>(got);
}

}  // namespace titan::tracer
