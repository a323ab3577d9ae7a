// ObjectSymbols of loaded objects, read from their dynamic sections: for what may not go through dlsym, dladdr or
// dlopen. Those wait for the lock that a thread holds for all of dlopen, constructors included, and clear the thread's
// dlerror. The list of objects that is walked here has a lock of its own, which no code of others runs under. Allocates
// nothing.
#pragma once

#include <link.h>

#include <cstdint>

#include "base/elf_tables.h"

namespace titan {

// A loaded object; without a dynamic section it is none.
struct LoadedObject {
    uintptr_t bias;
    const ElfW(Dyn) * dynamic;
    uintptr_t begin;  // start of the segment that holds `address`
    uintptr_t bytes;

    explicit operator bool() const { return dynamic != nullptr; }
};

// Calls `visit(object, in_order)` for each, in the order in which they were loaded, until it returns true. `address` is
// the one in question. No object goes away meanwhile, so `visit` must not load any.
template <typename Visit>
void each_object(const void* address, Visit visit);

// Looks up functions that an object itself defines.
class ObjectSymbols {
  public:
    explicit ObjectSymbols(const LoadedObject& object);

    // The default version of that function; null if the object does not define it.
    void* function(const SymbolName& name) const;
    // The name of the exported function that begins there, null when there is none. Stays as long as the object.
    const char* name_of(const void* function) const;
    bool is_called(const char* soname) const;

  private:
    ElfTables tables_;
};

inline void* function_in(const LoadedObject& object, const char* name) {
    return ObjectSymbols(object).function(SymbolName(name));
}

// The object that holds this address, the one with this DT_SONAME. cold.
LoadedObject object_of(const void* address);
LoadedObject object_called(const char* soname);

// A process may have several objects of this name: copies of us, preloaded by different paths.
inline constexpr const char* kOurSoname = "libtitantrace.so";
// Does this library hold it?
bool is_ours(const void* address);

// Programs of another libc inherit the preload, too; in those this library only passes calls on. Asks for the loader,
// because add-ons for other libcs have the functions that only glibc had. signal-safe.
bool runs_with_glibc();
// The loader's list, the program first, to be read without its lock; null where it is not known.
const link_map* loaded_list();

// The function that dlsym(RTLD_NEXT, name) would find for this library, among objects loaded with the program and
// without copies of us. Works before any constructor has run, and takes no lock.
void* function_behind_us(const char* name);
// We were preloaded or linked, not opened later. signal-safe.
bool is_in_front_of_libc();

// ---

LoadedObject describe(const dl_phdr_info& info, const void* address);

template <typename Visit>
void each_object(const void* address, Visit visit) {
    struct Walk {
        const void* address;
        Visit& visit;
        size_t next;
    } walk{address, visit, 0};
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* opaque) {
            auto& at = *static_cast<Walk*>(opaque);
            return at.visit(describe(*info, at.address), at.next++) ? 1 : 0;
        },
        &walk);
}

}  // namespace titan
