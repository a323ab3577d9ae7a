/* A libcudart that does nothing but, in one of its launches, what NVIDIA's does: call a driver function that it looked
 * up. Never installed. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>

typedef int (*Launch)(const void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                      void**);

cudaError_t cudaLaunchKernel(const void* func, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
    (void)func, (void)grid, (void)block, (void)args, (void)shared, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaLaunchCooperativeKernel(const void* func, dim3 grid, dim3 block, void** args, size_t shared,
                                        cudaStream_t stream) {
    static Launch launch;
    if (launch == NULL) {
        *(void**)&launch = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuLaunchKernel");
    }
    return (cudaError_t)launch(func, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, args,
                               NULL);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    (void)event, (void)stream;
    return cudaSuccess;
}
