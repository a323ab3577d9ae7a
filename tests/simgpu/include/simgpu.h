// The simulated GPU's own interface: how a program brings "device code" to the stand-in CUDA libraries.
//
// A kernel is a host function that runs on the worker thread of its stream. It reaches the libraries the way nvcc's
// output does: a fat binary (here a table of functions) is registered with __cudaRegisterFatBinary and each host stub
// with __cudaRegisterFunction; cudaLaunchKernel(stub, ...) then finds the function by its stub. Launching an address
// that was never registered fails with cudaErrorInvalidDeviceFunction, as on a real device.
//
// C99, so that ctypes clients and C programs can use it too.
#ifndef SIMGPU_H
#define SIMGPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// args[i] points to a private copy of argument i, taken at the launch. args[arg_count] points to an int32_t that
// becomes non-zero when the device is reset: a kernel that waits has to poll it, nothing else can stop it.
// args[arg_count + 1] points to the grid, three uint32_t.
typedef void (*SimgpuKernelBody)(void** args);

enum { kSimgpuMaxArgs = 8 };

typedef struct SimgpuKernel {
    const char* name;  // what cuFuncGetName answers
    SimgpuKernelBody body;
    uint32_t arg_count;
    uint32_t arg_bytes[kSimgpuMaxArgs];
} SimgpuKernel;

#define SIMGPU_FATBIN_MAGIC 0x4d495347u

// What __cudaRegisterFatBinary and cuModuleLoadData take here in place of compiled device code.
typedef struct SimgpuFatBinary {
    uint32_t magic;
    uint32_t kernel_count;
    const SimgpuKernel* kernels;
} SimgpuFatBinary;

// An address that is memory to nobody: a copy from it never ends (but a device reset ends it), as one that waits for a
// peer or a link that is gone.
#define SIMGPU_STALLED_MEMORY ((const void*)0x5157a11ed000)

// Ready-made kernels (static library simgpu_kernels; launches go through cudaLaunchKernel like any user's).
// `stream` is a cudaStream_t, the result a cudaError_t.
int simgpu_launch_spin(uint64_t duration_ns, void* stream);  // keeps the stream busy that long
int simgpu_launch_hang(void* stream);                        // never ends (but a device reset ends it)
int simgpu_launch_fill(float* data, size_t count, float value, void* stream);
int simgpu_launch_add(float* data, size_t count, float value, void* stream);            // data[i] += value
int simgpu_launch_axpy(float* y, const float* x, size_t count, float a, void* stream);  // y[i] += a * x[i]

#ifdef __cplusplus
}
#endif
#endif
