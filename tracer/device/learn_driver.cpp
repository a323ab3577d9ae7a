#include "learn_driver.h"

#include "bindings.h"

namespace titan::tracer {

bool learn_driver(Recording& recording) {
    // One thread asks, and nobody waits for it: the functions that it calls may block.
    if (recording.driver_known.load(std::memory_order_acquire) ||
        recording.driver_asked.exchange(true, std::memory_order_acquire)) {
        return recording.driver_known.load(std::memory_order_acquire);
    }
    if (bindings().find_driver == nullptr || !bindings().find_driver(recording.driver)) {
        recording.driver_asked.store(false, std::memory_order_release);  // libcuda may be loaded later
        return false;
    }
    int version = 0;
    if (recording.driver.driver_version(&version) == kCudaSuccess) {
        store_field(recording.header->driver_version, version);
    }
    recording.driver_known.store(true, std::memory_order_release);
    return true;
}

}  // namespace titan::tracer
