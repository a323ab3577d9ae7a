#include "modules.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/elf_image.h"
#include "base/maps.h"
#include "base/own_memory.h"
#include "base/text.h"

namespace titan::tracer {
namespace {

constexpr size_t kMaxNoteBytes = 1024;

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

// Reads the program headers, which lie at the beginning of the module's first mapping.
bool read_headers(Module& module) {
    ElfHeaders headers;
    if (!read_elf_headers(own_memory(), module.begin, headers)) {
        return false;
    }
    module.bias = headers.bias;
    module.end = std::max(module.end, headers.end);
    module.eh_frame_hdr = headers.eh_frame_hdr.address;
    module.eh_frame_hdr_bytes = headers.eh_frame_hdr.bytes;
    for (size_t i = 0; i < headers.note_count && module.build_id_bytes == 0; ++i) {
        read_build_id(headers.notes[i].address, headers.notes[i].bytes, module);
    }
    return true;
}

void add(ModuleList& list, const Mapping& mapping) {
    const bool file = mapping.path[0] == '/' || same_text(mapping.path, "[vdso]");
    if (!file || mapping.file_offset != 0 || !mapping.readable || list.count == list.capacity) {
        return;
    }
    Module& module = list.modules[list.count];
    module = Module{};
    module.begin = mapping.start;
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

format::StackModule row_of(const Module& module) {
    format::StackModule row{};
    row.begin = module.begin;
    row.end = module.end;
    row.bias = module.bias;
    row.build_id_bytes = module.build_id_bytes;
    memcpy(row.build_id, module.build_id, sizeof(row.build_id));
    return row;
}

bool open_unwind_index(const Module& module, UnwindIndex& index) {
    constexpr unsigned char kPointerRelativeSigned4 = 0x1b;
    constexpr unsigned char kDataRelativeSigned4 = 0x3b;
    constexpr unsigned char kUnsigned4 = 0x03;
    struct {
        unsigned char version, pointer_encoding, count_encoding, row_encoding;
        int32_t pointer;
        uint32_t rows;
    } header{};
    if (module.eh_frame_hdr == 0 || module.eh_frame_hdr_bytes < sizeof(header) ||
        !read_memory(module.eh_frame_hdr, header) || header.version != 1 ||
        header.pointer_encoding != kPointerRelativeSigned4 || header.count_encoding != kUnsigned4 ||
        header.row_encoding != kDataRelativeSigned4 ||
        header.rows > (module.eh_frame_hdr_bytes - sizeof(header)) / sizeof(UnwindRow)) {
        return false;
    }
    index = {module.eh_frame_hdr, module.eh_frame_hdr + sizeof(header), header.rows};
    return true;
}

void list_modules(ModuleList& list, char* scratch, size_t scratch_bytes) {
    list.count = 0;
    MapsReader maps(getpid(), scratch, scratch_bytes);
    for (Mapping mapping; maps.next(mapping);) {
        add(list, mapping);
    }
}

}  // namespace titan::tracer
