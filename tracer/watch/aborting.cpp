#include "aborting.h"

#include <link.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/loaded_objects.h"
#include "base/own_memory.h"
#include "call_frame_info.h"

namespace titan::tracer {
namespace {

constexpr size_t kMostLibcFrames = 8;  // libc's frames between the signal and abort()

constinit Module libc{};
constinit uint64_t abort_begin = 0;

struct Frame {
    uint64_t address;
    uint64_t stack_pointer;
    uint64_t frame_pointer;
};

Frame interrupted_frame(const void* context) {
    const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return {static_cast<uint64_t>(machine.gregs[REG_RIP]), static_cast<uint64_t>(machine.gregs[REG_RSP]),
            static_cast<uint64_t>(machine.gregs[REG_RBP])};
#elif defined(__aarch64__)
    return {machine.pc, machine.sp, machine.regs[29]};
#endif
}

uint64_t words(int64_t count) { return static_cast<uint64_t>(count * 8); }

bool step(Frame& frame) {
    const UnwindRule rule = read_unwind_rule(libc, frame.address);
    if (rule.kind != UnwindRule::kFromStackPointer && rule.kind != UnwindRule::kFromFramePointer) {
        return false;
    }
    const bool from_stack = rule.kind == UnwindRule::kFromStackPointer;
    const uint64_t top = (from_stack ? frame.stack_pointer : frame.frame_pointer) + words(rule.frame_words);
    frame.stack_pointer = top;
    return (rule.saved_frame_pointer_words == 0 ||
            read_memory(top + words(rule.saved_frame_pointer_words), frame.frame_pointer)) &&
           read_memory(top + words(rule.return_words), frame.address);
}

bool holds(uint64_t address) { return address >= libc.begin && address < libc.end; }

int take_object(dl_phdr_info* object, size_t, void* abort) {
    const auto wanted = reinterpret_cast<uintptr_t>(abort);
    Module found{};
    found.begin = UINT64_MAX;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)& header = object->dlpi_phdr[i];
        const uint64_t begin = object->dlpi_addr + header.p_vaddr;
        if (header.p_type == PT_GNU_EH_FRAME) {
            found.eh_frame_hdr = begin;
            found.eh_frame_hdr_bytes = header.p_memsz;
        } else if (header.p_type == PT_LOAD) {
            found.begin = begin < found.begin ? begin : found.begin;
            found.end = begin + header.p_memsz > found.end ? begin + header.p_memsz : found.end;
        }
    }
    if (wanted < found.begin || wanted >= found.end) {
        return 0;
    }
    libc = found;
    return 1;
}

}  // namespace

// libc's own: the program, a sanitizer or another preload may have an abort that comes before it.
void find_abort() {
    if (libc.end != 0) {
        return;
    }
    void* const abort = function_in(object_called("libc.so.6"), "abort");
    if (abort != nullptr && dl_iterate_phdr(take_object, abort) != 0) {
        abort_begin = function_begin(libc, reinterpret_cast<uintptr_t>(abort));
    }
}

bool is_sent_by_abort(const siginfo_t* info, const void* context) {
    if (info == nullptr || info->si_code != SI_TKILL || info->si_pid != getpid() || abort_begin == 0) {
        return false;
    }
    Frame frame = interrupted_frame(context);
    for (size_t i = 0; i < kMostLibcFrames && holds(frame.address); ++i) {
        if (function_begin(libc, frame.address - 1) == abort_begin) {
            return true;
        }
        if (!step(frame)) {
            return false;
        }
    }
    return false;
}

}  // namespace titan::tracer
