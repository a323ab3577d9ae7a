#include "driver_table.h"

#include <dlfcn.h>

namespace simgpu {

namespace {

const DriverTable* load() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return nullptr;
    }
    auto* table = new DriverTable;
    table->cuGetProcAddress = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(library, "cuGetProcAddress_v2"));
    if (!table->cuGetProcAddress) {
        return nullptr;
    }
    // Asked for with the newest version, so that the types above (the newest forms) are the right ones.
    bool complete = true;
    CUdriverProcAddressQueryResult status;
#define LOAD(name, symbol)                                                                                          \
    complete &= table->cuGetProcAddress(#name, reinterpret_cast<void**>(&table->name), CUDA_VERSION, 0, &status) == \
                    CUDA_SUCCESS &&                                                                                 \
                table->name;
    SIMGPU_DRIVER_TABLE(LOAD)
#undef LOAD
    table->cuGetProcAddress("cuStreamGetCtx", reinterpret_cast<void**>(&table->cuStreamGetCtx), 12000, 0, &status);
    return complete ? table : nullptr;
}

}  // namespace

const DriverTable* driver_table() {
    static const DriverTable* table = load();
    return table;
}

}  // namespace simgpu
