// Symbols of loaded objects, read from their dynamic sections: for what may not go through dlsym, dladdr or dlopen. Those wait
// for the lock that a thread holds for all of dlopen, constructors included, and clear the thread's dlerror. The list of objects
// that is walked here has a lock of its own, which no code of others runs under. Allocates nothing.
#pragma once

#include <link.h>

#include <cstdint>

namespace titan::interpose {

// A loaded object; without a dynamic section it is none.
struct Object {
    uintptr_t bias;
    const ElfW(Dyn) * dynamic;
    uintptr_t begin;  // of the segment that holds the address in question
    uintptr_t bytes;

    explicit operator bool() const { return dynamic != nullptr; }
};

// Calls `visit(object, in_order)` for each, in the order in which they were loaded, until it returns true. `address` is the one
// in question. No object goes away meanwhile, so `visit` must not load any.
template <typename Visit>
void each_object(const void* address, Visit visit);

// A name with its hash, for one that is looked up in many objects.
struct SymbolName {
    explicit SymbolName(const char* name);
    SymbolName(const char* name, uint32_t known_hash) : text(name), hash(known_hash) {}
    const char* text;
    uint32_t hash;
};

// What an object itself defines.
class Symbols {
  public:
    explicit Symbols(const Object& object);

    // In its default version; null when it does not define it.
    void* function(const SymbolName& name) const;
    // The name of the exported function that begins there, null when there is none. Stays as long as the object.
    const char* name_of(const void* function) const;
    bool is_called(const char* soname) const;

  private:
    bool is_function(uint32_t index) const;
    bool is_function(uint32_t index, const char* name) const;
    uint32_t find_by_gnu_hash(const SymbolName& name) const;
    uint32_t find_by_hash(const char* name) const;
    uint32_t count() const;

    uintptr_t bias_;
    const ElfW(Sym) * symbols_ = nullptr;
    const char* strings_ = nullptr;
    const uint32_t* gnu_hash_ = nullptr;
    const ElfW(Word) * hash_ = nullptr;
    const uint16_t* versions_ = nullptr;  // one per symbol; null where nothing has a version
    uint64_t soname_ = 0;                 // in strings_
};

inline void* function_in(const Object& object, const char* name) { return Symbols(object).function(SymbolName(name)); }

// The object that holds this address, the one with this DT_SONAME. cold.
Object object_of(const void* address);
Object object_called(const char* soname);

// Does this library hold it?
bool is_ours(const void* address);

// What dlsym(RTLD_NEXT, name) finds for this library, of what was loaded with the program; before any constructor has run, too.
// Takes no lock at all.
void* function_behind_us(const char* name);

// ---

Object describe(const dl_phdr_info& info, const void* address);

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

}  // namespace titan::interpose
