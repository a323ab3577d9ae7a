#include "bindings.h"

#include "own_thread.h"
#include "session.h"

namespace titan::tracer {

namespace {

constinit Bindings set{};

}  // namespace

void set_bindings(const Bindings& given) {
    set = given;
    note_processors_of_launch();
}

const Bindings& bindings() { return set; }

bool learn_driver(Session& session) {
    // One thread asks, and nobody waits for it: what it calls may block.
    if (session.driver_known.load(std::memory_order_acquire) ||
        session.driver_asked.exchange(true, std::memory_order_acquire)) {
        return session.driver_known.load(std::memory_order_acquire);
    }
    if (set.find_driver == nullptr || !set.find_driver(session.driver)) {
        session.driver_asked.store(false, std::memory_order_release);  // libcuda may be loaded later
        return false;
    }
    int version = 0;
    if (session.driver.driver_version(&version) == kCudaSuccess) {
        store_field(session.header->driver_version, version);
    }
    session.driver_known.store(true, std::memory_order_release);
    return true;
}

bool find_kernel_name(FunctionKind kind, const void* function, const void* real, char* name, size_t bytes) {
    return set.kernel_name != nullptr && set.kernel_name(kind, function, real, name, bytes);
}

int find_nccl_version() { return set.nccl_version != nullptr ? set.nccl_version() : 0; }

}  // namespace titan::tracer
