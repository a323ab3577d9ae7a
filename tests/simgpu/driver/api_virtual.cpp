// Driver API: virtual memory management. Physical memory is a file of the process, a mapping of it is host memory.
#include <sys/mman.h>
#include <unistd.h>

#include "capture.h"
#include "impl.h"

namespace simgpu::impl {

namespace {

constexpr size_t kGranularityBytes = size_t{2} << 20;

bool is_whole(size_t bytes) { return bytes != 0 && bytes % kGranularityBytes == 0; }

bool is_known(const CUmemAllocationProp* wanted) {
    return wanted && wanted->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           (wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE ||
            wanted->location.type == CU_MEM_LOCATION_TYPE_HOST ||
            wanted->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA);
}

void* place(CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); }

// Addresses without memory: a touch is a fault, as on a device.
bool reserve(void* at, size_t bytes) {
    return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* wanted,
                                       CUmemAllocationGranularity_flags) {
    if (!bytes || !is_known(wanted)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes = kGranularityBytes;
    return ready();
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long flags) {
    SIMGPU_TRY(ready());
    if (!out || !is_whole(bytes) || flags != 0 || (alignment & (alignment - 1)) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const size_t aligned = std::max(alignment, kGranularityBytes), room = bytes + aligned;
    void* start = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const CUdeviceptr first = address(start), wanted = (first + aligned - 1) / aligned * aligned;
    if (wanted != first) {
        munmap(start, wanted - first);
    }
    munmap(place(wanted + bytes), first + room - wanted - bytes);
    std::lock_guard lock(driver().lock);
    driver().reserved[wanted] = bytes;
    *out = wanted;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
    std::lock_guard lock(driver().lock);
    auto found = driver().reserved.find(pointer);
    if (found == driver().reserved.end() || found->second != bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    auto mapped = driver().allocations.lower_bound(pointer);
    if (mapped != driver().allocations.end() && mapped->first < pointer + bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    munmap(place(pointer), bytes);
    driver().reserved.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* wanted,
                     unsigned long long flags) {
    SIMGPU_TRY(ready());
    if (!out || !is_whole(bytes) || flags != 0 || !is_known(wanted)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const int file = memfd_create("simgpu", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    std::lock_guard lock(driver().lock);
    *out = driver().next_id++;
    driver().physical[*out] = {file, bytes, *wanted};
    driver().allocated_bytes += bytes;
    return CUDA_SUCCESS;
}

// Mappings keep the memory.
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    std::lock_guard lock(driver().lock);
    auto found = driver().physical.find(handle);
    if (found == driver().physical.end()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    close(found->second.file);
    driver().allocated_bytes -= found->second.bytes;
    driver().physical.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    std::lock_guard lock(driver().lock);
    auto found = driver().physical.find(handle);
    auto range = driver().reserved.upper_bound(pointer);
    if (found == driver().physical.end() || flags != 0 || !is_whole(bytes) || range == driver().reserved.begin()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const auto& [start, length] = *std::prev(range);
    if (pointer + bytes > start + length || offset + bytes > found->second.bytes ||
        driver().allocations.count(pointer)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (mmap(place(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.file,
             static_cast<off_t>(offset)) == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const bool on_device = found->second.wanted.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    driver().allocations[pointer] = bytes;
    driver().places[pointer] = {on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                                on_device ? found->second.wanted.location.id : 0, true};
    return CUDA_SUCCESS;
}

// Every device reaches all memory here, so what counts is whether anyone may.
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* wanted, size_t count) {
    std::lock_guard lock(driver().lock);
    if (!wanted || count == 0 || !driver().allocations.count(pointer)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const bool open = wanted[0].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return mprotect(place(pointer), bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0 ? CUDA_SUCCESS
                                                                                           : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    std::lock_guard lock(driver().lock);
    auto found = driver().allocations.find(pointer);
    if (found == driver().allocations.end() || !driver().places[pointer].mapped || found->second != bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    driver().allocations.erase(found);
    driver().places.erase(pointer);
    return reserve(place(pointer), bytes) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

}  // namespace simgpu::impl
