#include "modules.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "private_dir.h"
#include "text.h"

namespace titan::tracer {
namespace {

constexpr size_t kMaxProgramHeaders = 64;
constexpr size_t kMaxNoteBytes = 1024;

struct Mapping {
    uint64_t begin;
    uint64_t end;
    uint64_t offset;
    const char* path;
    bool readable;
};

bool parse_hex(const char*& at, uint64_t& value) {
    value = 0;
    const char* const begin = at;
    for (;; ++at) {
        const char c = *at;
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) {
            return at != begin;
        }
        value = value << 4 | static_cast<uint64_t>(digit);
    }
}

void skip_word(const char*& at) {
    while (*at != '\0' && *at != ' ') {
        ++at;
    }
    while (*at == ' ') {
        ++at;
    }
}

// 7f00-7f10 r--p 00000000 08:01 1234   /usr/lib/libc.so.6
bool parse_line(const char* line, Mapping& mapping) {
    const char* at = line;
    if (!parse_hex(at, mapping.begin) || *at++ != '-' || !parse_hex(at, mapping.end) || *at++ != ' ') {
        return false;
    }
    mapping.readable = *at == 'r';
    skip_word(at);
    if (!parse_hex(at, mapping.offset)) {
        return false;
    }
    for (int i = 0; i < 3; ++i) {  // rest of the offset, device, inode
        skip_word(at);
    }
    mapping.path = at;
    return true;
}

void read_build_id(uint64_t notes, uint64_t size_bytes, Module& module) {
    char bytes[kMaxNoteBytes];
    const size_t got = read_memory(notes, bytes, size_bytes < sizeof(bytes) ? size_bytes : sizeof(bytes));
    const auto padded = [](size_t size) { return (size + 3) / 4 * 4; };
    for (size_t at = 0; got - at >= sizeof(ElfW(Nhdr));) {
        ElfW(Nhdr) note;
        memcpy(&note, bytes + at, sizeof(note));
        const size_t name = at + sizeof(note);
        if (note.n_namesz > got - name || padded(note.n_namesz) > got - name) {
            return;
        }
        const size_t content = name + padded(note.n_namesz);
        if (note.n_descsz > got - content) {
            return;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(bytes + name, "GNU", 4) == 0 &&
            note.n_descsz <= sizeof(module.build_id)) {
            memcpy(module.build_id, bytes + content, note.n_descsz);
            module.build_id_bytes = note.n_descsz;
            return;
        }
        if (padded(note.n_descsz) > got - content) {
            return;
        }
        at = content + padded(note.n_descsz);
    }
}

// What its program headers say, which lie at the beginning of its first mapping.
bool read_headers(Module& module) {
    ElfW(Ehdr) elf;
    if (!read_memory(module.begin, elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_phentsize != sizeof(ElfW(Phdr)) || elf.e_phnum > kMaxProgramHeaders) {
        return false;
    }
    ElfW(Phdr) headers[kMaxProgramHeaders];
    const size_t bytes = elf.e_phnum * sizeof(ElfW(Phdr));
    if (read_memory(module.begin + elf.e_phoff, headers, bytes) != bytes) {
        return false;
    }
    bool placed = false;
    for (size_t i = 0; i < elf.e_phnum; ++i) {
        const ElfW(Phdr)& header = headers[i];
        if (header.p_type == PT_LOAD && !placed) {
            module.bias = module.begin - (header.p_vaddr - header.p_offset % 4096) / 4096 * 4096;
            placed = true;
        }
    }
    for (size_t i = 0; placed && i < elf.e_phnum; ++i) {
        const ElfW(Phdr)& header = headers[i];
        const uint64_t address = module.bias + header.p_vaddr;
        if (header.p_type == PT_LOAD && address + header.p_memsz > module.end) {
            module.end = address + header.p_memsz;
        } else if (header.p_type == PT_GNU_EH_FRAME) {
            module.eh_frame_hdr = address;
            module.eh_frame_hdr_bytes = header.p_memsz;
        } else if (header.p_type == PT_NOTE && module.build_id_bytes == 0) {
            read_build_id(address, header.p_memsz, module);
        }
    }
    return placed;
}

void add(ModuleList& list, const Mapping& mapping) {
    const bool file = mapping.path[0] == '/' || same_text(mapping.path, "[vdso]");
    if (!file || mapping.offset != 0 || !mapping.readable) {
        return;
    }
    if (list.count == list.capacity) {
        list.cut = true;
        return;
    }
    Module& module = list.modules[list.count];
    module = Module{};
    module.begin = mapping.begin;
    module.end = mapping.end;
    const size_t length = strlen(mapping.path);
    const size_t room = sizeof(module.path) - 1;
    copy_text(module.path, sizeof(module.path), mapping.path + (length > room ? length - room : 0));
    const Module* const before = list.count == 0 ? nullptr : &list.modules[list.count - 1];
    // The same file mapped again inside the range of the one before is not another module.
    if (read_headers(module) && (before == nullptr || module.begin >= before->end)) {
        ++list.count;
    }
}

}  // namespace

const Module* ModuleList::find(uint64_t address) const {
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (modules[middle].begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low != 0 && address < modules[low - 1].end ? &modules[low - 1] : nullptr;
}

void list_modules(ModuleList& list, char* scratch, size_t scratch_bytes) {
    list.count = 0;
    list.cut = false;
    const Fd maps(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    size_t kept = 0;
    for (;;) {
        const ssize_t got = maps.valid() ? read(maps.get(), scratch + kept, scratch_bytes - 1 - kept) : 0;
        if (got <= 0) {
            return;
        }
        kept += static_cast<size_t>(got);
        scratch[kept] = '\0';
        char* line = scratch;
        for (char* end = strchr(line, '\n'); end != nullptr; line = end + 1, end = strchr(line, '\n')) {
            *end = '\0';
            Mapping mapping{};
            if (parse_line(line, mapping)) {
                add(list, mapping);
            }
        }
        kept -= static_cast<size_t>(line - scratch);
        memmove(scratch, line, kept);
        if (kept == scratch_bytes - 1) {
            kept = 0;  // a line longer than all the room
        }
    }
}

}  // namespace titan::tracer
