// NCCL API: memory, reductions made by the user, parameters, and the remaining small functions.
#include <cstring>
#include <vector>

#include "comm.h"
#include "plan.h"
#include "reduce.h"

using namespace simgpu;

NCCL_EXPORT(ncclResult_t, ncclMemAlloc, (void** out, size_t bytes)) {
    const int device = current_device();
    CUcontext context = device < 0 ? nullptr : device_context(device);
    if (!out || !context) {
        return out ? ncclUnhandledCudaError : ncclInvalidArgument;
    }
    ContextGuard guard(context);
    CUdeviceptr pointer = 0;
    const CUresult result = driver_table()->cuMemAlloc(&pointer, bytes);
    *out = reinterpret_cast<void*>(pointer);
    return result == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

NCCL_EXPORT(ncclResult_t, ncclMemFree, (void* pointer)) {
    const int device = current_device();
    CUcontext context = device < 0 ? nullptr : device_context(device);
    if (!context) {
        return ncclUnhandledCudaError;
    }
    ContextGuard guard(context);
    return driver_table()->cuMemFree(reinterpret_cast<CUdeviceptr>(pointer)) == CUDA_SUCCESS ? ncclSuccess
                                                                                             : ncclUnhandledCudaError;
}

NCCL_EXPORT(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void* buffer, size_t, void** handle)) {
    if (!find_core(comm) || !buffer || !handle) {
        return ncclInvalidArgument;
    }
    *handle = buffer;
    return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void*)) {
    return find_core(comm) ? ncclSuccess : ncclInvalidArgument;
}

NCCL_EXPORT(ncclResult_t, ncclRedOpCreatePreMulSum,
            (ncclRedOp_t * op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence, ncclComm_t comm)) {
    const CoreRef core = find_core(comm);
    if (!core || !op || !scalar || element_bytes(type) == 0) {
        return ncclInvalidArgument;
    }
    PreMulScalar made;
    made.type = type;
    made.residence = residence;
    if (residence == ncclScalarHostImmediate) {
        std::memcpy(made.value, scalar, element_bytes(type));
    } else {
        made.device_value = scalar;  // read while the collective runs
    }
    std::lock_guard lock(core->lock);
    *op = static_cast<ncclRedOp_t>(core->next_scalar++);
    core->scalars[*op] = made;
    return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
    const CoreRef core = find_core(comm);
    if (!core) {
        return ncclInvalidArgument;
    }
    std::lock_guard lock(core->lock);
    return core->scalars.erase(op) ? ncclSuccess : ncclInvalidArgument;
}

NCCL_EXPORT(ncclResult_t, ncclSetEncryption, (const ncclEncryptionConfig_t* config)) {
    return config && config->magic == NCCL_API_MAGIC ? ncclSuccess : ncclInvalidArgument;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
NCCL_EXPORT(void, ncclResetDebugInit, ()) {}
#pragma GCC diagnostic pop

// This stand-in has no parameters: every key is unknown, the table is empty.
NCCL_EXPORT(ncclResult_t, ncclParamBind, (ncclParamHandle_t * out, const char*)) {
    if (out) {
        *out = nullptr;
    }
    return ncclInvalidArgument;
}

// clang-format off
#define SIMGPU_PARAM_TYPES(X)                                                                 \
    X(I8, int8_t) X(I16, int16_t) X(I32, int32_t) X(I64, int64_t) X(Str, const char*)         \
    X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t)
// clang-format on
#define ROW(suffix, type) \
    NCCL_EXPORT(ncclResult_t, ncclParamGet##suffix, (ncclParamHandle_t, type*)) { return ncclInvalidArgument; }
SIMGPU_PARAM_TYPES(ROW)
#undef ROW

NCCL_EXPORT(ncclResult_t, ncclParamGet, (ncclParamHandle_t, void*, int, int*)) { return ncclInvalidArgument; }
NCCL_EXPORT(ncclResult_t, ncclParamGetParameter, (const char*, const char**, int*)) { return ncclInvalidArgument; }
NCCL_EXPORT(ncclResult_t, ncclParamGetAllParameterKeys, (const char*** table, int* count)) {
    static const char* none[] = {nullptr};
    *table = none;
    *count = 0;
    return ncclSuccess;
}
NCCL_EXPORT(void, ncclParamDumpAll, (void)) {}
