// Stand-in for libnvidia-ml.so.1: the functions that a recorder of health asks, built against NVIDIA's header. What the
// GPUs read comes from the file that SIMGPU_NVML names, with lines "GPU KEY NUMBER", read again at every call; what it
// does not hold is not supported. SIMGPU_NVML_SLOW_MS: every call takes as long, as with a GPU that hangs.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace {

constexpr unsigned kMostGpus = 16;

unsigned index_of(nvmlDevice_t device) { return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device)) - 1; }

std::optional<double> reading(unsigned gpu, const char* key) {
    if (const char* const slow = std::getenv("SIMGPU_NVML_SLOW_MS")) {
        usleep(static_cast<useconds_t>(std::strtoul(slow, nullptr, 10)) * 1000);
    }
    const char* const path = std::getenv("SIMGPU_NVML");
    std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "re");
    if (file == nullptr) {
        return std::nullopt;
    }
    std::optional<double> found;
    unsigned its_gpu = 0;
    char its_key[64];
    double value = 0;
    while (std::fscanf(file, "%u %63s %lf", &its_gpu, its_key, &value) == 3) {
        if (its_gpu == gpu && std::strcmp(its_key, key) == 0) {
            found = value;
        }
    }
    std::fclose(file);
    return found;
}

template <typename Number>
nvmlReturn_t tell(nvmlDevice_t device, const char* key, Number* number) {
    const std::optional<double> value = reading(index_of(device), key);
    if (!value) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *number = static_cast<Number>(*value);
    return NVML_SUCCESS;
}

double told_xids[kMostGpus];

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
    unsigned domain = 0;
    unsigned bus = 0;
    if (std::sscanf(bus_id, "%x:%x:", &domain, &bus) != 2 || bus == 0 || bus > kMostGpus) {
        return NVML_ERROR_NOT_FOUND;
    }
    *device = reinterpret_cast<nvmlDevice_t>(static_cast<uintptr_t>(bus));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
    std::snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012u", index_of(device));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* power) { return tell(device, "power_mw", power); }
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned* limit) {
    return tell(device, "power_limit_mw", limit);
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t, unsigned* degrees) {
    return tell(device, "temperature_c", degrees);
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* use) {
    use->memory = 0;
    return tell(device, "utilization", &use->gpu);
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
    return tell(device, "memory_used", &memory->used);
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t, unsigned* clock) {
    return tell(device, "sm_clock", clock);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t, unsigned* clock) {
    return tell(device, "max_sm_clock", clock);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
    return tell(device, "clock_limits", reasons);
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t* state) {
    return tell(device, "performance_state", state);
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t, nvmlEccCounterType_t,
                                         unsigned long long* errors) {
    return tell(device, "ecc_uncorrected", errors);
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned* width) {
    return tell(device, "pcie_width", width);
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned* width) {
    return tell(device, "max_pcie_width", width);
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned* generation) {
    return tell(device, "pcie_generation", generation);
}
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned* replays) {
    return tell(device, "pcie_replays", replays);
}
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t* state) {
    const std::optional<double> up = reading(index_of(device), "nvlinks_up");
    constexpr unsigned kLinks = 18;
    if (!up || link >= kLinks) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *state = link < static_cast<unsigned>(*up) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
    for (int i = 0; i < count; ++i) {
        const bool crc = values[i].fieldId == NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL;
        const bool replay = values[i].fieldId == NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL;
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        values[i].nvmlReturn = tell(device,
                                    crc      ? "nvlink_crc_errors"
                                    : replay ? "nvlink_replays"
                                             : "nvlink_recoveries",
                                    &values[i].value.ullVal);
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
    *set = reinterpret_cast<nvmlEventSet_t>(static_cast<uintptr_t>(1));
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t, unsigned long long, nvmlEventSet_t) { return NVML_SUCCESS; }
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t, nvmlEventData_t* event, unsigned) {
    for (unsigned gpu = 0; gpu < kMostGpus; ++gpu) {
        const std::optional<double> xid = reading(gpu, "xid");
        if (xid && *xid != told_xids[gpu]) {
            told_xids[gpu] = *xid;
            *event = {};
            event->device = reinterpret_cast<nvmlDevice_t>(static_cast<uintptr_t>(gpu + 1));
            event->eventType = nvmlEventTypeXidCriticalError;
            event->eventData = static_cast<unsigned long long>(*xid);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_TIMEOUT;
}

}  // extern "C"
