// The dynamic section and the exported symbols of a loaded ELF image, read from memory: no file is opened, because it
// may be gone or another by now.
//
// Reader says how memory is read: Memory (base/memory.h) where it may not be there or lies in another process,
// PlainLoads for what the dynamic linker holds. Damaged tables neither keep us nor lead us astray where the reader
// guards. signal-safe. Source: the ELF specification; DT_GNU_HASH as glibc and binutils use it.
#pragma once

#include <elf.h>
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace titan {

struct ElfTables {
    uint64_t bias = 0;
    uint64_t symbols = 0, strings = 0, strings_bytes = 0;
    uint64_t gnu_hash = 0, sysv_hash = 0;
    uint64_t versions = 0;  // one per symbol; 0 where nothing has a version
    uint64_t soname = 0;    // offset into the strings, 0 none
};

// A name with its hash, for one that is looked up in many objects.
struct SymbolName {
    explicit SymbolName(const char* name);
    SymbolName(const char* name, uint32_t known_hash) : text(name), gnu_hash(known_hash) {}
    const char* text;
    uint32_t gnu_hash;
};

uint32_t sysv_hash_of(const char* name);

struct PlainLoads {
    template <typename T>
    bool get(uint64_t address, T& into) const {
        into = *reinterpret_cast<const T*>(address);
        return true;
    }
    bool read(uint64_t address, void* into, size_t bytes) const {
        memcpy(into, reinterpret_cast<const void*>(address), bytes);
        return true;
    }
    // Not strcmp: a sanitizer's own stands before libc's, and while it starts and asks dlsym for libc's, it leads
    // nowhere.
    bool same_text(uint64_t address, const char* text) const {
        const char* there = reinterpret_cast<const char*>(address);
        for (; *there == *text; ++there, ++text) {
            if (*text == '\0') {
                return true;
            }
        }
        return false;
    }
};

// False: it has no symbols.
template <typename Reader>
bool read_dynamic(const Reader& reader, uint64_t dynamic, uint64_t bias, ElfTables& tables) {
    constexpr size_t kMaxEntries = 1024;
    tables = ElfTables{};
    tables.bias = bias;
    Elf64_Dyn entry;
    for (size_t i = 0; i < kMaxEntries && reader.get(dynamic + i * sizeof(entry), entry); ++i) {
        // glibc turns these into addresses in place; the vDSO, and musl, keep them as they are in the file.
        const uint64_t value = entry.d_un.d_val;
        const uint64_t address = value < bias ? bias + value : value;
        switch (entry.d_tag) {
            case DT_NULL: return tables.symbols != 0 && tables.strings != 0;
            case DT_SYMTAB: tables.symbols = address; break;
            case DT_STRTAB: tables.strings = address; break;
            case DT_STRSZ: tables.strings_bytes = value; break;
            case DT_GNU_HASH: tables.gnu_hash = address; break;
            case DT_HASH: tables.sysv_hash = address; break;
            case DT_VERSYM: tables.versions = address; break;
            case DT_SONAME: tables.soname = value; break;
            default: break;
        }
    }
    return false;
}

// Looks up exported symbols of an image.
template <typename Reader>
class ElfSymbols {
  public:
    enum class Kind { kAny, kFunction };

    ElfSymbols(const Reader& reader, const ElfTables& tables) : reader_(reader), tables_(tables) {}

    // The address of the symbol's default version, 0 where there is none.
    uint64_t find(const SymbolName& name, Kind kind) const {
        Elf64_Sym symbol;
        const bool found = tables_.gnu_hash != 0 ? find_by_gnu_hash(name, kind, symbol)
                                                 : tables_.sysv_hash != 0 && find_by_sysv_hash(name.text, kind, symbol);
        return found ? tables_.bias + symbol.st_value : 0;
    }

    // The number of symbols, as the hash table gives it; 0 if that is damaged.
    uint64_t count() const {
        SysvHead head;
        if (tables_.sysv_hash != 0 && reader_.get(tables_.sysv_hash, head)) {
            return head.chains;
        }
        return tables_.gnu_hash != 0 ? count_by_gnu_hash() : 0;
    }

    bool symbol_at(uint64_t index, Elf64_Sym& symbol) const {
        return reader_.get(tables_.symbols + index * sizeof(symbol), symbol);
    }

    static bool is_defined(const Elf64_Sym& symbol, Kind kind) {
        return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
               (kind == Kind::kAny || ELF64_ST_TYPE(symbol.st_info) == STT_FUNC);
    }

  private:
    static constexpr size_t kMaxChain = 4096;  // nothing real comes near it

    struct SysvHead {
        uint32_t buckets, chains;  // one chain for each symbol
    };

    // Buckets, then one hash per symbol from `first` on, whose lowest bit ends a chain.
    struct GnuHash {
        struct {
            uint32_t buckets, first, filter_words, shift;
        } head;
        uint64_t filter, buckets, chains;

        uint64_t chain_at(uint64_t index) const { return chains + 4 * (index - head.first); }
    };

    bool open(GnuHash& table) const {
        if (!reader_.get(tables_.gnu_hash, table.head) || table.head.buckets == 0 || table.head.filter_words == 0) {
            return false;
        }
        table.filter = tables_.gnu_hash + sizeof(table.head);
        table.buckets = table.filter + uint64_t{8} * table.head.filter_words;
        table.chains = table.buckets + uint64_t{4} * table.head.buckets;
        return true;
    }

    // A Bloom filter: rejects most missing names without a look at the buckets.
    bool may_have(const GnuHash& table, uint32_t hash) const {
        uint64_t word;
        return reader_.get(table.filter + uint64_t{8} * (hash / 64 % table.head.filter_words), word) &&
               (word >> (hash % 64) & word >> ((hash >> (table.head.shift & 31)) % 64) & 1) != 0;
    }

    bool is(uint64_t index, const char* name, Kind kind, Elf64_Sym& symbol) const {
        return symbol_at(index, symbol) && is_defined(symbol, kind) && !is_hidden(index) &&
               symbol.st_name < tables_.strings_bytes && reader_.same_text(tables_.strings + symbol.st_name, name);
    }

    // Older versions of a function lie beside the one that a lookup without a version gets (quick_exit of glibc).
    bool is_hidden(uint64_t index) const {
        uint16_t version = 0;
        return tables_.versions != 0 && reader_.get(tables_.versions + index * sizeof(version), version) &&
               (version & 0x8000) != 0;
    }

    bool find_by_gnu_hash(const SymbolName& name, Kind kind, Elf64_Sym& symbol) const {
        GnuHash table;
        uint32_t index;
        if (!open(table) || !may_have(table, name.gnu_hash) ||
            !reader_.get(table.buckets + uint64_t{4} * (name.gnu_hash % table.head.buckets), index) ||
            index < table.head.first) {
            return false;
        }
        uint32_t hash;
        for (size_t step = 0; step < kMaxChain && reader_.get(table.chain_at(index), hash); ++step, ++index) {
            if ((hash | 1) == (name.gnu_hash | 1) && is(index, name.text, kind, symbol)) {
                return true;
            }
            if ((hash & 1) != 0) {
                return false;
            }
        }
        return false;
    }

    bool find_by_sysv_hash(const char* name, Kind kind, Elf64_Sym& symbol) const {
        SysvHead head;
        uint32_t index;
        const uint64_t buckets = tables_.sysv_hash + sizeof(head);
        if (!reader_.get(tables_.sysv_hash, head) || head.buckets == 0 ||
            !reader_.get(buckets + uint64_t{4} * (sysv_hash_of(name) % head.buckets), index)) {
            return false;
        }
        for (size_t step = 0; step < kMaxChain && index != 0 && index < head.chains; ++step) {
            if (is(index, name, kind, symbol)) {
                return true;
            }
            if (!reader_.get(buckets + uint64_t{4} * head.buckets + uint64_t{4} * index, index)) {
                return false;
            }
        }
        return false;
    }

    // The chain of the highest bucket ends with the last symbol.
    uint64_t count_by_gnu_hash() const {
        GnuHash table;
        if (!open(table)) {
            return 0;
        }
        uint32_t last = 0;
        for (uint32_t first = 0; first < table.head.buckets;) {
            uint32_t some[1024];
            const uint32_t here = std::min<uint32_t>(1024, table.head.buckets - first);
            if (!reader_.read(table.buckets + uint64_t{4} * first, some, size_t{4} * here)) {
                return 0;
            }
            last = std::max(last, *std::max_element(some, some + here));
            first += here;
        }
        if (last < table.head.first) {
            return table.head.first;  // nothing is exported
        }
        uint32_t hash;
        for (size_t step = 0; step < kMaxChain && reader_.get(table.chain_at(last), hash); ++step, ++last) {
            if ((hash & 1) != 0) {
                return uint64_t{last} + 1;
            }
        }
        return 0;
    }

    const Reader& reader_;
    ElfTables tables_;
};

}  // namespace titan
