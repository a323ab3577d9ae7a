/* A libcuda.so.1 with as much of captures and graphs as count_calls needs, that does nothing. The tracer finds too little
 * of a driver in it to observe the device. Never installed. */
#include <cuda.h>
#include <stddef.h>

static char things[3];

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
    (void)stream;
    (void)mode;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    (void)stream;
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
