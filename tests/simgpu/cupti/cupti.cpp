// CUPTI's callback interface for the driver and runtime calls of the stand-in libraries: one subscriber, as in CUPTI.
#pragma GCC visibility push(default)
#include <cupti.h>
#pragma GCC visibility pop

#include <dlfcn.h>
#include <time.h>

#include <atomic>
#include <mutex>

#include "simgpu_hook.h"

struct CUpti_Subscriber_st {
    CUpti_CallbackFunc callback;
    void* data;
};

namespace {

constexpr uint32_t kMostIds = 1024;

struct Api {
    std::mutex lock;
    std::atomic<CUpti_SubscriberHandle> subscriber{nullptr};
    std::atomic<bool> enabled[CUPTI_CB_DOMAIN_SIZE][kMostIds] = {};
};

Api& api() {
    static auto* instance = new Api;
    return *instance;
}

void deliver(int site, SimgpuApiCall* call) {
    const CUpti_SubscriberHandle subscriber = api().subscriber;
    if (!subscriber || call->cbid >= kMostIds || !api().enabled[call->domain][call->cbid]) {
        return;
    }
    CUpti_CallbackData data = {};
    data.callbackSite = site == kSimgpuEnter ? CUPTI_API_ENTER : CUPTI_API_EXIT;
    data.functionName = call->name;
    data.functionParams = call->params;
    data.functionReturnValue = const_cast<void*>(call->result);
    data.symbolName = call->symbol;
    data.correlationData = &call->data;
    data.correlationId = call->correlation_id;
    subscriber->callback(subscriber->data, static_cast<CUpti_CallbackDomain>(call->domain), call->cbid, &data);
}

bool listen(SimgpuApiHook hook) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    auto* state = driver ? static_cast<SimgpuHookState*>(dlsym(driver, "simgpu_api_hook")) : nullptr;
    if (state) {
        __atomic_store_n(&state->hook, hook, __ATOMIC_RELEASE);
    }
    return state;
}

bool known(CUpti_SubscriberHandle subscriber) { return subscriber && subscriber == api().subscriber; }

void enable_all(uint32_t enable, CUpti_CallbackDomain domain) {
    for (std::atomic<bool>& one : api().enabled[domain]) {
        one = enable != 0;
    }
}

}  // namespace

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* data) {
    if (!subscriber || !callback) {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    std::lock_guard lock(api().lock);
    if (api().subscriber) {
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    if (!listen(deliver)) {
        return CUPTI_ERROR_NOT_INITIALIZED;
    }
    *subscriber = new CUpti_Subscriber_st{callback, data};
    api().subscriber = *subscriber;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
    std::lock_guard lock(api().lock);
    if (!known(subscriber)) {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    listen(nullptr);
    for (int domain = 0; domain < CUPTI_CB_DOMAIN_SIZE; ++domain) {
        enable_all(0, static_cast<CUpti_CallbackDomain>(domain));
    }
    api().subscriber = nullptr;  // its memory stays: a callback may be running
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id) {
    if (!known(subscriber) || domain <= 0 || domain >= CUPTI_CB_DOMAIN_SIZE || id >= kMostIds) {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    api().enabled[domain][id] = enable != 0;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain) {
    if (!known(subscriber) || domain <= 0 || domain >= CUPTI_CB_DOMAIN_SIZE) {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    enable_all(enable, domain);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle subscriber) {
    if (!known(subscriber)) {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    for (int domain = 1; domain < CUPTI_CB_DOMAIN_SIZE; ++domain) {
        enable_all(enable, static_cast<CUpti_CallbackDomain>(domain));
    }
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackState(uint32_t* enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                  CUpti_CallbackId id) {
    if (!enable || !known(subscriber) || domain <= 0 || domain >= CUPTI_CB_DOMAIN_SIZE || id >= kMostIds) {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    *enable = api().enabled[domain][id];
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
    static constexpr struct {
        int domain;
        uint32_t id;
        const char* name;
    } kNames[] = {
#include "cupti_names.inc"
    };
    for (const auto& row : kNames) {
        if (name && row.domain == static_cast<int>(domain) && row.id == id) {
            *name = row.name;
            return CUPTI_SUCCESS;
        }
    }
    return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiSupportedDomains(size_t* count, CUpti_DomainTable* table) {
    static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API};
    if (!count || !table) {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    *count = 2;
    *table = domains;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetVersion(uint32_t* version) {
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *timestamp = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
    switch (result) {
        case CUPTI_SUCCESS: *text = "CUPTI_SUCCESS"; break;
        case CUPTI_ERROR_INVALID_PARAMETER: *text = "CUPTI_ERROR_INVALID_PARAMETER"; break;
        case CUPTI_ERROR_NOT_INITIALIZED: *text = "CUPTI_ERROR_NOT_INITIALIZED"; break;
        case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
            *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
            break;
        default: *text = "CUPTI_ERROR_UNKNOWN"; break;
    }
    return CUPTI_SUCCESS;
}
