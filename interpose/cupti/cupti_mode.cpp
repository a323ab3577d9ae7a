// Finding CUPTI, subscribing to it, and its callback. Layouts and numbers are CUPTI's since CUDA 8, and checked against
// its headers where the toolkit has them.
#include "cupti_mode.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/warn.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#endif

namespace titan::interpose {

constinit thread_local CuptiCallback cupti_callback __attribute__((tls_model("initial-exec"))){};

namespace {

enum Domain : int { kDriver = 1, kRuntime = 2 };
constexpr int kDomains = 3;
constexpr int kEnter = 0;
constexpr int kCuptiSuccess = 0;
constexpr int kAlreadySubscribed = 39;
constexpr uint32_t kCallbackIds = 2048;  // per domain; CUDA 13 has about 800
constexpr uint16_t kNoRow = UINT16_MAX;

struct CallbackData {
    int site;
    const char* function_name;
    const void* parameters;
    void* return_value;
    const char* symbol;
    void* context;
    uint32_t context_uid;
    uint64_t* correlation_data;
    uint32_t correlation_id;
};
using Subscriber = void*;
using Callback = void(void* user, int domain, uint32_t id, const CallbackData* data);

#if __has_include(<cupti.h>)
static_assert(sizeof(CallbackData) == sizeof(CUpti_CallbackData));
static_assert(offsetof(CallbackData, parameters) == offsetof(CUpti_CallbackData, functionParams));
static_assert(offsetof(CallbackData, return_value) == offsetof(CUpti_CallbackData, functionReturnValue));
static_assert(offsetof(CallbackData, symbol) == offsetof(CUpti_CallbackData, symbolName));
static_assert(offsetof(CallbackData, correlation_id) == offsetof(CUpti_CallbackData, correlationId));
static_assert(kDriver == static_cast<int>(CUPTI_CB_DOMAIN_DRIVER_API));
static_assert(kRuntime == static_cast<int>(CUPTI_CB_DOMAIN_RUNTIME_API));
static_assert(kEnter == static_cast<int>(CUPTI_API_ENTER));
static_assert(kAlreadySubscribed == static_cast<int>(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED));
static_assert(static_cast<int>(CUPTI_RUNTIME_TRACE_CBID_SIZE) < static_cast<int>(kCallbackIds));
#endif

struct Cupti {
    int (*subscribe)(Subscriber*, Callback*, void* user);
    int (*enable_callback)(uint32_t enable, Subscriber, int domain, uint32_t id);
    int (*get_callback_name)(int domain, uint32_t id, const char** name);
};

// The row of each callback; written before the callback is enabled.
constinit uint16_t rows_by_id[kDomains][kCallbackIds]{};

// The recorded call of this thread. CUDA calls that run inside it are not recorded.
struct Open {
    const CuptiRow* row;
    uint32_t correlation_id;
    tracer::Call call;
};
constinit thread_local Open open_call __attribute__((tls_model("initial-exec"))){};

const CuptiRows& rows_of(int domain) { return domain == kRuntime ? runtime_cupti_rows : driver_cupti_rows; }

// hot.
void on_callback(void*, int domain, uint32_t id, const CallbackData* data) {
    if ((domain != kDriver && domain != kRuntime) || id >= kCallbackIds || rows_by_id[domain][id] == kNoRow) {
        return;
    }
    const CuptiRow& row = rows_of(domain).rows[rows_by_id[domain][id]];
    Open& open = open_call;
    cupti_callback = {&open.call, 0, data->symbol};
    if (data->site == kEnter) {
        if (row.enter(data->parameters)) {
            open.row = &row;
            open.correlation_id = data->correlation_id;
        }
    } else if (open.row == &row && open.correlation_id == data->correlation_id) {
        open.row = nullptr;
        cupti_callback.result = data->return_value != nullptr ? *static_cast<const int*>(data->return_value) : 0;
        row.leave(data->parameters);
    }
}

// CUPTI's names of the runtime's functions end in the CUDA version that brought their parameters:
// cudaLaunchKernel_v7000.
size_t length_of_name(int domain, const char* name) {
    const size_t length = strlen(name);
    size_t digits = length;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') {
        --digits;
    }
    const bool versioned =
        domain == kRuntime && digits < length && digits > 2 && name[digits - 1] == 'v' && name[digits - 2] == '_';
    return versioned ? digits - 2 : length;
}

uint16_t find_row(int domain, const char* name) {
    const CuptiRows& rows = rows_of(domain);
    const size_t length = length_of_name(domain, name);
    for (size_t i = 0; i < rows.count; ++i) {
        if (strncmp(rows.rows[i].name, name, length) == 0 && rows.rows[i].name[length] == '\0') {
            return static_cast<uint16_t>(i);
        }
    }
    return kNoRow;
}

uint32_t enable_rows(const Cupti& cupti, Subscriber subscriber) {
    uint32_t enabled = 0;
    for (const int domain : {kDriver, kRuntime}) {
        for (uint32_t id = 0; id < kCallbackIds; ++id) {
            const char* name = nullptr;
            const bool known =
                id != 0 && cupti.get_callback_name(domain, id, &name) == kCuptiSuccess && name != nullptr;
            rows_by_id[domain][id] = known ? find_row(domain, name) : kNoRow;
            if (rows_by_id[domain][id] != kNoRow && cupti.enable_callback(1, subscriber, domain, id) == kCuptiSuccess) {
                ++enabled;
            }
        }
    }
    return enabled;
}

// The directory of the CUDA runtime that the program has loaded; CUPTI lies beside it or near it.
int find_runtime(dl_phdr_info* object, size_t, void* opaque) {
    const char* const file = strrchr(object->dlpi_name, '/');
    if (file == nullptr || strncmp(file, "/libcudart.so", 13) != 0) {
        return 0;
    }
    snprintf(static_cast<char*>(opaque), PATH_MAX, "%.*s", static_cast<int>(file - object->dlpi_name),
             object->dlpi_name);
    return 1;
}

void* open_in(const char* directory, const char* below) {
    constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};
    for (const char* const name : kNames) {
        char path[PATH_MAX + 64];
        snprintf(path, sizeof(path), "%s%s%s", directory, below, name);
        if (void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL); library != nullptr) {
            return library;
        }
    }
    return nullptr;
}

void* open_cupti() {
    char runtime[PATH_MAX] = "";
    dl_iterate_phdr(find_runtime, runtime);
    const char* const home = getenv("CUDA_HOME");
    struct Place {
        const char* directory;
        const char* below;
    };
    // Searched in this order: beside the runtime, in a toolkit, in the packages of PyPI, under CUDA_HOME, then wherever
    // the linker looks.
    const Place places[] = {{runtime, "/"},
                            {runtime, "/../extras/CUPTI/lib64/"},
                            {runtime, "/../../cuda_cupti/lib/"},
                            {home, "/lib64/"},
                            {home, "/extras/CUPTI/lib64/"}};
    for (const Place& place : places) {
        if (place.directory != nullptr && place.directory[0] != '\0') {
            if (void* const library = open_in(place.directory, place.below); library != nullptr) {
                return library;
            }
        }
    }
    return open_in("", "");
}

bool fill(void* library, Cupti& cupti) {
    const auto find = [library](const char* name, auto& slot) {
        slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
        return slot != nullptr;
    };
    return find("cuptiSubscribe", cupti.subscribe) && find("cuptiEnableCallback", cupti.enable_callback) &&
           find("cuptiGetCallbackName", cupti.get_callback_name);
}

// Takes CUPTI for us; returns null, or the reason why it is not available.
const char* take_cupti() {
    if (getenv("CUDA_INJECTION64_PATH") != nullptr) {
        return "a profiler is injected (CUDA_INJECTION64_PATH)";
    }
    void* const library = open_cupti();
    Cupti cupti{};
    if (library == nullptr || !fill(library, cupti)) {
        return "no libcupti was found";
    }
    Subscriber subscriber = nullptr;
    const int result = cupti.subscribe(&subscriber, on_callback, nullptr);
    if (result != kCuptiSuccess) {
        return result == kAlreadySubscribed ? "another profiler has subscribed" : "it does not let us subscribe";
    }
    return enable_rows(cupti, subscriber) > 0 ? nullptr : "it knows none of the calls that we record";
}

}  // namespace

bool start_cupti() {
    const char* const reason = take_cupti();
    if (reason != nullptr) {
        tracer::warn_once("TITANTRACE_CUDA=cupti: %s; CUDA calls are interposed instead", reason);
    }
    return reason == nullptr;
}

}  // namespace titan::interpose
