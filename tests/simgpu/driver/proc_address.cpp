// Driver API: cuGetProcAddress, which hands out the form of a function that a given CUDA version meant.
#include <cstring>

#include "vendor.h"

#define PER_THREAD(name, suffix, parameters, arguments) extern "C" decltype(name) name##_##suffix;
#include "per_thread.def"
#undef PER_THREAD

namespace {

struct Proc {
    const char* name;
    int since;
    const char* symbol;
    void* address;
};

struct PerThreadForm {
    const char* symbol;
    void* address;
};

void* per_thread_form(const char* symbol) {
    static const PerThreadForm rows[] = {
#define PER_THREAD(name, suffix, parameters, arguments) {#name, reinterpret_cast<void*>(&name##_##suffix)},
#include "per_thread.def"
#undef PER_THREAD
    };
    for (const PerThreadForm& row : rows) {
        if (std::strcmp(row.symbol, symbol) == 0) {
            return row.address;
        }
    }
    return nullptr;
}

const Proc* find(const char* name, int version, bool* known) {
    static const Proc rows[] = {
#define PROC(name, since, symbol) {#name, since, #symbol, reinterpret_cast<void*>(&symbol)},
#include "proc_address.def"
#undef PROC
    };
    const Proc* best = nullptr;
    *known = false;
    for (const Proc& row : rows) {
        if (std::strcmp(row.name, name) == 0) {
            *known = true;
            best = row.since <= version ? &row : best;
        }
    }
    return best;
}

constexpr cuuint64_t kKnownFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

}  // namespace

CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
    if (!symbol || !out || (flags & ~kKnownFlags) || (flags & kKnownFlags) == kKnownFlags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool known;
    const Proc* found = find(symbol, version, &known);
    *out = found ? found->address : nullptr;
    if (found && (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)) {
        void* own = per_thread_form(found->symbol);
        *out = own ? own : *out;
    }
    if (status) {
        *status = found   ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return found || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, out, version, flags, nullptr);
}
