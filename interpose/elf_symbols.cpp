#include "elf_symbols.h"

#include <dlfcn.h>

#include <cstdint>

extern "C" {
// The linker's own names for the first and the last byte of the output.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char _end[];
}

namespace titan::interpose {

namespace {

struct Tables {
    const ElfW(Sym) * symbols;
    const char* strings;
    const uint32_t* gnu_hash;
    const ElfW(Word) * hash;
};

// glibc adds the load address in place, other loaders leave the file's values.
template <typename T>
void set(const T*& slot, const link_map& object, ElfW(Addr) value) {
    slot = reinterpret_cast<const T*>(value < object.l_addr ? value + object.l_addr : value);
}

Tables tables_of(const link_map& object) {
    Tables tables{};
    for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
        switch (entry->d_tag) {
            case DT_SYMTAB: set(tables.symbols, object, entry->d_un.d_ptr); break;
            case DT_STRTAB: set(tables.strings, object, entry->d_un.d_ptr); break;
            case DT_GNU_HASH: set(tables.gnu_hash, object, entry->d_un.d_ptr); break;
            case DT_HASH: set(tables.hash, object, entry->d_un.d_ptr); break;
            default: break;
        }
    }
    return tables;
}

// Not strcmp: a sanitizer's own stands before libc's, and while it starts and asks dlsym for libc's, it leads nowhere.
bool is_same(const char* left, const char* right) {
    for (; *left == *right; ++left, ++right) {
        if (*left == '\0') {
            return true;
        }
    }
    return false;
}

bool is_function(const Tables& tables, uint32_t index, const char* name) {
    const ElfW(Sym)& symbol = tables.symbols[index];
    return symbol.st_shndx != SHN_UNDEF && (symbol.st_info & 0xf) == STT_FUNC &&
           is_same(tables.strings + symbol.st_name, name);
}

uint32_t gnu_hash_of(const char* name) {
    uint32_t hash = 5381;
    for (; *name != '\0'; ++name) {
        hash = hash * 33 + static_cast<unsigned char>(*name);
    }
    return hash;
}

// Header: buckets, first hashed symbol, words of the filter, a shift; then filter, buckets, and one hash per symbol whose
// lowest bit ends a chain. 0: not there.
uint32_t find_by_gnu_hash(const Tables& tables, const char* name) {
    const uint32_t* const header = tables.gnu_hash;
    const uint32_t bucket_count = header[0];
    const uint32_t first = header[1];
    const uint32_t* const buckets = header + 4 + header[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* const chains = buckets + bucket_count;
    const uint32_t wanted = gnu_hash_of(name);
    uint32_t index = bucket_count != 0 ? buckets[wanted % bucket_count] : 0;
    for (; index >= first && index != 0; ++index) {
        const uint32_t hash = chains[index - first];
        if ((hash | 1) == (wanted | 1) && is_function(tables, index, name)) {
            return index;
        }
        if ((hash & 1) != 0) {
            break;
        }
    }
    return 0;
}

uint32_t find_by_hash(const Tables& tables, const char* name) {
    const ElfW(Word) count = tables.hash[1];  // of the chain table, which has an entry per symbol
    for (uint32_t index = 1; index < count; ++index) {
        if (is_function(tables, index, name)) {
            return index;
        }
    }
    return 0;
}

}  // namespace

void* function_in(const link_map& object, const char* name) {
    const Tables tables = tables_of(object);
    if (tables.symbols == nullptr || tables.strings == nullptr) {
        return nullptr;
    }
    uint32_t index = 0;
    if (tables.gnu_hash != nullptr) {
        index = find_by_gnu_hash(tables, name);
    } else if (tables.hash != nullptr) {
        index = find_by_hash(tables, name);
    }
    return index != 0 ? reinterpret_cast<void*>(object.l_addr + tables.symbols[index].st_value) : nullptr;
}

const link_map* object_of(const void* address) {
    Dl_info info;
    void* object = nullptr;
    return dladdr1(address, &info, &object, RTLD_DL_LINKMAP) != 0 ? static_cast<const link_map*>(object) : nullptr;
}

bool is_ours(const void* address) {
    const auto value = reinterpret_cast<uintptr_t>(address);
    return value >= reinterpret_cast<uintptr_t>(__ehdr_start) && value < reinterpret_cast<uintptr_t>(_end);
}

}  // namespace titan::interpose
