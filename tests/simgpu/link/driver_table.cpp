#include "driver_table.h"

#include <dlfcn.h>

namespace simgpu {

namespace {

const DriverTable* load(cuuint64_t flags) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return nullptr;
    }
    auto* table = new DriverTable;
    table->cuGetProcAddress = reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(library, "cuGetProcAddress_v2"));
    if (!table->cuGetProcAddress) {
        return nullptr;
    }
    table->api_hook = static_cast<SimgpuHookState*>(dlsym(library, "simgpu_api_hook"));
    // Asked for with the newest version, so that the types above (the newest forms) are the right ones.
    bool complete = true;
    CUdriverProcAddressQueryResult status;
    const auto find = [&](const char* name, auto* function, int version) {
        const CUresult result =
            table->cuGetProcAddress(name, reinterpret_cast<void**>(function), version, flags, &status);
        return result == CUDA_SUCCESS && *function != nullptr;
    };
#define DRIVER(name, symbol) complete &= find(#name, &table->name, CUDA_VERSION);
#include "driver_table.def"
#undef DRIVER
    complete &= find("cuStreamGetCtx", &table->cuStreamGetCtx, 12000);
    return complete ? table : nullptr;
}

}  // namespace

const DriverTable* driver_table() {
    static const DriverTable* table = load(CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    return table;
}

const DriverTable* per_thread_driver_table() {
    static const DriverTable* table = load(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    return table;
}

}  // namespace simgpu
