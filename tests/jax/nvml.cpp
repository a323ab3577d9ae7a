// What XLA asks NVML: the driver's version, and how fast a device is connected. Declared by hand, as the toolkit brings
// no nvml.h; a status is an int, 0 success. What is not here XLA does without.
#include <cstdio>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3;

}  // namespace

EXPORT int nvmlInit_v2(void) { return kSuccess; }
EXPORT int nvmlShutdown(void) { return kSuccess; }

EXPORT const char* nvmlErrorString(int status) {
    return status == kSuccess ? "Success" : status == kNotSupported ? "Not Supported" : "Invalid Argument";
}

EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
    std::snprintf(version, length, "580.0");
    return kSuccess;
}

// The handle is the bus of the stand-in driver's cuDeviceGetPCIBusId.
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* text, void** device) {
    unsigned domain, bus;
    if (!text || !device || std::sscanf(text, "%x:%x", &domain, &bus) != 2) {
        return kInvalidArgument;
    }
    *device = reinterpret_cast<void*>(static_cast<size_t>(bus));
    return kSuccess;
}

EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* generation) {
    *generation = 5;
    return kSuccess;
}

EXPORT int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* width) {
    *width = 16;
    return kSuccess;
}

EXPORT int nvmlDeviceGetNvLinkState(void*, unsigned, void*) { return kNotSupported; }
EXPORT int nvmlDeviceGetGpuFabricInfoV(void*, void*) { return kNotSupported; }
