#include "unwind_rules.h"

namespace titan::tracer {

namespace {

// Other functions' stack frames, also where a sanitizer guards its own variables in them.
__attribute__((no_sanitize("address"))) uint64_t word_at(uint64_t address) {
    return *reinterpret_cast<const volatile uint64_t*>(address);
}

struct StackRange {
    uint64_t begin;
    uint64_t end;
    bool holds_word(uint64_t address) const {
        return address % 8 == 0 && address >= begin && address < end && end - address >= sizeof(uint64_t);
    }
};

uint64_t words(int64_t count) { return static_cast<uint64_t>(count * 8); }

}  // namespace

bool UnwindRules::set(uint64_t address, UnwindRule rule) {
    bool is_new = false;
    const uint64_t row = rows_.claim(address, hash(address), is_new);
    if (row == Rows::kNone) {
        return false;
    }
    // Until this store the row says kNone.
    std::atomic_ref(rows_[row].rule).store(std::bit_cast<uint64_t>(rule), std::memory_order_relaxed);
    return true;
}

[[gnu::noinline]] NativeWalk walk_native(const UnwindRules& rules, uint16_t generation, AddressRange own,
                                         AddressRange stack, uint64_t* out, uint32_t capacity) {
    NativeWalk walk{0, true, 0};
    uint64_t stack_pointer = reinterpret_cast<uint64_t>(__builtin_dwarf_cfa());
    uint64_t frame_pointer = *static_cast<const uint64_t*>(__builtin_frame_address(0));
    auto address = reinterpret_cast<uint64_t>(__builtin_extract_return_addr(__builtin_return_address(0)));
    if (!stack.holds(stack_pointer)) {
        return walk;
    }
    const StackRange used{stack_pointer - sizeof(uint64_t), stack.end};
    // Frames that are left out take steps, too.
    for (uint32_t step = 0; step < capacity + 32; ++step) {
        const UnwindRule rule = rules.find(address);
        if (rule.kind == UnwindRule::kNone || (rule.kind == UnwindRule::kUnknown && rule.frame_words != generation)) {
            walk.unknown = address;
            return walk;
        }
        if (!own.holds(address)) {
            if (walk.count == capacity) {
                return walk;
            }
            out[walk.count++] = address;
        }
        uint64_t frame = 0;
        uint64_t saved_base = 0;
        switch (rule.kind) {
            case UnwindRule::kFromStackPointer: frame = saved_base = stack_pointer + words(rule.frame_words); break;
            case UnwindRule::kFromFramePointer: frame = saved_base = frame_pointer + words(rule.frame_words); break;
            case UnwindRule::kThroughFramePointer: {
                const uint64_t place = frame_pointer + words(static_cast<int16_t>(rule.frame_words));
                if (!used.holds_word(place)) {
                    return walk;
                }
                frame = word_at(place);
                saved_base = frame_pointer;
                break;
            }
            case UnwindRule::kEnd: walk.cut = false; return walk;
            default: return walk;
        }
        const uint64_t place = frame + words(rule.return_words);
        // The stack grows towards its end, or this is no stack.
        if (frame <= stack_pointer || frame > stack.end || !used.holds_word(place)) {
            return walk;
        }
        if (rule.saved_frame_pointer_words != 0 || rule.kind == UnwindRule::kThroughFramePointer) {
            const uint64_t saved = saved_base + words(rule.saved_frame_pointer_words);
            if (!used.holds_word(saved)) {
                return walk;
            }
            frame_pointer = word_at(saved);
        }
        address = word_at(place);
        stack_pointer = frame;
        if (address == 0) {
            walk.cut = false;
            return walk;
        }
    }
    return walk;
}

}  // namespace titan::tracer
