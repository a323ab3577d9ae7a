#include "lost_frame.h"

#include <string.h>

#include <algorithm>

#include "base/own_memory.h"
#include "call_frame_info.h"
#include "unwind_rules.h"

namespace titan::tracer {

namespace {

bool word_at(const CapturedThread& thread, uint64_t address, uint64_t& word) {
    const uint64_t within = address - thread.stack_begin;
    if (address < thread.stack_begin || thread.stack_bytes < sizeof(word) ||
        within > thread.stack_bytes - sizeof(word)) {
        return false;
    }
    memcpy(&word, thread.stack + within, sizeof(word));
    return true;
}

uint64_t words(int64_t count) { return static_cast<uint64_t>(count * 8); }

}  // namespace

bool needs_frame_pointer(UnwindRule rule) {
    return rule.kind == UnwindRule::kFromFramePointer || rule.kind == UnwindRule::kThroughFramePointer;
}

bool step_by_rule(const CapturedThread& thread, UnwindRule rule, const CallerFrame& from, CallerFrame& caller) {
    const uint64_t base = needs_frame_pointer(rule) ? from.frame_pointer : from.stack_pointer;
    uint64_t frame = base + words(rule.frame_words);
    uint64_t saved_from = frame;
    if (rule.kind == UnwindRule::kThroughFramePointer) {
        saved_from = base;
        if (!word_at(thread, base + words(static_cast<int16_t>(rule.frame_words)), frame)) {
            return false;
        }
    }
    caller.stack_pointer = frame;
    caller.frame_pointer = from.frame_pointer;
    const bool saved = rule.saved_frame_pointer_words != 0 || rule.kind == UnwindRule::kThroughFramePointer;
    return frame > base && word_at(thread, frame + words(rule.return_words), caller.return_address) &&
           (!saved || word_at(thread, saved_from + words(rule.saved_frame_pointer_words), caller.frame_pointer));
}

#if defined(__x86_64__)

namespace {

constexpr uint64_t kMaxFrameBytes = 64 << 10;
constexpr uint64_t kMaxLikelyBytes = 1 << 10;
constexpr uint64_t kAlignment = 16;  // alignment of frame pointers in the calling convention

uint64_t relative_to(uint64_t next, const unsigned char* displacement) {
    int32_t distance = 0;
    memcpy(&distance, displacement, sizeof(distance));
    return next + static_cast<uint64_t>(int64_t{distance});
}

// The target of the call before that return address; 0 if it calls through a register, or there is no call.
uint64_t target_of_call(uint64_t return_address) {
    constexpr unsigned char kCall = 0xe8;
    constexpr unsigned char kThroughMemory[] = {0xff, 0x15};  // call *place(%rip)
    unsigned char code[6];
    if (read_memory(return_address - sizeof(code), code, sizeof(code)) != sizeof(code)) {
        return 0;
    }
    uint64_t target = 0;
    if (memcmp(code, kThroughMemory, sizeof(kThroughMemory)) == 0) {
        read_memory(relative_to(return_address, code + 2), target);
    } else if (code[1] == kCall) {
        target = relative_to(return_address, code + 2);
    }
    return target;
}

// A call through a register, or through memory that one points to: ff /2 after which up to five bytes may follow.
bool is_indirect_call(uint64_t return_address) {
    constexpr size_t kLongest = 7;
    constexpr unsigned char kGroup = 0xff;
    constexpr unsigned char kCallOfGroup = 2;
    unsigned char code[kLongest];
    if (read_memory(return_address - kLongest, code, kLongest) != kLongest) {
        return false;
    }
    for (size_t length = 2; length <= kLongest; ++length) {
        const unsigned char* const at = code + kLongest - length;
        if (at[0] == kGroup && (at[1] >> 3 & 7) == kCallOfGroup) {
            return true;
        }
    }
    return false;
}

// Past the stub of a call into another file, and past a function that only jumps on.
uint64_t past_jump(uint64_t target) {
    constexpr unsigned char kLandingPad[] = {0xf3, 0x0f, 0x1e, 0xfa};
    constexpr unsigned char kBound = 0xf2;
    constexpr unsigned char kJump = 0xe9;
    constexpr unsigned char kThroughMemory[] = {0xff, 0x25};  // jmp *place(%rip)
    unsigned char code[16];
    if (read_memory(target, code, sizeof(code)) != sizeof(code)) {
        return 0;
    }
    size_t at = memcmp(code, kLandingPad, sizeof(kLandingPad)) == 0 ? sizeof(kLandingPad) : 0;
    at += code[at] == kBound ? 1 : 0;
    uint64_t goes_to = 0;
    if (memcmp(code + at, kThroughMemory, sizeof(kThroughMemory)) == 0) {
        read_memory(relative_to(target + at + 6, code + at + 2), goes_to);
    } else if (code[at] == kJump) {
        goes_to = relative_to(target + at + 5, code + at + 1);
    }
    return goes_to;
}

bool calls(uint64_t return_address, uint64_t function) {
    const uint64_t target = target_of_call(return_address);
    return target != 0 && (target == function || past_jump(target) == function);
}

}  // namespace

Found find_lost_frame(const CapturedThread& thread, const ModuleList& modules, uint64_t address, uint64_t stack_pointer,
                      CallerFrame& caller) {
    const Module* const module = modules.find(address);
    const UnwindRule rule = module == nullptr ? kUsualRule : read_unwind_rule(*module, address);
    if (!needs_frame_pointer(rule) || rule.saved_frame_pointer_words == 0) {
        return Found::kNone;
    }
    const uint64_t function = module == nullptr ? 0 : function_begin(*module, address - 1);
    const uint64_t first = (stack_pointer + kAlignment - 1) / kAlignment * kAlignment;
    const uint64_t end = std::min(thread.stack_begin + thread.stack_bytes, first + kMaxFrameBytes);
    CallerFrame likely{};
    for (uint64_t frame = first; frame < end; frame += kAlignment) {
        if (!step_by_rule(thread, rule, {0, 0, frame}, caller) || modules.find(caller.return_address) == nullptr) {
            continue;
        }
        if (function != 0 && calls(caller.return_address, function)) {
            return Found::kProven;
        }
        if (likely.return_address == 0 && frame - first < kMaxLikelyBytes && is_indirect_call(caller.return_address)) {
            likely = caller;
        }
    }
    caller = likely;
    return likely.return_address != 0 ? Found::kLikely : Found::kNone;
}

#else

Found find_lost_frame(const CapturedThread&, const ModuleList&, uint64_t, uint64_t, CallerFrame&) {
    return Found::kNone;
}

#endif

}  // namespace titan::tracer
