/* A libcuda.so.1 with as much of launches, captures and graphs as count_calls needs, that does nothing, and does it at
 * once. It has a context only with NOTHING_CUDA_CONTEXT in the environment: without one the tracer does not observe the
 * device. Never installed. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stddef.h>
#include <stdlib.h>

static char things[4];
static CUstream captured; /* null: none */
static CUcontext context_of_all;

__attribute__((constructor)) static void choose_context(void) {
    context_of_all = getenv("NOTHING_CUDA_CONTEXT") != NULL ? (CUcontext)&things[3] : NULL;
}

CUresult cuDriverGetVersion(int* version) {
    *version = 13000;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
    *context = context_of_all;
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) { return context != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT; }
CUresult cuCtxPushCurrent_v2(CUcontext context) { return cuCtxSetCurrent(context); }
CUresult cuCtxPopCurrent_v2(CUcontext* context) { return cuCtxGetCurrent(context); }
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
    (void)stream;
    *context = (CUcontext)&things[3];
    return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    const int active = captured != NULL && stream == captured;
    *status = active ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    (void)mode;
    return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned flags) {
    (void)flags;
    *event = (CUevent)&things[0];
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    (void)event, (void)stream;
    return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
    (void)from, (void)to;
    *milliseconds = 0.01f;
    return CUDA_SUCCESS;
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    (void)stream, (void)flags;
    *(volatile cuuint64_t*)(size_t)address = value;
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
    (void)memory, (void)bytes, (void)flags;
    return CUDA_SUCCESS;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned flags) {
    (void)flags;
    *address = (CUdeviceptr)(size_t)memory;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    (void)mode;
    captured = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    (void)stream;
    captured = NULL;
    *graph = (CUgraph)&things[0];
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
    (void)flags;
    *exec = (CUgraphExec)(graph != NULL ? &things[1] : &things[2]);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    (void)exec;
    (void)stream;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,
                        void** extra) {
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared_bytes, (void)stream, (void)parameters, (void)extra;
    return CUDA_SUCCESS;
}
