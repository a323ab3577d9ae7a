#include "real.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include <utility>

#include "base/loaded_objects.h"
#include "kept_libraries.h"
#include "tracer/warn.h"

namespace titan::interpose {

namespace {

constexpr uint32_t kCallersPerApi = 16;
constinit Caller callers[kApiIds][kCallersPerApi]{};
constinit const Caller nobody{};

template <size_t... Ids>
constexpr std::array<std::atomic<const Caller*>, sizeof...(Ids)> nobody_each(std::index_sequence<Ids...>) {
    return {(static_cast<void>(Ids), &nobody)...};
}

}  // namespace

constinit std::array<std::atomic<const Caller*>, kApiIds> last_callers =
    nobody_each(std::make_index_sequence<kApiIds>());

namespace {

// NCCL exports every function twice, as ncclX (weak) and pncclX. The second cannot be somebody else's wrapper, so it is
// taken when the object that we found has it; another tool's preloaded wrapper has none and stays in the chain.
void* function_or_profiling_name(const ObjectSymbols& symbols, const SymbolName& name) {
    void* const found = symbols.function(name);
    if (found == nullptr || strncmp(name.text, "nccl", 4) != 0) {
        return found;
    }
    char profiling_name[80] = "p";
    strncat(profiling_name, name.text, sizeof(profiling_name) - 2);
    void* const profiling = symbols.function(SymbolName(profiling_name));
    return profiling != nullptr ? profiling : found;
}

// ---- With the loader, which we must ask if several libraries have the function: which one is meant depends on scopes
// that only the loader knows. It takes its lock, and clears the thread's dlerror.

// `name` as seen from the object loaded from `path`: in itself, then in what it depends on. Never ours.
void* find_in_scope_of(const char* path, const char* name) {
    void* const handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) {
        return nullptr;
    }
    void* const found = dlsym(handle, name);
    dlclose(handle);
    return is_ours(found) ? nullptr : found;
}

void* find_in_scope_of_caller(const void* return_address, const char* name) {
    Dl_info caller;
    if (dladdr(return_address, &caller) == 0 || caller.dli_fname == nullptr) {
        return nullptr;
    }
    return find_in_scope_of(caller.dli_fname, name);
}

void* ask_loader(const void* return_address, const char* name) {
    void* real = dlsym(RTLD_NEXT, name);
    if (real == nullptr) {
        real = find_in_scope_of_caller(return_address, name);
    }
    void* const known =
        real != nullptr ? function_or_profiling_name(ObjectSymbols(object_of(real)), SymbolName(name)) : nullptr;
    return known != nullptr ? known : real;
}

// ---- Without the loader. All names of a table are looked up at once, so that later calls, an abort above all, find
// their function even while the loader's lock is held.

struct Ids {
    size_t first;
    size_t end;
};

Ids table_of(Api api) {
    if (api < Api::kNcclEnd) {
        return {1, number_of(Api::kNcclEnd)};
    }
    return api < Api::kRuntimeEnd ? Ids{number_of(Api::kRuntimeBegin) + 1, number_of(Api::kRuntimeEnd)}
                                  : Ids{number_of(Api::kDriverBegin) + 1, number_of(Api::kDriverEnd)};
}
constexpr size_t kMostRows = number_of(Api::kDriverEnd) - number_of(Api::kDriverBegin);
static_assert(number_of(Api::kRuntimeEnd) - number_of(Api::kRuntimeBegin) <= kMostRows);
static_assert(number_of(Api::kNcclEnd) <= kMostRows);

// The objects that define a name.
struct Definitions {
    void* in_program;  // the first behind us of what was loaded with the program: always meant
    void* later;       // the first that was opened later
    void* before_us;   // the first of those in front of us, which have handed the call on
    bool many_later;
    bool many_before;

    void add(void* function, bool behind_us, bool at_start) {
        if (behind_us && at_start) {
            in_program = in_program != nullptr ? in_program : function;
        } else if (behind_us) {
            many_later = later != nullptr;
            later = later != nullptr ? later : function;
        } else {
            many_before = before_us != nullptr;
            before_us = before_us != nullptr ? before_us : function;
        }
    }
    // Null when there is none, or a choice.
    void* only() const {
        if (in_program != nullptr) {
            return in_program;
        }
        return later != nullptr ? (many_later ? nullptr : later) : (many_before ? nullptr : before_us);
    }
    void* any() const { return later != nullptr ? later : before_us; }
};

struct Range {
    uintptr_t begin;
    uintptr_t bytes;
};

// Threads that call may have little stack.
struct Lookup {
    Ids ids;
    Range range;  // the code around the caller, which shares the answers
    Definitions of[kMostRows];
    uint32_t hashes[kMostRows];
};

void find_definitions(const void* return_address, Lookup& lookup) {
    // Generated code belongs to no object: a piece of it will do.
    constexpr uintptr_t kGeneratedBytes = uintptr_t{64} << 10;
    lookup.range = {reinterpret_cast<uintptr_t>(return_address) & ~(kGeneratedBytes - 1), kGeneratedBytes};
    for (size_t id = lookup.ids.first; id < lookup.ids.end; ++id) {
        lookup.hashes[id - lookup.ids.first] = api_names[id] != nullptr ? SymbolName(api_names[id]).gnu_hash : 0;
    }
    bool behind_us = false;
    each_object(return_address, [&](const LoadedObject& object, size_t in_order) {
        if (object.bytes != 0) {
            lookup.range = {object.begin, object.bytes};
        }
        if (object.dynamic == _DYNAMIC) {
            behind_us = true;
            return false;
        }
        const ObjectSymbols symbols(object);
        if (symbols.is_called(kOurSoname)) {
            return false;  // another copy of us, which is preloaded as well, is no library that a caller means
        }
        for (size_t id = lookup.ids.first; id < lookup.ids.end; ++id) {
            const size_t row = id - lookup.ids.first;
            void* const function =
                api_names[id] != nullptr
                    ? function_or_profiling_name(symbols, SymbolName(api_names[id], lookup.hashes[row]))
                    : nullptr;
            if (function != nullptr) {
                lookup.of[row].add(function, behind_us, is_loaded_at_start(in_order));
            }
        }
        return false;
    });
}

// Overflow is not cached: callers beyond the last place take the slow path every time.
void remember(size_t id, const Range& range, void* real) {
    for (Caller& place : callers[id]) {
        uintptr_t begin = 0;
        if (std::atomic_ref(place.begin).compare_exchange_strong(begin, range.begin, std::memory_order_relaxed)) {
            place.real = real;
            std::atomic_ref(place.bytes).store(range.bytes, std::memory_order_release);
            return;
        }
        if (begin == range.begin) {
            return;  // another thread was quicker
        }
    }
}

// The function of `api` that the caller means, with those of the other names of its table remembered on the way.
void* find_table(Api api, const void* return_address) {
    void* const memory = mmap(nullptr, sizeof(Lookup), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    auto* const lookup = static_cast<Lookup*>(memory);
    const Ids ids = lookup->ids = table_of(api);
    find_definitions(return_address, *lookup);
    void* asked_for = nullptr;
    LoadedObject kept{};
    for (size_t id = ids.first; id < ids.end; ++id) {
        const Definitions& definitions = lookup->of[id - ids.first];
        void* real = definitions.only();
        if (real == nullptr && definitions.any() != nullptr) {
            real = ask_loader(return_address, api_names[id]);
            real = real != nullptr ? real : definitions.any();
        }
        if (real == nullptr) {
            continue;
        }
        if (reinterpret_cast<uintptr_t>(real) - kept.begin >= kept.bytes) {
            kept = keep_loaded(real);
        }
        remember(id, lookup->range, real);
        asked_for = id == number_of(api) ? real : asked_for;
    }
    munmap(memory, sizeof(Lookup));
    return asked_for;
}

// Apart, so that a caller that is known, but was not the last, is found without a stack frame.
[[gnu::noinline]] void* find_unknown(Api api, const void* return_address) {
    void* const real = find_table(api, return_address);
    if (real == nullptr) {
        tracer::warn_once("%s was called, but no loaded library has it; it returns an error",
                          api_names[number_of(api)]);
    }
    return real;
}

}  // namespace

void* find_real_slow(Api api, const void* return_address) {
    const size_t id = number_of(api);
    for (Caller& place : callers[id]) {
        if (std::atomic_ref(place.bytes).load(std::memory_order_acquire) != 0 && is_within(place, return_address)) {
            last_callers[id].store(&place, std::memory_order_release);
            return place.real;
        }
    }
    return find_unknown(api, return_address);
}

}  // namespace titan::interpose
