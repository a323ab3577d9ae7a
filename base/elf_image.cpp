#include "base/elf_image.h"

#include <string.h>

#include <algorithm>

#include "base/page.h"

namespace titan {
namespace {

constexpr size_t kMaxProgramHeaders = 64;  // nothing real comes near it

}  // namespace

bool read_elf_headers(const Memory& memory, uint64_t base, ElfHeaders& headers) {
    headers = ElfHeaders{};
    Elf64_Ehdr head;
    if (!memory.get(base, head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_phentsize != sizeof(Elf64_Phdr) ||
        head.e_phnum > kMaxProgramHeaders) {
        return false;
    }
    Elf64_Phdr parts[kMaxProgramHeaders];
    if (!memory.read(base + head.e_phoff, parts, head.e_phnum * sizeof(Elf64_Phdr))) {
        return false;
    }
    const auto first =
        std::find_if(parts, parts + head.e_phnum, [](const auto& part) { return part.p_type == PT_LOAD; });
    if (first == parts + head.e_phnum) {
        return false;
    }
    headers.bias = base - (first->p_vaddr - first->p_offset) / kPageBytes * kPageBytes;
    for (size_t i = 0; i < head.e_phnum; ++i) {
        const Elf64_Phdr& part = parts[i];
        const uint64_t address = headers.bias + part.p_vaddr;
        if (part.p_type == PT_LOAD) {
            headers.end = std::max(headers.end, address + part.p_memsz);
            if ((part.p_flags & PF_W) == 0 && headers.read_only_count < ElfHeaders::kReadOnly) {
                headers.read_only[headers.read_only_count++] = {address, part.p_filesz};
            }
        } else if (part.p_type == PT_DYNAMIC) {
            headers.dynamic = address;
        } else if (part.p_type == PT_GNU_EH_FRAME) {
            headers.eh_frame_hdr = {address, part.p_memsz};
        } else if (part.p_type == PT_NOTE && headers.note_count < ElfHeaders::kNotes) {
            headers.notes[headers.note_count++] = {address, part.p_memsz};
        }
    }
    return true;
}

bool open_image(const Memory& memory, uint64_t base, ElfImage& image) {
    image = ElfImage{};
    return read_elf_headers(memory, base, image.headers) && image.headers.dynamic != 0 &&
           read_dynamic(memory, image.headers.dynamic, image.headers.bias, image.tables) &&
           (image.tables.gnu_hash != 0 || image.tables.sysv_hash != 0);
}

uint64_t symbol_count(const Memory& memory, const ElfImage& image) { return ElfSymbols(memory, image.tables).count(); }

uint64_t find_symbol(const Memory& memory, const ElfImage& image, const char* name) {
    return ElfSymbols(memory, image.tables).find(SymbolName(name), ElfSymbols<Memory>::Kind::kAny);
}

}  // namespace titan
