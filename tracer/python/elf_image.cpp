#include "elf_image.h"

#include <elf.h>

#include <algorithm>

namespace titan::tracer::python {
namespace {

// Nothing real comes near these; damaged tables must not keep us.
constexpr size_t kMaxProgramHeaders = 64;
constexpr size_t kMaxDynamicEntries = 256;
constexpr size_t kMaxChain = 4096;
constexpr size_t kMaxName_bytes = 64;
constexpr uint64_t kPage_bytes = 4096;

uint32_t gnu_hash_of(const char* name) {
    uint32_t hash = 5381;
    for (; *name != '\0'; name++) {
        hash = hash * 33 + static_cast<unsigned char>(*name);
    }
    return hash;
}

uint32_t sysv_hash_of(const char* name) {
    uint32_t hash = 0;
    for (; *name != '\0'; name++) {
        hash = (hash << 4) + static_cast<unsigned char>(*name);
        const uint32_t high = hash & 0xf0000000u;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

bool same_name(const Memory& memory, const ElfImage& image, uint32_t offset, const char* name) {
    const size_t length_bytes = std::strlen(name) + 1;
    char there[kMaxName_bytes];
    return length_bytes <= sizeof there && offset < image.strings_bytes &&
           memory.read(image.strings + offset, there, length_bytes) && std::memcmp(there, name, length_bytes) == 0;
}

uint64_t address_if_named(const Memory& memory, const ElfImage& image, uint64_t index, const char* name) {
    Elf64_Sym symbol;
    if (!memory.get(image.symbols + index * sizeof symbol, symbol) || symbol.st_shndx == SHN_UNDEF ||
        symbol.st_value == 0 || !same_name(memory, image, symbol.st_name, name)) {
        return 0;
    }
    return image.bias + symbol.st_value;
}

struct GnuHash {
    struct {
        uint32_t buckets, first_symbol, bloom_words, bloom_shift;
    } head;
    uint64_t bloom, buckets, chains;
};

bool open_gnu_hash(const Memory& memory, const ElfImage& image, GnuHash& table) {
    if (!memory.get(image.gnu_hash, table.head) || table.head.buckets == 0 || table.head.bloom_words == 0) {
        return false;
    }
    table.bloom = image.gnu_hash + sizeof table.head;
    table.buckets = table.bloom + 8ull * table.head.bloom_words;
    table.chains = table.buckets + 4ull * table.head.buckets;
    return true;
}

uint64_t find_by_gnu_hash(const Memory& memory, const ElfImage& image, const char* name) {
    GnuHash table;
    if (!open_gnu_hash(memory, image, table)) {
        return 0;
    }
    const auto& [head, bloom, buckets, chains] = table;
    const uint32_t hash = gnu_hash_of(name);
    uint64_t word;
    if (!memory.get(bloom + 8ull * ((hash / 64) % head.bloom_words), word)) {
        return 0;
    }
    if ((word >> (hash % 64) & word >> ((hash >> (head.bloom_shift & 31)) % 64) & 1) == 0) {
        return 0;
    }
    uint32_t index;
    if (!memory.get(buckets + 4ull * (hash % head.buckets), index) || index < head.first_symbol) {
        return 0;
    }
    for (size_t step = 0; step < kMaxChain; step++, index++) {
        uint32_t there;
        if (!memory.get(chains + 4ull * (index - head.first_symbol), there)) {
            return 0;
        }
        if ((there | 1) == (hash | 1)) {
            const uint64_t address = address_if_named(memory, image, index, name);
            if (address != 0) {
                return address;
            }
        }
        if (there & 1) {
            return 0;
        }
    }
    return 0;
}

uint64_t find_by_sysv_hash(const Memory& memory, const ElfImage& image, const char* name) {
    uint32_t head[2];  // buckets, chains
    if (!memory.get(image.sysv_hash, head) || head[0] == 0) {
        return 0;
    }
    const uint64_t buckets = image.sysv_hash + sizeof head;
    uint32_t index;
    if (!memory.get(buckets + 4ull * (sysv_hash_of(name) % head[0]), index)) {
        return 0;
    }
    for (size_t step = 0; step < kMaxChain && index != 0 && index < head[1]; step++) {
        const uint64_t address = address_if_named(memory, image, index, name);
        if (address != 0) {
            return address;
        }
        if (!memory.get(buckets + 4ull * head[0] + 4ull * index, index)) {
            return 0;
        }
    }
    return 0;
}

// The chain of the highest bucket ends with the last symbol.
uint64_t count_by_gnu_hash(const Memory& memory, const ElfImage& image) {
    GnuHash table;
    if (!open_gnu_hash(memory, image, table)) {
        return 0;
    }
    uint32_t last = 0;
    for (uint32_t first = 0; first < table.head.buckets;) {
        uint32_t some[1024];
        const uint32_t count = std::min<uint32_t>(1024, table.head.buckets - first);
        if (!memory.read(table.buckets + 4ull * first, some, 4ull * count)) {
            return 0;
        }
        last = std::max(last, *std::max_element(some, some + count));
        first += count;
    }
    if (last < table.head.first_symbol) {
        return table.head.first_symbol;  // nothing is exported
    }
    for (size_t step = 0; step < kMaxChain; ++step, ++last) {
        uint32_t hash;
        if (!memory.get(table.chains + 4ull * (last - table.head.first_symbol), hash)) {
            return 0;
        }
        if ((hash & 1) != 0) {
            return uint64_t{last} + 1;
        }
    }
    return 0;
}

bool read_dynamic(const Memory& memory, uint64_t dynamic, uint64_t base, ElfImage& image) {
    for (size_t i = 0; i < kMaxDynamicEntries; i++) {
        Elf64_Dyn entry;
        if (!memory.get(dynamic + i * sizeof entry, entry)) {
            return false;
        }
        // glibc turns these into addresses in place; the vDSO, and musl, keep them as they are in the file.
        const uint64_t value = entry.d_un.d_ptr;
        const uint64_t address = value < base ? image.bias + value : value;
        switch (entry.d_tag) {
            case DT_NULL:
                return image.symbols != 0 && image.strings != 0 && (image.gnu_hash != 0 || image.sysv_hash != 0);
            case DT_SYMTAB: image.symbols = address; break;
            case DT_STRTAB: image.strings = address; break;
            case DT_STRSZ: image.strings_bytes = value; break;
            case DT_GNU_HASH: image.gnu_hash = address; break;
            case DT_HASH: image.sysv_hash = address; break;
            default: break;
        }
    }
    return false;
}

}  // namespace

bool open_image(const Memory& memory, uint64_t base, ElfImage& image) {
    image = ElfImage{};
    Elf64_Ehdr head;
    if (!memory.get(base, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB ||
        head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > kMaxProgramHeaders) {
        return false;
    }
    uint64_t dynamic = 0;
    bool biased = false;
    for (size_t i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        if (!memory.get(base + head.e_phoff + i * sizeof part, part)) {
            return false;
        }
        if (part.p_type == PT_LOAD && !biased) {
            image.bias = base - (part.p_vaddr - part.p_offset) / kPage_bytes * kPage_bytes;
            biased = true;
        }
        if (part.p_type == PT_LOAD && (part.p_flags & PF_W) == 0 && image.read_only_count < ElfImage::kSegments) {
            image.read_only[image.read_only_count++] = {image.bias + part.p_vaddr, part.p_filesz};
        }
        if (part.p_type == PT_DYNAMIC) {
            dynamic = part.p_vaddr;
        }
    }
    return biased && dynamic != 0 && read_dynamic(memory, image.bias + dynamic, base, image);
}

uint64_t symbol_count(const Memory& memory, const ElfImage& image) {
    uint32_t head[2];  // buckets, chains: one for each symbol
    if (image.sysv_hash != 0 && memory.get(image.sysv_hash, head)) {
        return head[1];
    }
    return image.gnu_hash != 0 ? count_by_gnu_hash(memory, image) : 0;
}

uint64_t find_symbol(const Memory& memory, const ElfImage& image, const char* name) {
    return image.gnu_hash != 0 ? find_by_gnu_hash(memory, image, name) : find_by_sysv_hash(memory, image, name);
}

}  // namespace titan::tracer::python
