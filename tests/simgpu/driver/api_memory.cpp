// Driver API: memory. Device memory is host memory of the process, so every pointer is valid everywhere.
#include <cstdlib>
#include <cstring>

#include "capture.h"
#include "objects.h"

using namespace simgpu;

namespace {

constexpr size_t kAlignmentBytes = 512;
constexpr size_t kDeviceBytes = size_t{80} << 30;

CUresult allocate(void** out, size_t bytes) {
    CUcontext context;
    if (const CUresult result = require_context(&context); result != CUDA_SUCCESS) {
        return result;
    }
    if (!out || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::lock_guard lock(driver().lock);
    if (const CUresult result = check_unsafe_call(); result != CUDA_SUCCESS) {
        return result;
    }
    const size_t rounded = (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    *out = std::aligned_alloc(kAlignmentBytes, rounded);
    if (!*out) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    driver().allocations[reinterpret_cast<CUdeviceptr>(*out)] = bytes;
    driver().allocated_bytes += bytes;
    return CUDA_SUCCESS;
}

// Frees of memory that the device may still use wait for it, as cudaFree does.
CUresult release(CUdeviceptr pointer) {
    if (!pointer) {
        return CUDA_SUCCESS;
    }
    CUcontext context;
    if (const CUresult result = require_context(&context); result != CUDA_SUCCESS) {
        return result;
    }
    {
        std::lock_guard lock(driver().lock);
        if (!driver().allocations.count(pointer)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (const CUresult result = drain_context(context); result != CUDA_SUCCESS) {
        return result;
    }
    std::lock_guard lock(driver().lock);
    auto found = driver().allocations.find(pointer);
    if (found == driver().allocations.end()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    driver().allocated_bytes -= found->second;
    driver().allocations.erase(found);
    std::free(reinterpret_cast<void*>(pointer));
    return CUDA_SUCCESS;
}

CUresult copy_async(CUstream handle, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    StreamRef stream;
    if (const CUresult result = find_stream(handle, &stream); result != CUDA_SUCCESS) {
        return result;
    }
    return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY,
                  [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
}

// A synchronous copy runs on the legacy stream and waits for it.
CUresult copy_now(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    {
        std::lock_guard lock(driver().lock);
        if (const CUresult result = check_unsafe_call(); result != CUDA_SUCCESS) {
            return result;
        }
    }
    const CUresult result = copy_async(nullptr, to, from, bytes);
    return result == CUDA_SUCCESS ? cuStreamSynchronize(nullptr) : result;
}

template <typename T>
CUresult set_async(CUstream handle, CUdeviceptr to, T value, size_t count) {
    StreamRef stream;
    if (const CUresult result = find_stream(handle, &stream); result != CUDA_SUCCESS) {
        return result;
    }
    return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] {
        for (size_t i = 0; i < count; ++i) {
            std::memcpy(reinterpret_cast<char*>(to) + i * sizeof value, &value, sizeof value);
        }
    });
}

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) { return allocate(reinterpret_cast<void**>(out), bytes); }
CUresult cuMemFree_v2(CUdeviceptr pointer) { return release(pointer); }
CUresult cuMemAllocHost_v2(void** out, size_t bytes) { return allocate(out, bytes); }
CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int) { return allocate(out, bytes); }
CUresult cuMemFreeHost(void* pointer) { return release(address(pointer)); }
CUresult cuMemHostRegister_v2(void*, size_t, unsigned int) { return ready(); }
CUresult cuMemHostUnregister(void*) { return ready(); }

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int) {
    *out = address(pointer);
    return ready();
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int) {
    return allocate(reinterpret_cast<void**>(out), bytes);
}

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
    std::lock_guard lock(driver().lock);
    *total_bytes = kDeviceBytes;
    *free_bytes = kDeviceBytes - driver().allocated_bytes;
    return ready();
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
    std::lock_guard lock(driver().lock);
    auto next = driver().allocations.upper_bound(pointer);
    if (next == driver().allocations.begin()) {
        return CUDA_ERROR_NOT_FOUND;
    }
    const auto& [start, length] = *std::prev(next);
    if (pointer >= start + length) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (base) {
        *base = start;
    }
    if (bytes) {
        *bytes = length;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream) {
    return allocate(reinterpret_cast<void**>(out), bytes);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
    StreamRef stream;
    if (const CUresult result = find_stream(handle, &stream); result != CUDA_SUCCESS) {
        return result;
    }
    return submit(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, [pointer] {
        std::lock_guard lock(driver().lock);
        if (driver().allocations.erase(pointer)) {
            std::free(reinterpret_cast<void*>(pointer));
        }
    });
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy_now(to, from, bytes); }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) { return copy_now(to, address(from), bytes); }
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) { return copy_now(address(to), from, bytes); }
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy_now(to, from, bytes); }
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_async(stream, to, from, bytes);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    return copy_async(stream, to, address(from), bytes);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_async(stream, address(to), from, bytes);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy_async(stream, to, from, bytes);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    return set_async(stream, to, value, count);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
    return set_async(stream, to, value, count);
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
    return set_async(nullptr, to, value, count);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
    return set_async(nullptr, to, value, count);
}
