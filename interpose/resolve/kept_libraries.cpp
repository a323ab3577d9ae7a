#include "kept_libraries.h"

#include <dlfcn.h>

#include <atomic>

namespace titan::interpose {

namespace {

constexpr size_t kLibraries = 32;

// One function of each, and what was done about its library.
struct Kept {
    std::atomic<const void*> dynamic;  // names the library; null: a free place. Written first
    std::atomic<void*> function;       // null: not known yet, or its reference is taken
};
constinit Kept kept[kLibraries]{};
constinit std::atomic<size_t> loaded_at_start{0};
constinit std::atomic<void*> real_dlclose{nullptr};

void take_reference(void* function) {
    Dl_info library;
    if (dladdr(function, &library) != 0 && library.dli_fname != nullptr) {
        dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
}

void take_references() {
    for (Kept& place : kept) {
        if (void* const function = place.function.exchange(nullptr, std::memory_order_acquire); function != nullptr) {
            take_reference(function);
        }
    }
}

bool is_kept(const LoadedObject& library, void* function) {
    for (Kept& place : kept) {
        const void* of = nullptr;
        if (place.dynamic.compare_exchange_strong(of, library.dynamic, std::memory_order_relaxed)) {
            place.function.store(function, std::memory_order_release);
            return true;
        }
        if (of == library.dynamic) {
            return true;
        }
    }
    return false;
}

// The program itself and this library: closing those has no effect but that it waits for the loader's lock. NCCL closes
// its profiler plugin, which is one of them where it is us, on the way out of an abort. The front of the loader's list
// does not change.
bool is_here_to_stay(const void* handle) {
    const link_map* map = loaded_list();
    if (handle == map) {
        return true;
    }
    for (size_t i = 0; map != nullptr && is_loaded_at_start(i); ++i, map = map->l_next) {
        if (map == handle) {
            return map->l_ld == _DYNAMIC;
        }
    }
    return false;
}

}  // namespace

void note_loaded_at_start() {
    size_t count = 0;
    each_object(nullptr, [&](const LoadedObject&, size_t) {
        ++count;
        return false;
    });
    loaded_at_start.store(count, std::memory_order_relaxed);
    real_dlclose.store(function_behind_us("dlclose"), std::memory_order_relaxed);
}

bool is_loaded_at_start(size_t in_order) { return in_order < loaded_at_start.load(std::memory_order_relaxed); }

LoadedObject keep_loaded(void* function) {
    LoadedObject library{};
    bool at_start = false;
    each_object(function, [&](const LoadedObject& object, size_t in_order) {
        library = object;
        at_start = is_loaded_at_start(in_order);
        return object.bytes != 0;
    });
    if (library.bytes != 0 && !at_start && !is_kept(library, function)) {
        take_reference(function);  // more libraries with our functions than any process was seen with
    }
    return library;
}

}  // namespace titan::interpose

extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) noexcept {
    using namespace titan::interpose;
    if (is_here_to_stay(handle)) {
        return 0;
    }
    take_references();
    void* real = real_dlclose.load(std::memory_order_relaxed);
    if (real == nullptr) {
        real = titan::function_behind_us("dlclose");
    }
    return real != nullptr ? reinterpret_cast<int (*)(void*)>(real)(handle) : -1;
}
