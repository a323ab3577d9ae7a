#include "nvtx.h"

#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstdlib>
#include <cstring>

namespace simgpu {

namespace {

struct Payload {
    uint64_t comm_hash;
    uint64_t bytes;
};

constexpr uint64_t kSchema =
    (1 << 24) + 5;  // behind the ids that tools give themselves; the name of that bound changed

bool disabled() {
    static const bool off = [] {
        const char* text = std::getenv("NCCL_NVTX_DISABLE");
        return text && std::strcmp(text, "0") != 0;
    }();
    return off;
}

nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t handle = nvtxDomainCreateA("NCCL");
    return handle;
}

}  // namespace

NvtxName::NvtxName(const char* name)
    : handle(disabled() ? nullptr : reinterpret_cast<void*>(nvtxDomainRegisterStringA(domain(), name))) {}

NvtxRange::NvtxRange(const NvtxName& name, uint64_t comm_hash, uint64_t bytes) {
    if (disabled()) {
        return;
    }
    const Payload payload{comm_hash, bytes};
    const nvtxPayloadData_t data{kSchema, sizeof(payload), &payload};
    nvtxEventAttributes_t attributes = {};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = static_cast<nvtxStringHandle_t>(name.handle);
    if (comm_hash) {
        attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
        attributes.reserved0 = 1;
        attributes.payload.ullValue = NVTX_POINTER_AS_PAYLOAD_ULLVALUE(&data);
    }
    pushed_ = true;
    nvtxDomainRangePushEx(domain(), &attributes);
}

NvtxRange::~NvtxRange() {
    if (pushed_) {
        nvtxDomainRangePop(domain());
    }
}

}  // namespace simgpu

#else

namespace simgpu {
NvtxName::NvtxName(const char*) {}
NvtxRange::NvtxRange(const NvtxName&, uint64_t, uint64_t) {}
NvtxRange::~NvtxRange() { pushed_ = false; }
}  // namespace simgpu

#endif
