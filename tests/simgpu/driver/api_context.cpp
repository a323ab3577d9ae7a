// Driver API: contexts. Each device has one primary context; the current one is the top of the thread's stack.
#include <atomic>

#include "impl.h"

namespace simgpu::impl {

namespace {

CUcontext new_context(CUdevice device, unsigned flags) {  // lock held
    auto* context = new CUctx_st;
    context->device = device;
    context->flags = flags;
    context->id = driver().next_id++;
    driver().contexts.insert(context);
    return context;
}

// Kernels that poll are told to stop; others keep their worker thread, which only the end of the process ends. The
// object itself is never freed: streams and running kernels may still point to it.
void retire_context(CUcontext context) {  // lock held
    std::atomic_ref<int32_t>(*context->cancelled).store(1);
    Driver& state = driver();
    for (auto it = state.streams.begin(); it != state.streams.end();) {
        if (it->second->context == context) {
            it->second->queue->close();
            it = state.streams.erase(it);
        } else {
            ++it;
        }
    }
    state.contexts.erase(context);
}

CUresult check_ordinal(CUdevice device) {
    SIMGPU_TRY(ready());
    return device >= 0 && device < driver().device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult reset_primary(CUdevice device, bool only_release) {
    SIMGPU_TRY(check_ordinal(device));
    std::lock_guard lock(driver().lock);
    auto found = driver().primary.find(device);
    if (found == driver().primary.end()) {
        return only_release ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
    }
    if (!only_release || --found->second.second <= 0) {
        retire_context(found->second.first);
        driver().primary.erase(found);
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
    SIMGPU_TRY(check_ordinal(device));
    std::lock_guard lock(driver().lock);
    auto& [context, retained] = driver().primary[device];
    if (!context) {
        context = new_context(device, 0);
    }
    ++retained;
    *out = context;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return reset_primary(device, true); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return reset_primary(device, false); }

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
    SIMGPU_TRY(check_ordinal(device));
    std::lock_guard lock(driver().lock);
    auto found = driver().primary.find(device);
    *active = found != driver().primary.end();
    *flags = *active ? found->second.first->flags : 0;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int) { return check_ordinal(device); }

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
    SIMGPU_TRY(check_ordinal(device));
    {
        std::lock_guard lock(driver().lock);
        *out = new_context(device, flags);
    }
    context_stack().push_back(*out);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    SIMGPU_TRY(ready());
    std::lock_guard lock(driver().lock);
    if (!driver().contexts.count(context)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    retire_context(context);
    if (!context_stack().empty() && context_stack().back() == context) {
        context_stack().pop_back();
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    SIMGPU_TRY(ready());
    context_stack().push_back(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* out) {
    SIMGPU_TRY(ready());
    if (context_stack().empty()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (out) {
        *out = context_stack().back();
    }
    context_stack().pop_back();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    SIMGPU_TRY(ready());
    current_context() = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* out) {
    SIMGPU_TRY(ready());
    *out = context_stack().empty() ? nullptr : context_stack().back();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
    CUcontext context;
    const CUresult result = require_context(&context);
    if (result == CUDA_SUCCESS) {
        *device = context->device;
    }
    return result;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
    CUcontext current = context;
    if (!current) {
        SIMGPU_TRY(require_context(&current));
    }
    *id = current->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned int* version) {
    *version = 3020;
    return ready();
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    if (least) {
        *least = 0;
    }
    if (greatest) {
        *greatest = -5;
    }
    return ready();
}

CUresult cuCtxEnablePeerAccess(CUcontext, unsigned int) { return ready(); }

CUresult cuCtxSynchronize(void) {
    CUcontext context;
    const CUresult result = require_context(&context);
    return result == CUDA_SUCCESS ? drain_context(context) : result;
}

}  // namespace simgpu::impl
