#include "find_nvml_api.h"

#include <cstddef>

#include "base/loaded_objects.h"
#include "kept_libraries.h"
#include "same_shape.h"

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
#define TITAN_CHECK_SHAPE(slot, name) \
    static_assert(same_shape(static_cast<decltype(&::name)>(nullptr), decltype(nvml.slot){}));
#else
#define TITAN_CHECK_SHAPE(slot, name)
#endif

template <typename Function>
void* find(const LoadedObject& library, const char* name, Function*& slot) {
    void* const found = function_in(library, name);
    slot = reinterpret_cast<Function*>(found);
    return found;
}

}  // namespace

bool find_nvml_api(tracer::NvmlApi& nvml) {
    const LoadedObject library = object_called("libnvidia-ml.so.1");
    if (!library) {
        return false;
    }
    // clang-format off
#define TITAN_FIND(slot, name)     \
    TITAN_CHECK_SHAPE(slot, name)  \
    find(library, #name, nvml.slot);
    TITAN_FIND(init, nvmlInit_v2)
    TITAN_FIND(device_by_bus_id, nvmlDeviceGetHandleByPciBusId_v2)
    TITAN_FIND(uuid, nvmlDeviceGetUUID)
    TITAN_FIND(power_usage, nvmlDeviceGetPowerUsage)
    TITAN_FIND(power_limit, nvmlDeviceGetEnforcedPowerLimit)
    TITAN_FIND(temperature, nvmlDeviceGetTemperature)
    TITAN_FIND(utilization, nvmlDeviceGetUtilizationRates)
    TITAN_FIND(memory, nvmlDeviceGetMemoryInfo)
    TITAN_FIND(clock, nvmlDeviceGetClockInfo)
    TITAN_FIND(max_clock, nvmlDeviceGetMaxClockInfo)
    TITAN_FIND(clock_limits, nvmlDeviceGetCurrentClocksThrottleReasons)
    TITAN_FIND(performance_state, nvmlDeviceGetPerformanceState)
    TITAN_FIND(ecc_errors, nvmlDeviceGetTotalEccErrors)
    TITAN_FIND(pcie_width, nvmlDeviceGetCurrPcieLinkWidth)
    TITAN_FIND(max_pcie_width, nvmlDeviceGetMaxPcieLinkWidth)
    TITAN_FIND(pcie_generation, nvmlDeviceGetCurrPcieLinkGeneration)
    TITAN_FIND(pcie_replays, nvmlDeviceGetPcieReplayCounter)
    TITAN_FIND(nvlink_state, nvmlDeviceGetNvLinkState)
    TITAN_FIND(field_values, nvmlDeviceGetFieldValues)
    TITAN_FIND(event_set_create, nvmlEventSetCreate)
    TITAN_FIND(register_events, nvmlDeviceRegisterEvents)
    TITAN_FIND(event_set_wait, nvmlEventSetWait_v2)
#undef TITAN_FIND
    // clang-format on
    return nvml.init != nullptr && nvml.device_by_bus_id != nullptr && keep_loaded(reinterpret_cast<void*>(nvml.init));
}

}  // namespace titan::interpose
