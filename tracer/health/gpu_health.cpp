#include "gpu_health.h"

#include "base/clock.h"
#include "base/text.h"
#include "bindings.h"
#include "formats/layout/xids.h"

namespace titan::tracer {

namespace {

// name, noise, and how it is read: false where the driver, or this kind of GPU, does not tell.
struct GpuReading {
    const char* name;
    double noise;
    bool (*read)(const NvmlApi& nvml, void* device, double& value);
};

template <typename Number>
using NumberFunction = int (*NvmlApi::*)(void*, Number*);

// Functions that tell one number of a device.
template <typename Number, NumberFunction<Number> Function, unsigned PerUnit = 1>
bool read_number(const NvmlApi& nvml, void* device, double& value) {
    Number number{};
    if (nvml.*Function == nullptr || (nvml.*Function)(device, &number) != kNvmlSuccess) {
        return false;
    }
    value = static_cast<double>(number) / PerUnit;
    return true;
}

using ClockFunction = int (*)(void*, int, unsigned*);

template <ClockFunction NvmlApi::*Function, int What>
bool read_of(const NvmlApi& nvml, void* device, double& value) {
    unsigned number = 0;
    if (nvml.*Function == nullptr || (nvml.*Function)(device, What, &number) != kNvmlSuccess) {
        return false;
    }
    value = number;
    return true;
}

bool read_utilization(const NvmlApi& nvml, void* device, double& value) {
    NvmlUtilization use{};
    const bool told = nvml.utilization != nullptr && nvml.utilization(device, &use) == kNvmlSuccess;
    value = use.gpu;
    return told;
}

bool read_memory(const NvmlApi& nvml, void* device, double& value) {
    NvmlMemory memory{};
    const bool told = nvml.memory != nullptr && nvml.memory(device, &memory) == kNvmlSuccess;
    value = static_cast<double>(memory.used_bytes >> 20);
    return told;
}

bool read_ecc_errors(const NvmlApi& nvml, void* device, double& value) {
    unsigned long long errors = 0;
    const bool told = nvml.ecc_errors != nullptr &&
                      nvml.ecc_errors(device, kNvmlUncorrectedErrors, kNvmlSinceBoot, &errors) == kNvmlSuccess;
    value = static_cast<double>(errors);
    return told;
}

bool read_links_up(const NvmlApi& nvml, void* device, double& value) {
    constexpr unsigned kMostLinks = 36;
    if (nvml.nvlink_state == nullptr) {
        return false;
    }
    unsigned link = 0;
    int is_active = 0;
    value = 0;
    for (; link < kMostLinks && nvml.nvlink_state(device, link, &is_active) == kNvmlSuccess; ++link) {
        value += is_active != 0 ? 1 : 0;
    }
    return link != 0;
}

constexpr GpuReading kReadings[] = {
    {"power_w", 10, read_number<unsigned, &NvmlApi::power_usage, 1000>},
    {"power_limit_w", 0, read_number<unsigned, &NvmlApi::power_limit, 1000>},
    {"temperature_c", 2, read_of<&NvmlApi::temperature, kNvmlTemperatureGpu>},
    {"utilization_percent", 5, read_utilization},
    {"memory_used_mib", 256, read_memory},
    {"sm_clock_mhz", 30, read_of<&NvmlApi::clock, kNvmlClockSm>},
    {"max_sm_clock_mhz", 0, read_of<&NvmlApi::max_clock, kNvmlClockSm>},
    {"clock_limits", 0, read_number<unsigned long long, &NvmlApi::clock_limits>},
    {"performance_state", 0, read_number<int, &NvmlApi::performance_state>},
    {"ecc_uncorrected", 0, read_ecc_errors},
    {"pcie_width", 0, read_number<unsigned, &NvmlApi::pcie_width>},
    {"max_pcie_width", 0, read_number<unsigned, &NvmlApi::max_pcie_width>},
    {"pcie_generation", 0, read_number<unsigned, &NvmlApi::pcie_generation>},
    {"pcie_replays", 0, read_number<unsigned, &NvmlApi::pcie_replays>},
    {"nvlinks_up", 0, read_links_up},
};

void note(HealthLog& log, int ordinal, const char* what, double value, double noise) {
    char name[64];
    format_text(name, sizeof(name), "gpu.%d.%s", ordinal, what);
    log.note(name, value, noise);
}

}  // namespace

bool GpuHealth::start() {
    works_ = bindings().find_nvml != nullptr && bindings().find_nvml(nvml_) && nvml_.init() == kNvmlSuccess;
    if (works_ && nvml_.event_set_create != nullptr && nvml_.event_set_create(&events_) != kNvmlSuccess) {
        events_ = nullptr;
    }
    return works_;
}

void GpuHealth::add(Recording& recording, int ordinal, const char* pci_bus_id) {
    Gpu gpu{nullptr, ordinal};
    if (!works_ || count_ == kMostGpus || nvml_.device_by_bus_id(pci_bus_id, &gpu.device) != kNvmlSuccess) {
        return;
    }
    char uuid[96] = "";
    if (nvml_.uuid != nullptr && nvml_.uuid(gpu.device, uuid, sizeof(uuid)) == kNvmlSuccess) {
        char key[32];
        format_text(key, sizeof(key), "gpu.%d.uuid", ordinal);
        recording.labels.set(recording.strings.intern(key), recording.strings.intern(uuid), now_ticks(), 0);
    }
    if (events_ != nullptr && nvml_.register_events != nullptr) {
        nvml_.register_events(gpu.device, kNvmlEventXid, events_);
    }
    gpus_[count_++] = gpu;
}

void GpuHealth::read(HealthLog& log) {
    for (uint32_t i = 0; i < count_; ++i) {
        for (const GpuReading& reading : kReadings) {
            double value = 0;
            if (reading.read(nvml_, gpus_[i].device, value)) {
                note(log, gpus_[i].ordinal, reading.name, value, reading.noise);
            }
        }
        read_links(gpus_[i], log);
    }
}

void GpuHealth::read_links(const Gpu& gpu, HealthLog& log) const {
    constexpr struct {
        unsigned field;
        const char* name;
    } kFields[] = {{kNvmlFieldNvlinkCrcErrors, "nvlink_crc_errors"},
                   {kNvmlFieldNvlinkReplays, "nvlink_replays"},
                   {kNvmlFieldNvlinkRecoveries, "nvlink_recoveries"}};
    constexpr int kCount = sizeof(kFields) / sizeof(kFields[0]);
    NvmlFieldValue values[kCount]{};
    for (int i = 0; i < kCount; ++i) {
        values[i].field = kFields[i].field;
    }
    if (nvml_.field_values == nullptr || nvml_.field_values(gpu.device, kCount, values) != kNvmlSuccess) {
        return;
    }
    for (int i = 0; i < kCount; ++i) {
        const NvmlFieldValue& value = values[i];
        if (value.result == kNvmlSuccess && value.value_type != kNvmlValueDouble) {
            const unsigned long long count =
                value.value_type == kNvmlValueUnsigned ? value.value.as_unsigned : value.value.as_unsigned_long_long;
            note(log, gpu.ordinal, kFields[i].name, static_cast<double>(count), 0);
        }
    }
}

// NVML tells each once to every process.
void GpuHealth::read_xids(HealthLog& log) {
    constexpr int kMostAtATime = 16;
    NvmlEvent event{};
    for (int i = 0; i < kMostAtATime && events_ != nullptr && nvml_.event_set_wait != nullptr &&
                    nvml_.event_set_wait(events_, &event, 0) == kNvmlSuccess;
         ++i) {
        for (uint32_t gpu = 0; gpu < count_; ++gpu) {
            if (gpus_[gpu].device == event.device && event.type == kNvmlEventXid) {
                char name[64];
                format_text(name, sizeof(name), "gpu.%d.%s%llu", gpus_[gpu].ordinal, format::kXidReading, event.data);
                log.note_event(name);
            }
        }
    }
}

}  // namespace titan::tracer
