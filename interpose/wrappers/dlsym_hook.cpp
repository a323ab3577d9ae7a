// dlsym and dlvsym hand out our wrappers for the functions of our tables.
//
// Concerns only our names, looked up in one library by handle. Everything else (RTLD_NEXT and RTLD_DEFAULT, whose
// meaning depends on the caller; other names; calls from this library) goes on into the real function by a jump with
// the caller's return address intact (dlsym_stub.S), as if we were not there. The search for dlopen'd libraries is
// never touched.
//
// May be called before any constructor, by malloc replacements and sanitizers that look their functions up: no
// allocation, no lock, no thread-local, nothing that could call dlsym again.
#include <dlfcn.h>
#include <string.h>

#include <atomic>

#include "api.h"
#include "base/hash.h"
#include "base/loaded_objects.h"
#include "libc_function.h"
#include "nccl_copies.h"
#include "thunks.h"

extern "C" {
// Result for the stubs: jump to `go_on`, or return `result` if that is null.
struct TitanLookup {
    void* go_on;
    void* result;
};
[[gnu::visibility("hidden")]] TitanLookup interpose_dlsym(void* handle, const char* name, const char*,
                                                          const void* caller);
[[gnu::visibility("hidden")]] TitanLookup interpose_dlvsym(void* handle, const char* name, const char* version,
                                                           const void* caller);
}

namespace titan::interpose {

namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

constinit std::atomic<void*> real_dlsym{nullptr};
constinit std::atomic<void*> real_dlvsym{nullptr};

// Open addressing over all names, made by the compiler.
constexpr size_t kNameSlots = 1024;
constexpr uint32_t kNameMask = kNameSlots - 1;

constexpr uint32_t hash_of(const char* name) {
    const uint32_t hash = fnv1a32(name);
    return hash ^ (hash >> 15);
}

struct NameTable {
    uint16_t api[kNameSlots]{};

    constexpr void add(Api id, const char* name) {
        uint32_t slot = hash_of(name) & kNameMask;
        while (api[slot] != 0) {
            slot = (slot + 1) & kNameMask;
        }
        api[slot] = static_cast<uint16_t>(id);
    }
};

constexpr NameTable collect() {
    NameTable table;
#define TITAN_ROW(id, since, name, ...) table.add(Api::name, #name);
#define TITAN_TABLE "nccl.def"
#include "every_row.h"
#define TITAN_ROW(name, ...) table.add(Api::name, #name);
#define TITAN_TABLE "cuda_runtime.def"
#include "every_row.h"
#define TITAN_ROW(name, ...) table.add(Api::name, #name);
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
    return table;
}

constexpr NameTable names = collect();

bool may_be_ours(const char* name) {
    return (name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'c') ||
           (name[0] == '_' && name[1] == '_' && name[2] == 'c' && name[3] == 'u');
}

uint16_t id_of(const char* name) {
    for (uint32_t slot = hash_of(name) & kNameMask; names.api[slot] != 0; slot = (slot + 1) & kNameMask) {
        if (strcmp(api_names[names.api[slot]], name) == 0) {
            return names.api[slot];
        }
    }
    return 0;
}

// 0: not for us.
uint16_t id_to_hand_out(void* handle, const char* name, const void* caller) {
    if (name == nullptr || handle == RTLD_NEXT || handle == RTLD_DEFAULT || !may_be_ours(name)) {
        return 0;
    }
    const uint16_t id = id_of(name);
    if (id == 0 || is_ours(caller)) {
        return 0;
    }
    return id > number_of(Api::kDriverBegin) && is_nccl(caller) ? uint16_t{0} : id;
}

}  // namespace

}  // namespace titan::interpose

using namespace titan::interpose;

TitanLookup interpose_dlsym(void* handle, const char* name, const char*, const void* caller) {
    void* const real = libc_function(real_dlsym, "dlsym");
    const uint16_t id = id_to_hand_out(handle, name, caller);
    if (id == 0 || real == nullptr) {
        return {real, nullptr};
    }
    return {nullptr, bind_thunk(static_cast<Api>(id), reinterpret_cast<Dlsym>(real)(handle, name))};
}

TitanLookup interpose_dlvsym(void* handle, const char* name, const char* version, const void* caller) {
    void* const real = libc_function(real_dlvsym, "dlvsym");
    const uint16_t id = id_to_hand_out(handle, name, caller);
    if (id == 0 || real == nullptr) {
        return {real, nullptr};
    }
    return {nullptr, bind_thunk(static_cast<Api>(id), reinterpret_cast<Dlvsym>(real)(handle, name, version))};
}
