#include "base/elf_tables.h"

namespace titan {

SymbolName::SymbolName(const char* name) : text(name), gnu_hash(5381) {
    for (; *name != '\0'; ++name) {
        gnu_hash = gnu_hash * 33 + static_cast<unsigned char>(*name);
    }
}

uint32_t sysv_hash_of(const char* name) {
    uint32_t hash = 0;
    for (; *name != '\0'; ++name) {
        hash = (hash << 4) + static_cast<unsigned char>(*name);
        const uint32_t high = hash & 0xf000'0000;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

}  // namespace titan
