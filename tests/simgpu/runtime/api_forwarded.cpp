// Runtime API: the calls that are one driver call each. One row per function: name, parameters, driver call.
#include "runtime.h"

using namespace simgpu;

namespace {

CUdeviceptr ptr(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
CUdeviceptr* out(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }
unsigned char byte(int value) { return static_cast<unsigned char>(value); }

template <typename To, typename From>
To* as(From* from) {
    static_assert(sizeof(To) == sizeof(From));
    return reinterpret_cast<To*>(from);
}

}  // namespace

#define FORWARD(name, parameters, call)                                 \
    cudaError_t name parameters {                                       \
        return forward([&](const DriverTable& cu) { return cu.call; }); \
    }

// Device
FORWARD(cudaDeviceSynchronize, (void), cuCtxSynchronize())
FORWARD(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest), cuCtxGetStreamPriorityRange(least, greatest))

// Streams
FORWARD(cudaStreamCreate, (cudaStream_t * stream), cuStreamCreate(stream, CU_STREAM_DEFAULT))
FORWARD(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned int flags), cuStreamCreate(stream, flags))
FORWARD(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned int flags, int priority),
        cuStreamCreateWithPriority(stream, flags, priority))
FORWARD(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy(stream))
FORWARD(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize(stream))
FORWARD(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery(stream))
FORWARD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
        cuStreamWaitEvent(stream, event, flags))
FORWARD(cudaStreamGetFlags, (cudaStream_t stream, unsigned int* flags), cuStreamGetFlags(stream, flags))
FORWARD(cudaStreamGetPriority, (cudaStream_t stream, int* priority), cuStreamGetPriority(stream, priority))
FORWARD(cudaStreamGetId, (cudaStream_t stream, unsigned long long* id), cuStreamGetId(stream, id))
FORWARD(cudaStreamGetDevice, (cudaStream_t stream, int* device), cuStreamGetDevice(stream, device))
FORWARD(cudaStreamAddCallback, (cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned int flags),
        cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), data, flags))
FORWARD(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void* data),
        cuLaunchHostFunc(stream, function, data))

// Events
FORWARD(cudaEventCreate, (cudaEvent_t * event), cuEventCreate(event, CU_EVENT_DEFAULT))
FORWARD(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags), cuEventCreate(event, flags))
FORWARD(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy(event))
FORWARD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord(event, stream))
FORWARD(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
        cuEventRecordWithFlags(event, stream, flags))
FORWARD(cudaEventQuery, (cudaEvent_t event), cuEventQuery(event))
FORWARD(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))
FORWARD(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t start, cudaEvent_t end),
        cuEventElapsedTime(milliseconds, start, end))

// Memory
FORWARD(cudaMalloc, (void** pointer, size_t bytes), cuMemAlloc(out(pointer), bytes))
FORWARD(cudaFree, (void* pointer), cuMemFree(ptr(pointer)))
FORWARD(cudaMallocHost, (void** pointer, size_t bytes), cuMemHostAlloc(pointer, bytes, 0))
FORWARD(cudaHostAlloc, (void** pointer, size_t bytes, unsigned int flags), cuMemHostAlloc(pointer, bytes, flags))
FORWARD(cudaFreeHost, (void* pointer), cuMemFreeHost(pointer))
FORWARD(cudaHostRegister, (void* pointer, size_t bytes, unsigned int flags), cuMemHostRegister(pointer, bytes, flags))
FORWARD(cudaHostUnregister, (void* pointer), cuMemHostUnregister(pointer))
FORWARD(cudaHostGetDevicePointer, (void** pointer, void* host, unsigned int flags),
        cuMemHostGetDevicePointer(out(pointer), host, flags))
FORWARD(cudaMallocManaged, (void** pointer, size_t bytes, unsigned int flags),
        cuMemAllocManaged(out(pointer), bytes, flags))
FORWARD(cudaMallocAsync, (void** pointer, size_t bytes, cudaStream_t stream),
        cuMemAllocAsync(out(pointer), bytes, stream))
FORWARD(cudaFreeAsync, (void* pointer, cudaStream_t stream), cuMemFreeAsync(ptr(pointer), stream))
FORWARD(cudaMemGetInfo, (size_t * free_bytes, size_t* total_bytes), cuMemGetInfo(free_bytes, total_bytes))
FORWARD(cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind), cuMemcpy(ptr(to), ptr(from), bytes))
FORWARD(cudaMemcpyAsync, (void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream),
        cuMemcpyAsync(ptr(to), ptr(from), bytes, stream))
FORWARD(cudaMemcpyPeer, (void* to, int, const void* from, int, size_t bytes), cuMemcpy(ptr(to), ptr(from), bytes))
FORWARD(cudaMemcpyPeerAsync, (void* to, int, const void* from, int, size_t bytes, cudaStream_t stream),
        cuMemcpyAsync(ptr(to), ptr(from), bytes, stream))
FORWARD(cudaMemset, (void* to, int value, size_t bytes), cuMemsetD8(ptr(to), byte(value), bytes))
FORWARD(cudaMemsetAsync, (void* to, int value, size_t bytes, cudaStream_t stream),
        cuMemsetD8Async(ptr(to), byte(value), bytes, stream))

// Capture and graphs
FORWARD(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
        cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)))
FORWARD(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph), cuStreamEndCapture(stream, graph))
FORWARD(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
        cuStreamIsCapturing(stream, as<CUstreamCaptureStatus>(status)))
FORWARD(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode),
        cuThreadExchangeStreamCaptureMode(as<CUstreamCaptureMode>(mode)))
FORWARD(cudaGraphCreate, (cudaGraph_t * graph, unsigned int flags), cuGraphCreate(graph, flags))
FORWARD(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
FORWARD(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
        cuGraphGetNodes(graph, nodes, count))
FORWARD(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiateWithFlags(exec, graph, flags))
FORWARD(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiateWithFlags(exec, graph, flags))
FORWARD(cudaGraphExecDestroy, (cudaGraphExec_t exec), cuGraphExecDestroy(exec))
FORWARD(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), cuGraphLaunch(exec, stream))
FORWARD(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), cuGraphUpload(exec, stream))

namespace {

cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                         cudaGraph_t* graph, const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                         size_t* count) {
    cuuint64_t driver_id = 0;
    const cudaError_t error = forward([&](const DriverTable& cu) {
        return cu.cuStreamGetCaptureInfo(stream, as<CUstreamCaptureStatus>(status), &driver_id, graph, dependencies,
                                         reinterpret_cast<const CUgraphEdgeData**>(edges), count);
    });
    if (id) {
        *id = driver_id;
    }
    return error;
}

}  // namespace

#if SIMGPU_CUDART_MAJOR >= 13
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
    return capture_info(stream, status, id, graph, dependencies, edges, count);
}
#else
// CUDA 12 keeps three forms under ELF names that 13's header no longer declares. The oldest has the name of 13's
// newest, hence the assembler name.
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT cudaError_t capture_info_v1(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                   unsigned long long* id) __asm__("cudaStreamGetCaptureInfo");
EXPORT cudaError_t capture_info_v1(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
    return capture_info(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies, size_t* count) {
    return capture_info(stream, status, id, graph, dependencies, nullptr, count);
}
EXPORT cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                               size_t* count) {
    return capture_info(stream, status, id, graph, dependencies, edges, count);
}
#endif
