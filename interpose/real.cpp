#include "real.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "tracer/report.h"

namespace titan::interpose {

constinit Callers callers[kApiIds][kCallersPerApi]{};

namespace {

const void* base_of(const void* address) {
    Dl_info info;
    return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// Any address of this library will do.
const void* own_base() { return base_of(reinterpret_cast<const void*>(&find_real_slow)); }

// `name` as seen from the object loaded from `path`: in itself, then in what it depends on. Never ours.
void* find_in_scope_of(const char* path, const char* name) {
    void* const handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) {
        return nullptr;
    }
    void* const found = dlsym(handle, name);
    dlclose(handle);
    return base_of(found) != own_base() ? found : nullptr;
}

void* find_in_scope_of_caller(const void* return_address, const char* name) {
    Dl_info caller;
    if (dladdr(return_address, &caller) == 0 || caller.dli_fname == nullptr) {
        return nullptr;
    }
    return find_in_scope_of(caller.dli_fname, name);
}

// Paths of all loaded objects, one after the other. They are collected first and opened later: dlopen inside
// dl_iterate_phdr takes the loader's locks in the opposite order of a thread that is in dlopen.
struct Paths {
    static constexpr size_t kBytes = 256 * 1024;
    char* text;
    size_t used;
};

int collect_path(dl_phdr_info* object, size_t, void* opaque) {
    auto& paths = *static_cast<Paths*>(opaque);
    const size_t length = strlen(object->dlpi_name) + 1;
    if (length > 1 && paths.used + length <= Paths::kBytes) {
        memcpy(paths.text + paths.used, object->dlpi_name, length);
        paths.used += length;
    }
    return 0;
}

// The first loaded object that itself defines `name`, whoever loaded it and however privately.
void* find_anywhere(const char* name) {
    void* const memory = mmap(nullptr, Paths::kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    Paths paths{static_cast<char*>(memory), 0};
    dl_iterate_phdr(collect_path, &paths);
    void* found = nullptr;
    for (size_t at = 0; at < paths.used && found == nullptr; at += strlen(paths.text + at) + 1) {
        found = find_in_scope_of(paths.text + at, name);
    }
    munmap(memory, Paths::kBytes);
    return found;
}

// NCCL exports every function twice, as ncclX (weak) and pncclX. The second cannot be somebody else's wrapper, so it is
// taken when the object that we found has it; another tool's preloaded wrapper has none and stays in the chain.
void* prefer_profiling_name(void* found, const char* name) {
    if (strncmp(name, "nccl", 4) != 0) {
        return found;
    }
    char profiling_name[80] = "p";
    strncat(profiling_name, name, sizeof profiling_name - 2);
    void* const profiling = find_beside(found, profiling_name);
    return profiling != nullptr ? profiling : found;
}

struct Range {
    uintptr_t address;
    uintptr_t begin;
    uintptr_t bytes;
};

int find_range(dl_phdr_info* object, size_t, void* opaque) {
    auto& range = *static_cast<Range*>(opaque);
    for (uint16_t i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = object->dlpi_phdr[i];
        const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && range.address - begin < segment.p_memsz) {
            range.begin = begin;
            range.bytes = segment.p_memsz;
            return 1;
        }
    }
    return 0;
}

// The code around the caller that shares its answer. Generated code belongs to no object: a piece of it will do.
Range range_of(const void* return_address) {
    constexpr uintptr_t kGenerated_bytes = 64 * 1024;
    const auto address = reinterpret_cast<uintptr_t>(return_address);
    Range range{address, address & ~(kGenerated_bytes - 1), kGenerated_bytes};
    dl_iterate_phdr(find_range, &range);
    return range;
}

// A process with more ranges than places looks the rest up at every call.
void remember(Api api, const void* return_address, void* real) {
    const Range range = range_of(return_address);
    for (Callers& place : callers[number_of(api)]) {
        uintptr_t begin = 0;
        if (place.begin.compare_exchange_strong(begin, range.begin, std::memory_order_relaxed)) {
            place.real = real;
            place.bytes.store(range.bytes, std::memory_order_release);
            return;
        }
        if (begin == range.begin) {
            return;  // another thread was quicker
        }
    }
}

void* find_remembered(Api api, const void* return_address) {
    for (const Callers& range : callers[number_of(api)]) {
        if (is_within(range, return_address)) {
            return range.real;
        }
    }
    return nullptr;
}

// What is remembered must stay loaded, else a later call would jump into nothing. One reference per library is enough,
// and its count does not matter: this one is never given back.
void keep_loaded(void* real) {
    Dl_info library;
    if (dladdr(real, &library) != 0 && library.dli_fname != nullptr) {
        dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
}

}  // namespace

void* find_beside(const void* address, const char* name) {
    Dl_info object;
    if (address == nullptr || dladdr(address, &object) == 0 || object.dli_fname == nullptr) {
        return nullptr;
    }
    void* const found = find_in_scope_of(object.dli_fname, name);
    return base_of(found) == object.dli_fbase ? found : nullptr;
}

void* find_real_slow(Api api, const void* return_address) {
    if (void* const known = find_remembered(api, return_address); known != nullptr) {
        return known;
    }
    const char* const name = api_names[number_of(api)];
    void* real = dlsym(RTLD_NEXT, name);
    if (real == nullptr) {
        real = find_in_scope_of_caller(return_address, name);
    }
    if (real == nullptr) {
        real = find_anywhere(name);
    }
    if (real == nullptr) {
        tracer::warn_once("%s was called, but no loaded library has it; it returns an error", name);
        return nullptr;
    }
    real = prefer_profiling_name(real, name);
    keep_loaded(real);
    remember(api, return_address, real);
    return real;
}

}  // namespace titan::interpose
