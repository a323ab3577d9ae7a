#include "vendor_apis.h"

#include <cstddef>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "base/loaded_objects.h"
#include "kept_libraries.h"

#if __has_include(<nvml.h>)
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#define TITAN_HAS_NVML_H 1
// Old and new drivers have them, their successors not.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#else
#define TITAN_HAS_NVML_H 0
#endif

namespace titan::interpose {

namespace {

static_assert(tracer::kCudaSuccess == CUDA_SUCCESS);
static_assert(tracer::kCudaErrorNotReady == CUDA_ERROR_NOT_READY);
static_assert(tracer::kCudaErrorNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(tracer::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(tracer::kHostRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(tracer::kCaptureStatusNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(tracer::kCaptureStatusActive == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(tracer::kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);

#if TITAN_HAS_NVML_H
static_assert(sizeof(tracer::NvmlUtilization) == sizeof(nvmlUtilization_t));
static_assert(offsetof(tracer::NvmlUtilization, memory) == offsetof(nvmlUtilization_t, memory));
static_assert(sizeof(tracer::NvmlMemory) == sizeof(nvmlMemory_t));
static_assert(offsetof(tracer::NvmlMemory, used_bytes) == offsetof(nvmlMemory_t, used));
static_assert(sizeof(tracer::NvmlFieldValue) == sizeof(nvmlFieldValue_t));
static_assert(offsetof(tracer::NvmlFieldValue, result) == offsetof(nvmlFieldValue_t, nvmlReturn));
static_assert(offsetof(tracer::NvmlFieldValue, value) == offsetof(nvmlFieldValue_t, value));
static_assert(sizeof(tracer::NvmlEvent) == sizeof(nvmlEventData_t));
static_assert(offsetof(tracer::NvmlEvent, data) == offsetof(nvmlEventData_t, eventData));
static_assert(tracer::kNvmlSuccess == NVML_SUCCESS);
static_assert(tracer::kNvmlTemperatureGpu == NVML_TEMPERATURE_GPU);
static_assert(tracer::kNvmlClockSm == NVML_CLOCK_SM);
static_assert(tracer::kNvmlUncorrectedErrors == NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
static_assert(tracer::kNvmlSinceBoot == NVML_VOLATILE_ECC);
static_assert(tracer::kNvmlValueDouble == NVML_VALUE_TYPE_DOUBLE);
static_assert(tracer::kNvmlValueUnsigned == NVML_VALUE_TYPE_UNSIGNED_INT);
static_assert(tracer::kNvmlFieldNvlinkCrcErrors == NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL);
static_assert(tracer::kNvmlFieldNvlinkReplays == NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL);
static_assert(tracer::kNvmlFieldNvlinkRecoveries == NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL);
static_assert(tracer::kNvmlEventXid == nvmlEventTypeXidCriticalError);
#endif

// A vendor's function and our pointer to it: the same number of parameters, each of the same size. Handles travel as
// addresses, enumerations as int.
template <typename Result, typename... A, typename... B>
constexpr bool same_shape(Result (*)(A...), int (*)(B...)) {
    return sizeof(Result) == sizeof(int) && sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...);
}

template <typename Function>
bool find(const LoadedObject& library, const char* name, Function*& slot) {
    slot = reinterpret_cast<Function*>(function_in(library, name));
    return slot != nullptr;
}

// clang-format off
#define TITAN_SAME_SHAPE(slot, name) \
    static_assert(same_shape(static_cast<decltype(&::name)>(nullptr), decltype(api.slot){}))
#define TITAN_FIND_CUDA(slot, name) TITAN_SAME_SHAPE(slot, name); all = find(library, #name, api.slot) && all;
#if TITAN_HAS_NVML_H
#define TITAN_FIND_NVML(slot, name) TITAN_SAME_SHAPE(slot, name); find(library, #name, api.slot);
#else
#define TITAN_FIND_NVML(slot, name) find(library, #name, api.slot);
#endif

}  // namespace

bool find_driver_api(tracer::DriverApi& api) {
    const LoadedObject library = object_called("libcuda.so.1");
    if (!library) {
        return false;
    }
    bool all = true;
    TITAN_FIND_CUDA(driver_version, cuDriverGetVersion)
    TITAN_FIND_CUDA(ctx_get_current, cuCtxGetCurrent)
    TITAN_FIND_CUDA(ctx_set_current, cuCtxSetCurrent)
    TITAN_FIND_CUDA(ctx_push_current, cuCtxPushCurrent_v2)
    TITAN_FIND_CUDA(ctx_pop_current, cuCtxPopCurrent_v2)
    TITAN_FIND_CUDA(stream_get_ctx, cuStreamGetCtx)
    TITAN_FIND_CUDA(stream_is_capturing, cuStreamIsCapturing)
    TITAN_FIND_CUDA(exchange_capture_mode, cuThreadExchangeStreamCaptureMode)
    TITAN_FIND_CUDA(event_create, cuEventCreate)
    TITAN_FIND_CUDA(event_record, cuEventRecord)
    TITAN_FIND_CUDA(event_query, cuEventQuery)
    const bool required = all;
    TITAN_FIND_CUDA(ctx_get_device, cuCtxGetDevice)
    TITAN_FIND_CUDA(device_get_pci_bus_id, cuDeviceGetPCIBusId)
    TITAN_FIND_CUDA(primary_ctx_get_state, cuDevicePrimaryCtxGetState)
    TITAN_FIND_CUDA(event_elapsed_time, cuEventElapsedTime)
    TITAN_FIND_CUDA(stream_get_capture_info, cuStreamGetCaptureInfo_v2)
    TITAN_FIND_CUDA(stream_write_value64, cuStreamWriteValue64_v2)
    TITAN_FIND_CUDA(mem_host_register, cuMemHostRegister_v2)
    TITAN_FIND_CUDA(mem_host_get_device_pointer, cuMemHostGetDevicePointer_v2)
    if (required) {
        keep_loaded(reinterpret_cast<void*>(api.driver_version));
    }
    return required;
}

bool find_nvml_api(tracer::NvmlApi& api) {
    const LoadedObject library = object_called("libnvidia-ml.so.1");
    if (!library) {
        return false;
    }
    TITAN_FIND_NVML(init, nvmlInit_v2)
    TITAN_FIND_NVML(device_by_bus_id, nvmlDeviceGetHandleByPciBusId_v2)
    TITAN_FIND_NVML(uuid, nvmlDeviceGetUUID)
    TITAN_FIND_NVML(power_usage, nvmlDeviceGetPowerUsage)
    TITAN_FIND_NVML(power_limit, nvmlDeviceGetEnforcedPowerLimit)
    TITAN_FIND_NVML(temperature, nvmlDeviceGetTemperature)
    TITAN_FIND_NVML(utilization, nvmlDeviceGetUtilizationRates)
    TITAN_FIND_NVML(memory, nvmlDeviceGetMemoryInfo)
    TITAN_FIND_NVML(clock, nvmlDeviceGetClockInfo)
    TITAN_FIND_NVML(max_clock, nvmlDeviceGetMaxClockInfo)
    TITAN_FIND_NVML(clock_limits, nvmlDeviceGetCurrentClocksThrottleReasons)
    TITAN_FIND_NVML(performance_state, nvmlDeviceGetPerformanceState)
    TITAN_FIND_NVML(ecc_errors, nvmlDeviceGetTotalEccErrors)
    TITAN_FIND_NVML(pcie_width, nvmlDeviceGetCurrPcieLinkWidth)
    TITAN_FIND_NVML(max_pcie_width, nvmlDeviceGetMaxPcieLinkWidth)
    TITAN_FIND_NVML(pcie_generation, nvmlDeviceGetCurrPcieLinkGeneration)
    TITAN_FIND_NVML(pcie_replays, nvmlDeviceGetPcieReplayCounter)
    TITAN_FIND_NVML(nvlink_state, nvmlDeviceGetNvLinkState)
    TITAN_FIND_NVML(field_values, nvmlDeviceGetFieldValues)
    TITAN_FIND_NVML(event_set_create, nvmlEventSetCreate)
    TITAN_FIND_NVML(register_events, nvmlDeviceRegisterEvents)
    TITAN_FIND_NVML(event_set_wait, nvmlEventSetWait_v2)
    return api.init != nullptr && api.device_by_bus_id != nullptr && keep_loaded(reinterpret_cast<void*>(api.init));
}
// clang-format on

}  // namespace titan::interpose
