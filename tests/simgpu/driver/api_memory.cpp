// Driver API: memory. Device memory is host memory of the process, so every pointer is valid everywhere.
#include <cstdlib>
#include <cstring>

#include "capture.h"
#include "impl.h"

namespace simgpu::impl {

namespace {

constexpr size_t kAlignmentBytes = 512;

CUresult take(void** out, size_t bytes, MemoryPlace place) {  // lock held
    const size_t rounded = (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    *out = std::aligned_alloc(kAlignmentBytes, rounded);
    if (!*out) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    driver().allocations[reinterpret_cast<CUdeviceptr>(*out)] = bytes;
    driver().places[reinterpret_cast<CUdeviceptr>(*out)] = place;
    driver().allocated_bytes += bytes;
    return CUDA_SUCCESS;
}

CUresult allocate(void** out, size_t bytes, CUmemorytype type) {
    CUcontext context;
    SIMGPU_TRY(require_context(&context));
    if (!out || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::lock_guard lock(driver().lock);
    SIMGPU_TRY(check_unsafe_call());
    return take(out, bytes, {type, context->device});
}

// Frees of memory that the device may still use wait for it, as cudaFree does.
CUresult release(CUdeviceptr pointer) {
    if (!pointer) {
        return CUDA_SUCCESS;
    }
    CUcontext context;
    SIMGPU_TRY(require_context(&context));
    {
        std::lock_guard lock(driver().lock);
        if (!driver().allocations.count(pointer) || driver().places[pointer].mapped) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    SIMGPU_TRY(drain_context(context));
    std::lock_guard lock(driver().lock);
    auto found = driver().allocations.find(pointer);
    if (found == driver().allocations.end()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    driver().allocated_bytes -= found->second;
    driver().allocations.erase(found);
    driver().places.erase(pointer);
    std::free(reinterpret_cast<void*>(pointer));
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
    return allocate(reinterpret_cast<void**>(out), bytes, CU_MEMORYTYPE_DEVICE);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width_bytes, size_t height, unsigned int) {
    if (!pitch) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pitch = (width_bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    return allocate(reinterpret_cast<void**>(out), *pitch * height, CU_MEMORYTYPE_DEVICE);
}

CUresult cuMemFree_v2(CUdeviceptr pointer) { return release(pointer); }
CUresult cuMemAllocHost_v2(void** out, size_t bytes) { return allocate(out, bytes, CU_MEMORYTYPE_HOST); }
CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int) { return allocate(out, bytes, CU_MEMORYTYPE_HOST); }
CUresult cuMemFreeHost(void* pointer) { return release(address(pointer)); }

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int) {
    CUcontext context;
    SIMGPU_TRY(require_context(&context));
    if (!pointer || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::lock_guard lock(driver().lock);
    SIMGPU_TRY(check_unsafe_call());
    return driver().registered.emplace(address(pointer), bytes).second ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* pointer) {
    SIMGPU_TRY(ready());
    std::lock_guard lock(driver().lock);
    SIMGPU_TRY(check_unsafe_call());
    return driver().registered.erase(address(pointer)) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
    SIMGPU_TRY(ready());
    if (!out || flags != 0 || !device_can_reach(address(pointer), 1)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = address(pointer);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int) {
    return allocate(reinterpret_cast<void**>(out), bytes, CU_MEMORYTYPE_DEVICE);
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

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
    SIMGPU_TRY(ready());
    std::lock_guard lock(driver().lock);
    const auto inside = [&](const auto& known) {
        auto next = known.upper_bound(pointer);
        return next != known.begin() && pointer < std::prev(next)->first + std::prev(next)->second
                   ? std::prev(next)->first
                   : CUdeviceptr{0};
    };
    const CUdeviceptr start = inside(driver().allocations);
    if (start == 0 && inside(driver().registered) == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const MemoryPlace place = start != 0 ? driver().places[start] : MemoryPlace{CU_MEMORYTYPE_HOST, 0};
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *static_cast<CUmemorytype*>(value) = place.type; return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(value) = place.device; return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(value) = pointer; return CUDA_SUCCESS;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

// The address is known at once, as in CUDA; no pool is simulated, so the memory is, too.
CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream handle) {
    StreamRef stream;
    SIMGPU_TRY(find_stream(handle, &stream));
    if (!out || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result = submit(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, [] {});
    std::lock_guard lock(driver().lock);
    return result == CUDA_SUCCESS
               ? take(reinterpret_cast<void**>(out), bytes, {CU_MEMORYTYPE_DEVICE, stream->context->device})
               : result;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
    StreamRef stream;
    SIMGPU_TRY(find_stream(handle, &stream));
    return submit(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, [pointer] {
        std::lock_guard lock(driver().lock);
        auto found = driver().allocations.find(pointer);
        if (found != driver().allocations.end()) {
            driver().allocated_bytes -= found->second;
            driver().allocations.erase(found);
            driver().places.erase(pointer);
            std::free(reinterpret_cast<void*>(pointer));
        }
    });
}

}  // namespace simgpu::impl
