// The few functions of NVML that the tracer calls where the program has loaded it, as NCCL and PyTorch do; never
// linked. Types are NVML's own with handles as addresses and enumerations as int; interpose/resolve/vendor_apis.cpp
// checks them against nvml.h. All may be null but `init` and `device_by_bus_id`: the driver is too old for them.
#pragma once

#include <cstdint>

namespace titan::tracer {

struct NvmlUtilization {
    unsigned gpu;  // percent of the time in which a kernel ran
    unsigned memory;
};

struct NvmlMemory {
    unsigned long long total_bytes;
    unsigned long long free_bytes;
    unsigned long long used_bytes;
};

struct NvmlFieldValue {
    unsigned field;
    unsigned scope;
    long long timestamp_us;
    long long latency_us;
    int value_type;
    int result;
    union {
        double as_double;
        unsigned as_unsigned;
        unsigned long long as_unsigned_long_long;
    } value;
};

struct NvmlEvent {
    void* device;
    unsigned long long type;
    unsigned long long data;  // of an Xid: its number
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct NvmlApi {
    int (*init)();
    int (*device_by_bus_id)(const char* bus_id, void** device);
    int (*uuid)(void* device, char* text, unsigned bytes);
    int (*power_usage)(void* device, unsigned* milliwatts);
    int (*power_limit)(void* device, unsigned* milliwatts);
    int (*temperature)(void* device, int sensor, unsigned* degrees_c);
    int (*utilization)(void* device, NvmlUtilization* utilization);
    int (*memory)(void* device, NvmlMemory* memory);
    int (*clock)(void* device, int type, unsigned* mhz);
    int (*max_clock)(void* device, int type, unsigned* mhz);
    int (*clock_limits)(void* device, unsigned long long* reasons);
    int (*performance_state)(void* device, int* state);
    int (*ecc_errors)(void* device, int type, int counter, unsigned long long* errors);
    int (*pcie_width)(void* device, unsigned* lanes);
    int (*max_pcie_width)(void* device, unsigned* lanes);
    int (*pcie_generation)(void* device, unsigned* generation);
    int (*pcie_replays)(void* device, unsigned* replays);
    int (*nvlink_state)(void* device, unsigned link, int* is_active);
    int (*field_values)(void* device, int count, NvmlFieldValue* values);
    int (*event_set_create)(void** set);
    int (*register_events)(void* device, unsigned long long types, void* set);
    int (*event_set_wait)(void* set, NvmlEvent* event, unsigned timeout_ms);
};

inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlTemperatureGpu = 0;
inline constexpr int kNvmlClockSm = 1;
inline constexpr int kNvmlUncorrectedErrors = 1;
inline constexpr int kNvmlSinceBoot = 0;  // volatile counters: since the driver was loaded
inline constexpr int kNvmlValueDouble = 0;
inline constexpr int kNvmlValueUnsigned = 1;
inline constexpr unsigned kNvmlFieldNvlinkCrcErrors = 38;
inline constexpr unsigned kNvmlFieldNvlinkReplays = 52;
inline constexpr unsigned kNvmlFieldNvlinkRecoveries = 59;
inline constexpr unsigned long long kNvmlEventXid = 8;

}  // namespace titan::tracer
