// The driver as the CUDA runtime and NCCL reach it: libcuda.so.1 opened at run time, each function through
// cuGetProcAddress. Nothing here is visible to someone who only stands in front of the PLT.
#pragma once

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL

namespace simgpu {

// member (the name asked for), ELF name (whose declaration gives the type)
#define SIMGPU_DRIVER_TABLE(X)                                                                                         \
    X(cuInit, cuInit)                                                                                                  \
    X(cuDriverGetVersion, cuDriverGetVersion) X(cuDeviceGetCount, cuDeviceGetCount) X(                                 \
        cuDeviceGetName, cuDeviceGetName) X(cuDeviceTotalMem, cuDeviceTotalMem_v2)                                     \
        X(cuDeviceGetAttribute, cuDeviceGetAttribute) X(cuDeviceGetUuid, cuDeviceGetUuid_v2) X(                        \
            cuDeviceGetPCIBusId, cuDeviceGetPCIBusId) X(cuDeviceCanAccessPeer,                                         \
                                                        cuDeviceCanAccessPeer) X(cuGetErrorString, cuGetErrorString)   \
            X(cuGetErrorName, cuGetErrorName) X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain) X(                 \
                cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2) X(cuCtxSetCurrent, cuCtxSetCurrent)               \
                X(cuCtxGetCurrent, cuCtxGetCurrent) X(cuCtxGetDevice, cuCtxGetDevice) X(                               \
                    cuCtxSynchronize, cuCtxSynchronize) X(cuCtxPushCurrent, cuCtxPushCurrent_v2) X(cuCtxPopCurrent,    \
                                                                                                   cuCtxPopCurrent_v2) \
                    X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange) X(cuStreamCreate, cuStreamCreate) X(   \
                        cuStreamCreateWithPriority, cuStreamCreateWithPriority) X(cuStreamDestroy, cuStreamDestroy_v2) \
                        X(cuStreamSynchronize, cuStreamSynchronize) X(cuStreamQuery, cuStreamQuery) X(                 \
                            cuStreamWaitEvent, cuStreamWaitEvent) X(cuStreamAddCallback, cuStreamAddCallback)          \
                            X(cuStreamGetDevice, cuStreamGetDevice) X(cuStreamGetId, cuStreamGetId) X(                 \
                                cuStreamGetFlags, cuStreamGetFlags) X(cuStreamGetPriority, cuStreamGetPriority)        \
                                X(cuLaunchHostFunc, cuLaunchHostFunc) X(cuEventCreate, cuEventCreate) X(               \
                                    cuEventDestroy, cuEventDestroy_v2) X(cuEventRecord, cuEventRecord)                 \
                                    X(cuEventRecordWithFlags, cuEventRecordWithFlags) X(cuEventQuery, cuEventQuery) X( \
                                        cuEventSynchronize,                                                            \
                                        cuEventSynchronize) X(cuEventElapsedTime,                                      \
                                                              cuEventElapsedTime_v2) X(cuMemAlloc, cuMemAlloc_v2)      \
                                        X(cuMemFree, cuMemFree_v2) X(cuMemHostAlloc, cuMemHostAlloc) X(                \
                                            cuMemFreeHost, cuMemFreeHost) X(cuMemHostRegister, cuMemHostRegister_v2)   \
                                            X(cuMemHostUnregister, cuMemHostUnregister) X(                             \
                                                cuMemHostGetDevicePointer,                                             \
                                                cuMemHostGetDevicePointer_v2) X(cuMemAllocManaged, cuMemAllocManaged)  \
                                                X(cuMemGetInfo, cuMemGetInfo_v2) X(                                    \
                                                    cuMemAllocAsync,                                                   \
                                                    cuMemAllocAsync) X(cuMemFreeAsync,                                 \
                                                                       cuMemFreeAsync) X(cuMemcpy,                     \
                                                                                         cuMemcpy) X(cuMemcpyAsync,    \
                                                                                                     cuMemcpyAsync)    \
                                                    X(cuMemsetD8, cuMemsetD8_v2) X(                                    \
                                                        cuMemsetD8Async,                                               \
                                                        cuMemsetD8Async) X(cuModuleLoadData, cuModuleLoadData)         \
                                                        X(cuModuleUnload, cuModuleUnload) X(                           \
                                                            cuModuleGetFunction, cuModuleGetFunction) X(cuFuncGetName, \
                                                                                                        cuFuncGetName) \
                                                            X(cuLaunchKernel, cuLaunchKernel) X(                       \
                                                                cuLaunchCooperativeKernel, cuLaunchCooperativeKernel)  \
                                                                X(cuLaunchKernelEx, cuLaunchKernelEx) X(               \
                                                                    cuStreamBeginCapture,                              \
                                                                    cuStreamBeginCapture_v2) X(cuStreamEndCapture,     \
                                                                                               cuStreamEndCapture)     \
                                                                    X(cuStreamIsCapturing, cuStreamIsCapturing) X(     \
                                                                        cuStreamGetCaptureInfo,                        \
                                                                        cuStreamGetCaptureInfo_v3)                     \
                                                                        X(cuThreadExchangeStreamCaptureMode,           \
                                                                          cuThreadExchangeStreamCaptureMode)           \
                                                                            X(cuGraphCreate, cuGraphCreate) X(         \
                                                                                cuGraphDestroy, cuGraphDestroy)        \
                                                                                X(cuGraphGetNodes, cuGraphGetNodes) X( \
                                                                                    cuGraphInstantiateWithFlags,       \
                                                                                    cuGraphInstantiateWithFlags)       \
                                                                                    X(cuGraphInstantiateWithParams,    \
                                                                                      cuGraphInstantiateWithParams)    \
                                                                                        X(cuGraphExecDestroy,          \
                                                                                          cuGraphExecDestroy)          \
                                                                                            X(cuGraphLaunch,           \
                                                                                              cuGraphLaunch)           \
                                                                                                X(cuGraphUpload,       \
                                                                                                  cuGraphUpload)       \
                                                                                                    X(cuStreamGetCtx,  \
                                                                                                      cuStreamGetCtx)

struct DriverTable {
#define MEMBER(name, symbol) decltype(&::symbol) name = nullptr;
    SIMGPU_DRIVER_TABLE(MEMBER)
#undef MEMBER
    decltype(&::cuGetProcAddress_v2) cuGetProcAddress = nullptr;
};

// The table, loaded once per library; null without a driver.
const DriverTable* driver_table();

}  // namespace simgpu
