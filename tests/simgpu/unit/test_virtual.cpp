// Memory that a program puts together itself (addresses, physical memory, mappings), and what it asks about kernels.
#include <cuda.h>

#include "node.h"

using namespace simgpu_test;

namespace {

constexpr CUmemAllocationProp on_device(int device) {
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    return wanted;
}

}  // namespace

TEST_CASE("physical memory is mapped where addresses were reserved") {
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    REQUIRE(cudaFree(nullptr) == cudaSuccess);
    const CUmemAllocationProp wanted = on_device(1);
    size_t bytes = 0;
    REQUIRE(DRIVER(cuMemGetAllocationGranularity)(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
    CUdeviceptr range = 0;
    REQUIRE(DRIVER(cuMemAddressReserve)(&range, 2 * bytes, 0, 0, 0) == CUDA_SUCCESS);
    CHECK(range % bytes == 0);
    CUmemGenericAllocationHandle memory = 0;
    CHECK(DRIVER(cuMemCreate)(&memory, bytes + 1, &wanted, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(DRIVER(cuMemCreate)(&memory, bytes, &wanted, 0) == CUDA_SUCCESS);
    CHECK(DRIVER(cuMemMap)(range + 2 * bytes, bytes, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(DRIVER(cuMemMap)(range, bytes, 0, memory, 0) == CUDA_SUCCESS);
    CHECK(DRIVER(cuMemMap)(range, bytes, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);

    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {1}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    REQUIRE(DRIVER(cuMemSetAccess)(range, bytes, &access, 1) == CUDA_SUCCESS);
    const int written = 42;
    int read = 0;
    void* last = reinterpret_cast<void*>(range + bytes - sizeof(int));
    CHECK(cudaMemcpy(last, &written, sizeof(int), cudaMemcpyHostToDevice) == cudaSuccess);
    CHECK(cudaMemcpy(&read, last, sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(read == written);
    cudaPointerAttributes attributes{};
    CHECK(cudaPointerGetAttributes(&attributes, last) == cudaSuccess);
    CHECK(attributes.type == cudaMemoryTypeDevice);
    CHECK(attributes.device == 1);

    CHECK(DRIVER(cuMemFree_v2)(range) == CUDA_ERROR_INVALID_VALUE);  // it is not cuMemAlloc's
    CHECK(DRIVER(cuMemAddressFree)(range, 2 * bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(DRIVER(cuMemRelease)(memory) == CUDA_SUCCESS);
    CHECK(*static_cast<int*>(last) == written);  // the mapping keeps the memory
    CHECK(DRIVER(cuMemUnmap)(range, bytes) == CUDA_SUCCESS);
    CHECK(DRIVER(cuMemUnmap)(range, bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(DRIVER(cuMemAddressFree)(range, 2 * bytes) == CUDA_SUCCESS);
    CHECK(DRIVER(cuMemRelease)(memory) == CUDA_ERROR_INVALID_VALUE);
    cudaSetDevice(0);
}

TEST_CASE("PTX loads as code for a real GPU does, and its kernels say what they need") {
    REQUIRE(cudaFree(nullptr) == cudaSuccess);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    CHECK(DRIVER(cuModuleLoadData)(&module, "no code at all") == CUDA_ERROR_INVALID_IMAGE);
    for (const char* text : {".version 8.3\n.target sm_90\n", "//\n// made by LLVM\n.version 8.3\n"}) {
        REQUIRE(DRIVER(cuModuleLoadData)(&module, text) == CUDA_SUCCESS);
    }
    REQUIRE(DRIVER(cuModuleGetFunction)(&function, module, "wrapped_add") == CUDA_SUCCESS);
    int value = 0;
    CHECK(DRIVER(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function) == CUDA_SUCCESS);
    CHECK(value > 0);
    CHECK(DRIVER(cuFuncSetAttribute)(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024) == CUDA_SUCCESS);
    CHECK(DRIVER(cuFuncSetCacheConfig)(function, CU_FUNC_CACHE_PREFER_SHARED) == CUDA_SUCCESS);
    CHECK(DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&value, function, 256, 0) == CUDA_SUCCESS);
    CHECK(value == 8);
    REQUIRE(DRIVER(cuModuleUnload)(module) == CUDA_SUCCESS);
    CHECK(DRIVER(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function) == CUDA_ERROR_INVALID_VALUE);
    CHECK(DRIVER(cuFuncSetCacheConfig)(function, CU_FUNC_CACHE_PREFER_SHARED) == CUDA_ERROR_INVALID_HANDLE);
}
