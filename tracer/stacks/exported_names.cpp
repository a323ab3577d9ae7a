#include "exported_names.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "base/clock.h"
#include "base/elf_image.h"
#include "base/memory.h"

namespace titan::tracer {
namespace {

constexpr size_t kMaxNameBytes = 512;

bool is_function(const Elf64_Sym& symbol) {
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF && symbol.st_size != 0;
}

// All but an innermost frame's address follow a call, which may be the last instruction of its function.
uint64_t call_before(const NamedAddress& of) { return of.address - 1; }

class Naming {
  public:
    Naming(const NamingRoom& room, uint64_t deadline_ns) : room_(room), deadline_ns_(deadline_ns) {
        opened_ = open_memory(getpid(), memory_) == 0;
    }
    ~Naming() {
        if (opened_) {
            close_memory(memory_);
        }
    }
    Naming(const Naming&) = delete;
    Naming& operator=(const Naming&) = delete;

    void name(const Module& module, std::span<NamedAddress> wanted, StackImage& image) {
        ElfImage elf;
        if (!opened_ || !open_image(memory_, module.begin, elf)) {
            return;
        }
        const uint64_t count = symbol_count(memory_, elf);
        const size_t at_once = room_.symbols_bytes / sizeof(Elf64_Sym);
        auto* const symbols = reinterpret_cast<Elf64_Sym*>(room_.symbols);
        for (uint64_t first = 0; first < count && monotonic_now_ns() < deadline_ns_; first += at_once) {
            const size_t here = std::min<uint64_t>(at_once, count - first);
            if (!memory_.read(elf.tables.symbols + first * sizeof(Elf64_Sym), symbols, here * sizeof(Elf64_Sym))) {
                break;
            }
            for (size_t i = 0; i < here; ++i) {
                if (is_function(symbols[i]) && symbols[i].st_name < elf.tables.strings_bytes) {
                    offer(elf.tables.bias + symbols[i].st_value, symbols[i].st_size,
                          elf.tables.strings + symbols[i].st_name, wanted);
                }
            }
        }
        for (const NamedAddress& found : wanted) {
            char name[kMaxNameBytes];
            const size_t got = found.function == 0 ? 0 : memory_.read_some(memory_, found.name, name, sizeof(name));
            if (memchr(name, '\0', got) != nullptr) {
                image.add_name(found.address, name);
            }
        }
    }

  private:
    static void offer(uint64_t function, uint64_t size_bytes, uint64_t name, std::span<NamedAddress> wanted) {
        auto next = std::lower_bound(
            wanted.begin(), wanted.end(), function,
            [](const NamedAddress& candidate, uint64_t begin) { return call_before(candidate) < begin; });
        for (; next != wanted.end() && call_before(*next) - function < size_bytes; ++next) {
            if (function > next->function) {
                next->function = function;
                next->name = name;
            }
        }
    }

    const NamingRoom& room_;
    uint64_t deadline_ns_;
    Memory memory_;
    bool opened_ = false;
};

// The distinct addresses of all frames, sorted.
std::span<NamedAddress> distinct_addresses(StackImage& image, NamedAddress* room) {
    const std::span<const format::StackFrame> frames = image.frames();
    for (size_t i = 0; i < frames.size(); ++i) {
        room[i] = {frames[i].address & ~format::kInterrupted, 0, 0};
    }
    const auto by_address = [](const NamedAddress& a, const NamedAddress& b) { return a.address < b.address; };
    const auto same = [](const NamedAddress& a, const NamedAddress& b) { return a.address == b.address; };
    std::sort(room, room + frames.size(), by_address);
    return {room, std::unique(room, room + frames.size(), same)};
}

}  // namespace

void add_exported_names(StackImage& image, const ModuleList& modules, const NamingRoom& room, uint64_t deadline_ns) {
    const std::span<NamedAddress> all = distinct_addresses(image, room.addresses);
    Naming naming(room, deadline_ns);
    auto next = all.begin();
    for (size_t i = 0; i < modules.count && next != all.end(); ++i) {
        const Module& module = modules.modules[i];
        const auto until = [&](uint64_t limit) {
            return std::find_if(next, all.end(), [&](const NamedAddress& of) { return of.address >= limit; });
        };
        const auto first = until(module.begin);
        next = first;
        next = until(module.end);
        if (first != next) {
            naming.name(module, {first, next}, image);
        }
    }
}

}  // namespace titan::tracer
