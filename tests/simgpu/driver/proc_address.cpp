// Driver API: cuGetProcAddress, which hands out the form of a function that a given CUDA version meant.
#include <cstring>

#include "vendor.h"

namespace {

struct Proc {
    const char* name;
    int since;  // CUDA version that introduced this form; the newest not above the caller's version wins
    void* address;
};

// name, first CUDA version of the form, ELF name. Forms of one name stand from old to new.
#define SIMGPU_PROCS(X)                                                                                                                                                     \
    X(cuInit, 2000, cuInit)                                                                                                                                                 \
    X(cuDriverGetVersion, 2020, cuDriverGetVersion) X(cuDeviceGet, 2000, cuDeviceGet) X(                                                                                    \
        cuDeviceGetCount, 2000,                                                                                                                                             \
        cuDeviceGetCount) X(cuDeviceGetName, 2000,                                                                                                                          \
                            cuDeviceGetName) X(cuDeviceTotalMem, 3020,                                                                                                      \
                                               cuDeviceTotalMem_v2) X(cuDeviceGetAttribute, 2000,                                                                           \
                                                                      cuDeviceGetAttribute) X(cuDeviceGetUuid, 9020,                                                        \
                                                                                              cuDeviceGetUuid)                                                              \
        X(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2) X(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId) X(                                                                  \
            cuDeviceCanAccessPeer, 4000,                                                                                                                                    \
            cuDeviceCanAccessPeer) X(cuGetErrorString, 6000,                                                                                                                \
                                     cuGetErrorString) X(cuGetErrorName, 6000,                                                                                              \
                                                         cuGetErrorName) X(cuDevicePrimaryCtxRetain, 7000,                                                                  \
                                                                           cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease,                                           \
                                                                                                       11000, cuDevicePrimaryCtxRelease_v2)                                 \
            X(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2) X(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState) X(                                \
                cuDevicePrimaryCtxSetFlags,                                                                                                                                 \
                11000,                                                                                                                                                      \
                cuDevicePrimaryCtxSetFlags_v2) X(cuCtxCreate, 3020,                                                                                                         \
                                                 cuCtxCreate_v2) X(cuCtxDestroy, 4000, cuCtxDestroy_v2)                                                                     \
                X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2) X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2) X(cuCtxSetCurrent, 4000, cuCtxSetCurrent) X(                    \
                    cuCtxGetCurrent, 4000,                                                                                                                                  \
                    cuCtxGetCurrent) X(cuCtxGetDevice, 2000,                                                                                                                \
                                       cuCtxGetDevice) X(cuCtxSynchronize, 2000, cuCtxSynchronize)                                                                          \
                    X(cuCtxGetId, 12000, cuCtxGetId) X(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion) X(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange) X(   \
                        cuCtxEnablePeerAccess, 4000,                                                                                                                        \
                        cuCtxEnablePeerAccess) X(cuStreamCreate, 2000,                                                                                                      \
                                                 cuStreamCreate) X(cuStreamCreateWithPriority, 5050,                                                                        \
                                                                   cuStreamCreateWithPriority) X(cuStreamDestroy, 4000,                                                     \
                                                                                                 cuStreamDestroy_v2)                                                        \
                        X(cuStreamSynchronize, 2000, cuStreamSynchronize) X(cuStreamQuery, 2000, cuStreamQuery) X(                                                          \
                            cuStreamGetCtx,                                                                                                                                 \
                            9020,                                                                                                                                           \
                            cuStreamGetCtx) X(cuStreamGetCtx, 12050, cuStreamGetCtx_v2)                                                                                     \
                            X(cuStreamGetDevice, 12080, cuStreamGetDevice) X(                                                                                               \
                                cuStreamGetId, 12000,                                                                                                                       \
                                cuStreamGetId) X(cuStreamGetFlags, 5050,                                                                                                    \
                                                 cuStreamGetFlags) X(cuStreamGetPriority, 5050,                                                                             \
                                                                     cuStreamGetPriority) X(cuStreamWaitEvent, 3020, cuStreamWaitEvent)                                     \
                                X(cuStreamAddCallback, 5000, cuStreamAddCallback) X(cuLaunchHostFunc, 10000, cuLaunchHostFunc) X(                                           \
                                    cuStreamWriteValue32,                                                                                                                   \
                                    11070,                                                                                                                                  \
                                    cuStreamWriteValue32_v2) X(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2)                                                        \
                                    X(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2) X(                                                                                \
                                        cuStreamWaitValue64, 11070,                                                                                                         \
                                        cuStreamWaitValue64_v2) X(cuEventCreate, 2000, cuEventCreate)                                                                       \
                                        X(cuEventDestroy, 4000, cuEventDestroy_v2) X(cuEventRecord, 2000, cuEventRecord) X(                                                 \
                                            cuEventRecordWithFlags,                                                                                                         \
                                            11010, cuEventRecordWithFlags) X(cuEventQuery, 2000,                                                                            \
                                                                             cuEventQuery) X(cuEventSynchronize, 2000,                                                      \
                                                                                             cuEventSynchronize) X(cuEventElapsedTime,                                      \
                                                                                                                   2000,                                                    \
                                                                                                                   cuEventElapsedTime)                                      \
                                            X(cuEventElapsedTime, 12080,                                                                                                    \
                                              cuEventElapsedTime_v2) X(cuMemAlloc, 3020,                                                                                    \
                                                                       cuMemAlloc_v2) X(cuMemFree, 3020, cuMemFree_v2)                                                      \
                                                X(cuMemAllocHost, 3020, cuMemAllocHost_v2) X(cuMemHostAlloc, 2020, cuMemHostAlloc) X(                                       \
                                                    cuMemFreeHost, 2000,                                                                                                    \
                                                    cuMemFreeHost) X(cuMemHostRegister, 6050,                                                                               \
                                                                     cuMemHostRegister_v2) X(cuMemHostUnregister, 4000,                                                     \
                                                                                             cuMemHostUnregister)                                                           \
                                                    X(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2) X(                                                     \
                                                        cuMemAllocManaged, 6000,                                                                                            \
                                                        cuMemAllocManaged) X(cuMemGetInfo, 3020,                                                                            \
                                                                             cuMemGetInfo_v2) X(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2)                        \
                                                        X(cuMemAllocAsync, 11020, cuMemAllocAsync) X(                                                                       \
                                                            cuMemFreeAsync,                                                                                                 \
                                                            11020, cuMemFreeAsync) X(cuMemcpy, 4000,                                                                        \
                                                                                     cuMemcpy) X(cuMemcpyHtoD, 3020,                                                        \
                                                                                                 cuMemcpyHtoD_v2)                                                           \
                                                            X(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2) X(                                                                       \
                                                                cuMemcpyDtoD,                                                                                               \
                                                                3020,                                                                                                       \
                                                                cuMemcpyDtoD_v2) X(cuMemcpyAsync, 4000,                                                                     \
                                                                                   cuMemcpyAsync) X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2)                          \
                                                                X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2) X(                                                         \
                                                                    cuMemcpyDtoDAsync, 3020,                                                                                \
                                                                    cuMemcpyDtoDAsync_v2) X(cuMemsetD8, 3020, cuMemsetD8_v2)                                                \
                                                                    X(cuMemsetD32, 3020, cuMemsetD32_v2) X(                                                                 \
                                                                        cuMemsetD8Async, 3020,                                                                              \
                                                                        cuMemsetD8Async) X(cuMemsetD32Async, 3020,                                                          \
                                                                                           cuMemsetD32Async) X(cuModuleLoadData,                                            \
                                                                                                               2000,                                                        \
                                                                                                               cuModuleLoadData)                                            \
                                                                        X(cuModuleUnload, 2000,                                                                             \
                                                                          cuModuleUnload) X(cuModuleGetFunction, 2000, cuModuleGetFunction)                                 \
                                                                            X(cuFuncGetName, 12030, cuFuncGetName) X(                                                       \
                                                                                cuFuncGetModule,                                                                            \
                                                                                11000,                                                                                      \
                                                                                cuFuncGetModule) X(cuLaunchKernel,                                                          \
                                                                                                   4000,                                                                    \
                                                                                                   cuLaunchKernel) X(cuLaunchKernelEx, 11060, cuLaunchKernelEx)             \
                                                                                X(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel) X(                            \
                                                                                    cuStreamBeginCapture,                                                                   \
                                                                                    10010,                                                                                  \
                                                                                    cuStreamBeginCapture_v2) X(cuStreamEndCapture, 10000, cuStreamEndCapture)               \
                                                                                    X(cuStreamIsCapturing, 10000, cuStreamIsCapturing) X(                                   \
                                                                                        cuStreamGetCaptureInfo,                                                             \
                                                                                        10010,                                                                              \
                                                                                        cuStreamGetCaptureInfo) X(cuStreamGetCaptureInfo, 11030, cuStreamGetCaptureInfo_v2) \
                                                                                        X(cuStreamGetCaptureInfo, 12030, cuStreamGetCaptureInfo_v3) X(                      \
                                                                                            cuThreadExchangeStreamCaptureMode,                                              \
                                                                                            10010,                                                                          \
                                                                                            cuThreadExchangeStreamCaptureMode)                                              \
                                                                                            X(cuGraphCreate, 10000, cuGraphCreate) X(                                       \
                                                                                                cuGraphDestroy,                                                             \
                                                                                                10000,                                                                      \
                                                                                                cuGraphDestroy) X(cuGraphGetNodes, 10000, cuGraphGetNodes)                  \
                                                                                                X(cuGraphNodeGetType, 10000, cuGraphNodeGetType) X(                         \
                                                                                                    cuGraphInstantiateWithFlags,                                            \
                                                                                                    11040,                                                                  \
                                                                                                    cuGraphInstantiateWithFlags)                                            \
                                                                                                    X(cuGraphInstantiate,                                                   \
                                                                                                      12000,                                                                \
                                                                                                      cuGraphInstantiateWithFlags)                                          \
                                                                                                        X(cuGraphInstantiateWithParams,                                     \
                                                                                                          12000,                                                            \
                                                                                                          cuGraphInstantiateWithParams)                                     \
                                                                                                            X(cuGraphExecDestroy,                                           \
                                                                                                              10000,                                                        \
                                                                                                              cuGraphExecDestroy)                                           \
                                                                                                                X(cuGraphLaunch,                                            \
                                                                                                                  10000,                                                    \
                                                                                                                  cuGraphLaunch)                                            \
                                                                                                                    X(cuGraphUpload,                                        \
                                                                                                                      11010,                                                \
                                                                                                                      cuGraphUpload)                                        \
                                                                                                                        X(cuGetProcAddress,                                 \
                                                                                                                          11030,                                            \
                                                                                                                          cuGetProcAddress)                                 \
                                                                                                                            X(cuGetProcAddress,                             \
                                                                                                                              12000,                                        \
                                                                                                                              cuGetProcAddress_v2)

const Proc* procs(size_t* count) {
    static const Proc rows[] = {
#define ROW(name, since, symbol) {#name, since, reinterpret_cast<void*>(&symbol)},
        SIMGPU_PROCS(ROW)
#undef ROW
    };
    *count = sizeof rows / sizeof rows[0];
    return rows;
}

}  // namespace

CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
    if (!symbol || !out || (flags & ~cuuint64_t{3})) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = nullptr;
    bool known = false;
    size_t count;
    const Proc* rows = procs(&count);
    for (size_t i = 0; i < count; ++i) {
        if (std::strcmp(rows[i].name, symbol) == 0) {
            known = true;
            *out = rows[i].since <= version ? rows[i].address : *out;
        }
    }
    if (status) {
        *status = *out    ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return *out || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
    CUdriverProcAddressQueryResult status;
    const CUresult result = cuGetProcAddress_v2(symbol, out, version, flags, &status);
    return result != CUDA_SUCCESS || *out ? result : CUDA_ERROR_NOT_FOUND;
}
