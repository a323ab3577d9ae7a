#include "comm.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "plan.h"

struct ncclComm {
    simgpu::CoreRef core;
};

namespace simgpu {

namespace {

// Leaked: other libraries' destructors may still call us.
struct Registry {
    std::mutex lock;
    std::map<ncclComm_t, std::unique_ptr<ncclComm>> live;
    // Addresses come back, as NCCL's do, but for certain and at once: who keys on them must cope.
    std::vector<std::unique_ptr<ncclComm>> spare;
};
Registry& registry() {
    static auto* instance = new Registry;
    return *instance;
}

// Of the process: NCCL ignores for which communicator it is asked.
struct LastError {
    std::mutex lock;
    std::string text;
};
LastError& last_error() {
    static auto* instance = new LastError;
    return *instance;
}

}  // namespace

Core::~Core() {
    if (last_launch) {
        driver_table()->cuEventDestroy(last_launch);
    }
}

CoreRef find_core(ncclComm_t handle) {
    std::lock_guard lock(registry().lock);
    auto found = registry().live.find(handle);
    return found == registry().live.end() ? nullptr : found->second->core;
}

ncclComm_t make_handle(const CoreRef& core) {
    std::lock_guard lock(registry().lock);
    std::unique_ptr<ncclComm> handle;
    if (registry().spare.empty()) {
        handle = std::make_unique<ncclComm>();
    } else {
        handle = std::move(registry().spare.back());
        registry().spare.pop_back();
    }
    handle->core = core;
    ncclComm_t raw = handle.get();
    registry().live[raw] = std::move(handle);
    return raw;
}

void drop_handle(ncclComm_t handle) {
    CoreRef core;  // may be the last reference: let go outside the lock
    std::lock_guard lock(registry().lock);
    const auto found = registry().live.find(handle);
    if (found != registry().live.end()) {
        core = std::move(found->second->core);
        registry().spare.push_back(std::move(found->second));
        registry().live.erase(found);
    }
}

ncclResult_t usable(ncclComm_t comm, const CoreRef& core) {
    if (core->abort) {
        return ncclInternalError;
    }
    ncclResult_t state = ncclSuccess;
    SIMGPU_TRY(ncclCommGetAsyncError(comm, &state));
    if (state == ncclInProgress) {
        warn("Attempt to use communicator before the previous operation returned ncclSuccess");
        return ncclInvalidArgument;
    }
    return state;
}

void warn(const std::string& text) {
    const char* level = std::getenv("NCCL_DEBUG");
    if (level && (std::strcmp(level, "WARN") == 0 || std::strcmp(level, "INFO") == 0)) {
        std::fprintf(stderr, "simgpu NCCL WARN %s\n", text.c_str());
    }
    std::lock_guard lock(last_error().lock);
    last_error().text = text;
}

std::string last_warning() {
    std::lock_guard lock(last_error().lock);
    return last_error().text;
}

uint64_t mix(uint64_t seed, const void* data, size_t bytes) {  // FNV-1a
    const auto* at = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; ++i) {
        seed = (seed ^ at[i]) * 0x100000001b3ull;
    }
    return seed;
}

std::string child_key(const Core& parent, const char* kind, uint32_t ordinal, const void* data, size_t bytes) {
    uint64_t hash = mix(0xcbf29ce484222325ull, parent.key.data(), parent.key.size());
    hash = mix(hash, kind, std::strlen(kind));
    hash = mix(hash, &ordinal, sizeof(ordinal));
    hash = mix(hash, data, bytes);
    char tail[20];
    std::snprintf(tail, sizeof(tail), "%016llx", static_cast<unsigned long long>(hash));
    return parent.key.substr(0, parent.key.rfind('-') + 1) + tail;
}

uint64_t host_id() {
    // NCCL_HOSTID is NCCL's own override; SIMGPU_HOST_INDEX lets one machine play several.
    for (const char* name : {"NCCL_HOSTID", "SIMGPU_HOST_INDEX"}) {
        if (const char* text = std::getenv(name)) {
            return mix(0xcbf29ce484222325ull, text, std::strlen(text));
        }
    }
    return 0;
}

CUcontext device_context(int device) {
    static auto* contexts = new std::map<int, CUcontext>;
    static std::mutex lock;
    const DriverTable* cu = driver_table();
    if (!cu || cu->cuInit(0) != CUDA_SUCCESS) {
        return nullptr;
    }
    std::lock_guard guard(lock);
    CUcontext& context = (*contexts)[device];
    if (!context && cu->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) {
        context = nullptr;
    }
    return context;
}

int current_device() {
    const DriverTable* cu = driver_table();
    CUdevice device = 0;
    if (!cu || cu->cuInit(0) != CUDA_SUCCESS) {
        return -1;
    }
    return cu->cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

}  // namespace simgpu
