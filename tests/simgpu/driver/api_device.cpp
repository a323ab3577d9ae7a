// Driver API: initialisation, devices, error names.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "impl.h"

namespace simgpu::impl {

namespace {

struct ErrorText {
    CUresult code;
    const char* name;
    const char* text;
};

constexpr ErrorText kErrors[] = {
#define ERROR(code, text) {code, #code, text},
#include "errors.def"
#undef ERROR
};

const ErrorText* find_error(CUresult code) {
    for (const ErrorText& row : kErrors) {
        if (row.code == code) {
            return &row;
        }
    }
    return nullptr;
}

CUresult check_device(CUdevice device) {
    SIMGPU_TRY(ready());
    return device >= 0 && device < driver().device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

int attribute_value(CUdevice_attribute attribute, CUdevice device) {
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 132;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 << 10;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 227 << 10;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 228 << 10;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 50 << 20;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 5120;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 1000000;
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: return 1;
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: return 1;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: return 1;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1: return 1;
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: return 1;
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return 1;
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return device + 1;
        default: return 0;
    }
}

}  // namespace

CUresult cuInit(unsigned int flags) {
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    Driver& state = driver();
    if (forked()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    std::lock_guard lock(state.lock);
    if (!state.initialized) {
        const char* text = std::getenv("SIMGPU_DEVICES");
        state.device_count = text ? std::atoi(text) : 8;
        if (state.device_count <= 0) {
            return CUDA_ERROR_NO_DEVICE;
        }
        state.initialized = true;
    }
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
    if (!version) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    SIMGPU_TRY(ready());
    *count = driver().device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    const CUresult result = check_device(ordinal);
    if (result == CUDA_SUCCESS) {
        *device = ordinal;
    }
    return result;
}

CUresult cuDeviceGetName(char* name, int len, CUdevice device) {
    const CUresult result = check_device(device);
    if (result == CUDA_SUCCESS) {
        std::snprintf(name, static_cast<size_t>(len), "simgpu (simulated GPU, a test double)");
    }
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    const CUresult result = check_device(device);
    if (result == CUDA_SUCCESS) {
        *bytes = kDeviceBytes;
    }
    return result;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    const CUresult result = check_device(device);
    if (result == CUDA_SUCCESS) {
        *value = attribute_value(attribute, device);
    }
    return result;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    const CUresult result = check_device(device);
    if (result == CUDA_SUCCESS) {
        std::memset(uuid->bytes, 0, sizeof(uuid->bytes));
        std::memcpy(uuid->bytes, "simgpu", 6);
        uuid->bytes[15] = static_cast<char>(device);
    }
    return result;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return impl::cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceGetPCIBusId(char* text, int len, CUdevice device) {
    const CUresult result = check_device(device);
    if (result == CUDA_SUCCESS) {
        std::snprintf(text, static_cast<size_t>(len), "0000:%02x:00.0", static_cast<unsigned>(device) + 1);
    }
    return result;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    const CUresult result = check_device(device);
    if (result == CUDA_SUCCESS) {
        *can = device != peer;
    }
    return result != CUDA_SUCCESS ? result : check_device(peer);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
    const ErrorText* row = find_error(error);
    *text = row ? row->text : nullptr;
    return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
    const ErrorText* row = find_error(error);
    *name = row ? row->name : nullptr;
    return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace simgpu::impl
