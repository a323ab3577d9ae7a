#include "elf_symbols.h"

extern "C" {
// The linker's own names for the first and the last byte of the output.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char _end[];
}

namespace titan::interpose {

namespace {

// glibc adds the load address in place, other loaders leave the file's values.
template <typename T>
void set(const T*& slot, uintptr_t bias, ElfW(Addr) value) {
    slot = reinterpret_cast<const T*>(value < bias ? value + bias : value);
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

// Header: buckets, first hashed symbol, words of the filter, a shift; then filter, buckets, and one hash per symbol whose
// lowest bit ends a chain.
struct GnuHash {
    explicit GnuHash(const uint32_t* header)
        : bucket_count(header[0]),
          first(header[1]),
          filter_words(header[2]),
          shift(header[3]),
          filter(reinterpret_cast<const ElfW(Addr) *>(header + 4)),
          buckets(reinterpret_cast<const uint32_t*>(filter + filter_words)),
          chains(buckets + bucket_count) {}

    // Says no to most names that are not there, without a look at the buckets.
    bool may_have(uint32_t wanted) const {
        constexpr uint32_t kBits = 8 * sizeof(ElfW(Addr));
        const ElfW(Addr) word = filter[wanted / kBits & (filter_words - 1)];
        return ((word >> (wanted % kBits)) & (word >> ((wanted >> shift) % kBits)) & 1) != 0;
    }

    uint32_t bucket_count, first, filter_words, shift;
    const ElfW(Addr) * filter;
    const uint32_t* buckets;
    const uint32_t* chains;
};

}  // namespace

Object describe(const dl_phdr_info& info, const void* address) {
    Object object{info.dlpi_addr, nullptr, 0, 0};
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

SymbolName::SymbolName(const char* name) : text(name), hash(5381) {
    for (; *name != '\0'; ++name) {
        hash = hash * 33 + static_cast<unsigned char>(*name);
    }
}

Symbols::Symbols(const Object& object) : bias_(object.bias) {
    for (const ElfW(Dyn)* entry = object.dynamic; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
        switch (entry->d_tag) {
            case DT_SYMTAB: set(symbols_, bias_, entry->d_un.d_ptr); break;
            case DT_STRTAB: set(strings_, bias_, entry->d_un.d_ptr); break;
            case DT_GNU_HASH: set(gnu_hash_, bias_, entry->d_un.d_ptr); break;
            case DT_HASH: set(hash_, bias_, entry->d_un.d_ptr); break;
            case DT_VERSYM: set(versions_, bias_, entry->d_un.d_ptr); break;
            case DT_SONAME: soname_ = entry->d_un.d_val; break;
            default: break;
        }
    }
    if (strings_ == nullptr || symbols_ == nullptr) {  // then the rest leads nowhere
        gnu_hash_ = nullptr;
        hash_ = nullptr;
        soname_ = 0;
    }
}

bool Symbols::is_function(uint32_t index) const {
    return symbols_[index].st_shndx != SHN_UNDEF && (symbols_[index].st_info & 0xf) == STT_FUNC;
}

// Older versions of a function lie beside the one that a lookup without a version gets (quick_exit of glibc).
bool Symbols::is_function(uint32_t index, const char* name) const {
    constexpr uint16_t kHidden = 0x8000;
    const bool hidden = versions_ != nullptr && (versions_[index] & kHidden) != 0;
    return !hidden && is_function(index) && is_same(strings_ + symbols_[index].st_name, name);
}

// 0: not there.
uint32_t Symbols::find_by_gnu_hash(const SymbolName& name) const {
    const GnuHash table(gnu_hash_);
    if (table.bucket_count == 0 || !table.may_have(name.hash)) {
        return 0;
    }
    uint32_t index = table.buckets[name.hash % table.bucket_count];
    for (; index >= table.first && index != 0; ++index) {
        const uint32_t hash = table.chains[index - table.first];
        if ((hash | 1) == (name.hash | 1) && is_function(index, name.text)) {
            return index;
        }
        if ((hash & 1) != 0) {
            break;
        }
    }
    return 0;
}

uint32_t Symbols::find_by_hash(const char* name) const {
    const uint32_t symbols = count();
    for (uint32_t index = 1; index < symbols; ++index) {
        if (is_function(index, name)) {
            return index;
        }
    }
    return 0;
}

uint32_t Symbols::count() const {
    if (gnu_hash_ == nullptr) {
        return hash_ != nullptr ? hash_[1] : 0;  // of the chain table, which has an entry per symbol
    }
    const GnuHash table(gnu_hash_);
    uint32_t last = 0;
    for (uint32_t i = 0; i < table.bucket_count; ++i) {
        last = table.buckets[i] > last ? table.buckets[i] : last;
    }
    if (last < table.first) {
        return table.first;
    }
    while ((table.chains[last - table.first] & 1) == 0) {
        ++last;
    }
    return last + 1;
}

void* Symbols::function(const SymbolName& name) const {
    uint32_t index = 0;
    if (gnu_hash_ != nullptr) {
        index = find_by_gnu_hash(name);
    } else if (hash_ != nullptr) {
        index = find_by_hash(name.text);
    }
    return index != 0 ? reinterpret_cast<void*>(bias_ + symbols_[index].st_value) : nullptr;
}

const char* Symbols::name_of(const void* function) const {
    const uint32_t symbols = count();
    for (uint32_t index = 1; index < symbols; ++index) {
        if (is_function(index) && bias_ + symbols_[index].st_value == reinterpret_cast<uintptr_t>(function)) {
            return strings_ + symbols_[index].st_name;
        }
    }
    return nullptr;
}

bool Symbols::is_called(const char* soname) const { return soname_ != 0 && is_same(strings_ + soname_, soname); }

Object object_of(const void* address) {
    Object found{};
    each_object(address, [&](const Object& object, size_t) {
        found = object.bytes != 0 ? object : found;
        return object.bytes != 0;
    });
    return found;
}

Object object_called(const char* soname) {
    Object found{};
    each_object(nullptr, [&](const Object& object, size_t) {
        const bool same = Symbols(object).is_called(soname);
        found = same ? object : found;
        return same;
    });
    return found;
}

bool is_ours(const void* address) {
    const auto value = reinterpret_cast<uintptr_t>(address);
    return value >= reinterpret_cast<uintptr_t>(__ehdr_start) && value < reinterpret_cast<uintptr_t>(_end);
}

// The loader's list is read without its lock: what is looked for stands in front of everything that could be closed meanwhile.
void* function_behind_us(const char* name) {
    bool passed = false;
    void* before = nullptr;
    for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
        if (map->l_ld == _DYNAMIC) {  // the linker's name for this library's own dynamic section
            passed = true;
            continue;
        }
        void* const found = function_in({map->l_addr, map->l_ld, 0, 0}, name);
        if (found != nullptr && passed) {
            return found;
        }
        before = before != nullptr ? before : found;
    }
    return before;  // we were opened later: any but ours
}

}  // namespace titan::interpose
