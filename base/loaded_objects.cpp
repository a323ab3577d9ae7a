#include "base/loaded_objects.h"

extern "C" {
// The linker's own names for the first and the last byte of the output.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char _end[];
[[gnu::weak]] extern r_debug* _dl_debug_addr;
}

// The heads of the loaders' lists: glibc has the first, musl the second. Weak, because the loader ends a program whose
// preload asks for what its libc lacks. Both lists begin with the program, and their members with the fields of
// link_map.
#pragma weak _r_debug

namespace titan {

namespace {

constexpr PlainLoads kLoads;
using ExportedSymbols = ElfSymbols<PlainLoads>;

}  // namespace

LoadedObject describe(const dl_phdr_info& info, const void* address) {
    LoadedObject object{info.dlpi_addr, nullptr, 0, 0};
    for (uint16_t i = 0; i < info.dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = info.dlpi_phdr[i];
        const uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_DYNAMIC) {
            object.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
        } else if (segment.p_type == PT_LOAD && reinterpret_cast<uintptr_t>(address) - begin < segment.p_memsz) {
            object.begin = begin;
            object.bytes = segment.p_memsz;
        }
    }
    return object;
}

ObjectSymbols::ObjectSymbols(const LoadedObject& object) {
    if (object.dynamic == nullptr ||
        !read_dynamic(kLoads, reinterpret_cast<uint64_t>(object.dynamic), object.bias, tables_)) {
        tables_ = ElfTables{};
    }
}

void* ObjectSymbols::function(const SymbolName& name) const {
    return reinterpret_cast<void*>(ExportedSymbols(kLoads, tables_).find(name, ExportedSymbols::Kind::kFunction));
}

const char* ObjectSymbols::name_of(const void* function) const {
    const ExportedSymbols symbols(kLoads, tables_);
    const uint64_t count = symbols.count();
    Elf64_Sym symbol;
    for (uint64_t index = 1; index < count && symbols.symbol_at(index, symbol); ++index) {
        if (ExportedSymbols::is_defined(symbol, ExportedSymbols::Kind::kFunction) &&
            tables_.bias + symbol.st_value == reinterpret_cast<uint64_t>(function)) {
            return reinterpret_cast<const char*>(tables_.strings + symbol.st_name);
        }
    }
    return nullptr;
}

bool ObjectSymbols::is_called(const char* soname) const {
    return tables_.soname != 0 && kLoads.same_text(tables_.strings + tables_.soname, soname);
}

LoadedObject object_of(const void* address) {
    LoadedObject found{};
    each_object(address, [&](const LoadedObject& object, size_t) {
        found = object.bytes != 0 ? object : found;
        return object.bytes != 0;
    });
    return found;
}

LoadedObject object_called(const char* soname) {
    LoadedObject found{};
    each_object(nullptr, [&](const LoadedObject& object, size_t) {
        const bool same = ObjectSymbols(object).is_called(soname);
        found = same ? object : found;
        return same;
    });
    return found;
}

bool is_ours(const void* address) {
    const auto value = reinterpret_cast<uintptr_t>(address);
    return value >= reinterpret_cast<uintptr_t>(__ehdr_start) && value < reinterpret_cast<uintptr_t>(_end);
}

bool runs_with_glibc() { return &_r_debug != nullptr; }

const link_map* loaded_list() {
    if (runs_with_glibc()) {
        return _r_debug.r_map;
    }
    return &_dl_debug_addr != nullptr ? _dl_debug_addr->r_map : nullptr;
}

bool is_in_front_of_libc() {
    for (const link_map* map = loaded_list(); map != nullptr; map = map->l_next) {
        if (map->l_ld == _DYNAMIC) {
            return true;
        }
        if (ObjectSymbols({map->l_addr, map->l_ld, 0, 0}).is_called("libc.so.6")) {
            return false;
        }
    }
    return false;
}

// Reads the loader's list without its lock: the objects that we look for come before any that could be closed
// meanwhile.
void* function_behind_us(const char* name) {
    bool passed = false;
    void* before = nullptr;
    for (const link_map* map = loaded_list(); map != nullptr; map = map->l_next) {
        if (map->l_ld == _DYNAMIC) {  // the linker's name for this library's own dynamic section
            passed = true;
            continue;
        }
        const ObjectSymbols symbols({map->l_addr, map->l_ld, 0, 0});
        void* const found = symbols.is_called(kOurSoname) ? nullptr : symbols.function(SymbolName(name));
        if (found != nullptr && passed) {
            return found;
        }
        before = before != nullptr ? before : found;
    }
    return before;  // we were opened later: any but ours
}

}  // namespace titan
