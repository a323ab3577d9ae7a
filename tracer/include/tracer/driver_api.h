// The few CUDA driver functions that the tracer itself calls, found at run time, never linked. Types are the driver's
// own with handles as addresses and enumerations as int; interpose/resolve/vendor_apis.cpp checks them against
// cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::tracer {

struct DriverApi {
    int (*driver_version)(int* version);
    int (*ctx_get_current)(void** context);
    int (*ctx_set_current)(void* context);
    int (*ctx_push_current)(void* context);
    int (*ctx_pop_current)(void** context);
    int (*stream_get_ctx)(void* stream, void** context);
    int (*stream_is_capturing)(void* stream, int* status);
    int (*exchange_capture_mode)(int* mode);
    int (*event_create)(void** event, unsigned flags);
    int (*event_record)(void* event, void* stream);
    int (*event_query)(void* event);
    // These may be null: the driver is too old for them.
    int (*ctx_get_device)(int* device);
    int (*device_get_pci_bus_id)(char* text, int bytes, int device);
    int (*primary_ctx_get_state)(int device, unsigned* flags, int* active);
    int (*event_elapsed_time)(float* milliseconds, void* from, void* to);
    int (*stream_get_capture_info)(void* stream, int* status, uint64_t* id, void** graph, const void*** dependencies,
                                   size_t* dependency_count);
    int (*stream_write_value64)(void* stream, uint64_t device_address, uint64_t value, unsigned flags);
    int (*mem_host_register)(void* memory, size_t bytes, unsigned flags);
    int (*mem_host_get_device_pointer)(uint64_t* device_address, void* memory, unsigned flags);
};

inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaErrorNotReady = 600;
inline constexpr int kCudaErrorNotSupported = 801;
inline constexpr int kCudaErrorUnknown = 999;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostRegisterDeviceMap = 2;
inline constexpr int kCaptureStatusNone = 0;
inline constexpr int kCaptureStatusActive = 1;
inline constexpr int kCaptureModeRelaxed = 2;

}  // namespace titan::tracer
