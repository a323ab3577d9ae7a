#include "find_driver_api.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "base/loaded_objects.h"
#include "kept_libraries.h"
#include "same_shape.h"

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

template <typename Vendor, typename Ours>
bool find(const LoadedObject& library, const char* name, Vendor, Ours& slot) {
    slot = reinterpret_cast<Ours>(function_in(library, name));
    return slot != nullptr;
}

}  // namespace

bool find_driver_api(tracer::DriverApi& driver) {
    const LoadedObject library = object_called("libcuda.so.1");
    if (!library) {
        return false;
    }
    bool all = true;
    // clang-format off
#define TITAN_FIND(slot, name)                                                                   \
    static_assert(same_shape(static_cast<decltype(&::name)>(nullptr), decltype(driver.slot){})); \
    all = find(library, #name, static_cast<decltype(&::name)>(nullptr), driver.slot) && all;
    TITAN_FIND(driver_version, cuDriverGetVersion)
    TITAN_FIND(ctx_get_current, cuCtxGetCurrent)
    TITAN_FIND(ctx_set_current, cuCtxSetCurrent)
    TITAN_FIND(ctx_push_current, cuCtxPushCurrent_v2)
    TITAN_FIND(ctx_pop_current, cuCtxPopCurrent_v2)
    TITAN_FIND(stream_get_ctx, cuStreamGetCtx)
    TITAN_FIND(stream_is_capturing, cuStreamIsCapturing)
    TITAN_FIND(exchange_capture_mode, cuThreadExchangeStreamCaptureMode)
    TITAN_FIND(event_create, cuEventCreate)
    TITAN_FIND(event_record, cuEventRecord)
    TITAN_FIND(event_query, cuEventQuery)
    const bool required = all;
    TITAN_FIND(ctx_get_device, cuCtxGetDevice)
    TITAN_FIND(device_get_pci_bus_id, cuDeviceGetPCIBusId)
    TITAN_FIND(primary_ctx_get_state, cuDevicePrimaryCtxGetState)
    TITAN_FIND(event_elapsed_time, cuEventElapsedTime)
    TITAN_FIND(stream_get_capture_info, cuStreamGetCaptureInfo_v2)
    TITAN_FIND(stream_write_value64, cuStreamWriteValue64_v2)
    TITAN_FIND(mem_host_register, cuMemHostRegister_v2)
    TITAN_FIND(mem_host_get_device_pointer, cuMemHostGetDevicePointer_v2)
#undef TITAN_FIND
    // clang-format on
    if (required) {
        keep_loaded(reinterpret_cast<void*>(driver.driver_version));
    }
    return required;
}

}  // namespace titan::interpose
