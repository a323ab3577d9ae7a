// Runtime API: what frameworks import beyond the calls of a training loop: attributes, occupancy, libraries, memory
// pools, user objects, symbols, sharing between processes. Most answer like one ordinary GPU and change nothing.
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "runtime.h"

#pragma GCC visibility push(default)
#include <cuda_profiler_api.h>
#pragma GCC visibility pop

using namespace simgpu;

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = 227 << 10;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int) { return remember(ensure_context()); }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int block_size, size_t,
                                                                   unsigned int) {
    constexpr int kThreadsOfMultiprocessor = 2048;
    *blocks = block_size > 0 ? kThreadsOfMultiprocessor / block_size : 1;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int block_size,
                                                          size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, block_size, shared_bytes, 0);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    return forward(driver_table(), [&](const DriverTable& cu) {
        *attributes = {};
        attributes->device = cudaInvalidDeviceId;
        CUmemorytype type{};
        int device = 0;
        const auto address = reinterpret_cast<CUdeviceptr>(pointer);
        if (cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS) {
            attributes->type = cudaMemoryTypeUnregistered;  // an answer, not an error
            return CUDA_SUCCESS;
        }
        cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
        attributes->type = type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
        attributes->device = device;
        attributes->devicePointer = const_cast<void*>(pointer);
        attributes->hostPointer = type == CU_MEMORYTYPE_HOST ? const_cast<void*>(pointer) : nullptr;
        return CUDA_SUCCESS;
    });
}

// Memory pools: every device has one, and it keeps nothing.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    *pool = reinterpret_cast<cudaMemPool_t>(static_cast<intptr_t>(device) + 1);
    return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
    std::memset(value, 0, sizeof(uint64_t));
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void* value) {
    std::memset(value, 0, sizeof(uint64_t));
    return cudaSuccess;
}
cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void*) { return cudaSuccess; }

// Memory of another process cannot be reached here.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return remember(cudaErrorNotSupported); }
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned int) { return remember(cudaErrorNotSupported); }
cudaError_t cudaIpcCloseMemHandle(void*) { return remember(cudaErrorNotSupported); }
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) { return remember(cudaErrorNotSupported); }
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) { return remember(cudaErrorNotSupported); }

// A user object lives as long as the process: the graphs that retain it may be launched until then.
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t, unsigned int, unsigned int) {
    *object = static_cast<cudaUserObject_t>(pointer);
    return cudaSuccess;
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t, unsigned int) { return cudaSuccess; }
cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t, unsigned int, unsigned int) { return cudaSuccess; }

// Nodes made one by one, but for those of the driver's table, are not simulated.
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle*, cudaGraph_t, unsigned int, unsigned int) {
    return remember(cudaErrorNotSupported);
}
#if SIMGPU_CUDART_MAJOR >= 13
cudaError_t cudaGraphAddNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, const cudaGraphEdgeData*, size_t,
                             cudaGraphNodeParams*) {
    return remember(cudaErrorNotSupported);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*, size_t* count) {
    *count = 0;
    return cudaSuccess;
}
#endif

// Libraries: code that a program loads at run time is for real GPUs, and refused.
cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned int, cudaLibraryOption*,
                                void**, unsigned int) {
    return remember(cudaErrorInvalidKernelImage);
}
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t*, const char*, cudaJitOption*, void**, unsigned int,
                                    cudaLibraryOption*, void**, unsigned int) {
    return remember(cudaErrorFileNotFound);
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return cudaSuccess; }
cudaError_t cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t) {
    *count = 0;
    return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char*) {
    return remember(cudaErrorSymbolNotFound);
}
cudaError_t cudaLibraryGetGlobal(void**, size_t*, cudaLibrary_t, const char*) {
    return remember(cudaErrorSymbolNotFound);
}
cudaError_t cudaLibraryGetManaged(void**, size_t*, cudaLibrary_t, const char*) {
    return remember(cudaErrorSymbolNotFound);
}
cudaError_t cudaLibraryGetUnifiedFunction(void**, cudaLibrary_t, const char*) {
    return remember(cudaErrorSymbolNotFound);
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) { return cudaSuccess; }

namespace {

struct Variables {
    std::mutex lock;
    std::map<const void*, std::vector<char>> by_symbol;  // one copy for all devices
};
Variables& variables() {
    static auto* instance = new Variables;  // registered by static constructors
    return *instance;
}

}  // namespace

EXPORT void __cudaRegisterVar(void**, char* symbol, char*, const char*, int, size_t bytes, int, int) {
    const std::lock_guard lock(variables().lock);
    variables().by_symbol[symbol].resize(bytes);
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
    const std::lock_guard lock(variables().lock);
    const auto found = variables().by_symbol.find(symbol);
    if (found == variables().by_symbol.end()) {
        return remember(cudaErrorInvalidSymbol);
    }
    *pointer = found->second.data();
    return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind) {
    void* to = nullptr;
    const cudaError_t error = cudaGetSymbolAddress(&to, symbol);
    if (error == cudaSuccess) {
        std::memcpy(static_cast<char*>(to) + offset, from, bytes);
    }
    return error;
}
