#include "call_frame_info.h"

#include <dwarf.h>
#include <string.h>

#include "base/own_memory.h"

namespace titan::tracer {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kFramePointerColumn = 6;
constexpr uint64_t kStackPointerColumn = 7;
#elif defined(__aarch64__)
constexpr uint64_t kFramePointerColumn = 29;
constexpr uint64_t kStackPointerColumn = 31;
#endif

// The halves of an encoding (DW_EH_PE_*), for which <dwarf.h> has no names: the form of the value, and what it is
// relative to.
constexpr uint8_t kForm = 0x0f;
constexpr uint8_t kRelativeTo = 0x70;
constexpr size_t kMaxProgramBytes = 64 << 10;

// Bytes from an address on, up to an end; 0 for ever after the first that cannot be read.
class Cursor {
  public:
    Cursor(uint64_t at, uint64_t end) : at_(at), end_(end) {}

    uint64_t at() const { return at_; }
    bool good() const { return good_; }
    bool more() const { return good_ && at_ < end_; }
    void end_at(uint64_t end) { end_ = end; }
    void skip(uint64_t bytes) {
        good_ = good_ && bytes <= end_ - at_;
        at_ += good_ ? bytes : 0;
    }

    template <typename T>
    T get() {
        T value{};
        for (size_t i = 0; i < sizeof(T); ++i) {
            reinterpret_cast<unsigned char*>(&value)[i] = byte();
        }
        return value;
    }

    uint64_t unsigned_leb() {
        uint64_t value = 0;
        for (unsigned shift = 0; good_; shift += 7) {
            const unsigned char part = byte();
            value |= shift < 64 ? uint64_t{part & 0x7fU} << shift : 0;
            if ((part & 0x80) == 0) {
                break;
            }
        }
        return value;
    }

    int64_t signed_leb() {
        uint64_t value = 0;
        for (unsigned shift = 0; good_;) {
            const unsigned char part = byte();
            value |= shift < 64 ? uint64_t{part & 0x7fU} << shift : 0;
            shift += 7;
            if ((part & 0x80) == 0) {
                value |= (part & 0x40) != 0 && shift < 64 ? ~uint64_t{0} << shift : 0;
                break;
            }
        }
        return static_cast<int64_t>(value);
    }

    // Reads only these forms; indirect ones are for personality routines, which we do not need.
    uint64_t encoded(uint8_t encoding) {
        const uint8_t relative_to = encoding & kRelativeTo;
        const uint64_t from = relative_to == DW_EH_PE_pcrel ? at_ : 0;
        good_ = good_ && (encoding & DW_EH_PE_indirect) == 0 && (relative_to == DW_EH_PE_absptr || from != 0);
        switch (encoding & kForm) {
            case DW_EH_PE_absptr: return from + get<uint64_t>();
            case DW_EH_PE_udata2: return from + get<uint16_t>();
            case DW_EH_PE_udata4: return from + get<uint32_t>();
            case DW_EH_PE_udata8: return from + get<uint64_t>();
            case DW_EH_PE_sdata2: return from + static_cast<uint64_t>(int64_t{get<int16_t>()});
            case DW_EH_PE_sdata4: return from + static_cast<uint64_t>(int64_t{get<int32_t>()});
            case DW_EH_PE_sdata8: return from + get<uint64_t>();
            default: good_ = false; return 0;
        }
    }

  private:
    unsigned char byte() {
        if (at_ >= end_) {
            good_ = false;
        }
        if (good_ && at_ - held_at_ >= held_bytes_) {
            held_at_ = at_;
            const uint64_t left = end_ - at_;
            held_bytes_ = read_memory(at_, held_, left < sizeof(held_) ? left : sizeof(held_));
            good_ = held_bytes_ != 0;
        }
        return good_ ? held_[at_++ - held_at_] : 0;
    }

    uint64_t at_;
    uint64_t end_;
    bool good_ = true;
    uint64_t held_at_ = 0;
    size_t held_bytes_ = 0;
    unsigned char held_[128];
};

enum class Saved : uint8_t { kSame, kUndefined, kAtFrame, kAtFramePointer, kOther };

struct Column {
    Saved saved = Saved::kSame;
    int64_t offset = 0;
};

struct FrameState {
    enum Base : uint8_t { kStackPointer, kFramePointer, kThroughFramePointer, kOtherBase } base = kOtherBase;
    int64_t offset = 0;
    Column frame_pointer;
    Column return_address;
};

struct Common {
    uint64_t code_unit = 0;
    int64_t data_unit = 0;
    uint64_t return_column = 0;
    uint8_t pointers = 0;
    bool has_augmentation = false;
    bool of_signal = false;
};

// The instructions that lead to the state at one address.
class Program {
  public:
    Program(const Common& common, uint64_t begin, uint64_t target)
        : common_(common), location_(begin), target_(target) {}

    void run(Cursor cursor) {
        while (!done_ && good_ && cursor.more()) {
            step(cursor);
        }
        good_ = good_ && cursor.good();
    }
    void begin_function() { initial_ = state_; }
    bool good() const { return good_; }
    const FrameState& state() const { return state_; }

  private:
    static constexpr size_t kDepth = 8;

    void step(Cursor& cursor) {
        const auto code = cursor.get<uint8_t>();
        const uint64_t low = code & 0x3fU;
        switch (code & 0xc0) {
            case DW_CFA_advance_loc: advance(low); return;
            case DW_CFA_offset:
                set(low, Saved::kAtFrame, static_cast<int64_t>(cursor.unsigned_leb()) * common_.data_unit);
                return;
            case DW_CFA_restore: restore(low); return;
            default: break;
        }
        switch (code) {
            case DW_CFA_nop: break;
            case DW_CFA_set_loc:
                location_ = cursor.encoded(common_.pointers);
                done_ = location_ > target_;
                break;
            case DW_CFA_advance_loc1: advance(cursor.get<uint8_t>()); break;
            case DW_CFA_advance_loc2: advance(cursor.get<uint16_t>()); break;
            case DW_CFA_advance_loc4: advance(cursor.get<uint32_t>()); break;
            case DW_CFA_offset_extended: at_frame(cursor, false); break;
            case DW_CFA_restore_extended: restore(cursor.unsigned_leb()); break;
            case DW_CFA_undefined: set(cursor.unsigned_leb(), Saved::kUndefined, 0); break;
            case DW_CFA_same_value: set(cursor.unsigned_leb(), Saved::kSame, 0); break;
            case DW_CFA_remember_state: remember(); break;
            case DW_CFA_restore_state: recall(); break;
            case DW_CFA_def_cfa:
                define_base(cursor.unsigned_leb());
                state_.offset = static_cast<int64_t>(cursor.unsigned_leb());
                break;
            case DW_CFA_def_cfa_register: define_base(cursor.unsigned_leb()); break;
            case DW_CFA_def_cfa_offset: state_.offset = static_cast<int64_t>(cursor.unsigned_leb()); break;
            case DW_CFA_def_cfa_expression: base_expression(cursor); break;
            case DW_CFA_expression: register_expression(cursor); break;
            case DW_CFA_offset_extended_sf: at_frame(cursor, true); break;
            case DW_CFA_def_cfa_sf:
                define_base(cursor.unsigned_leb());
                state_.offset = cursor.signed_leb() * common_.data_unit;
                break;
            case DW_CFA_def_cfa_offset_sf: state_.offset = cursor.signed_leb() * common_.data_unit; break;
            case DW_CFA_register:
            case DW_CFA_val_offset:
                other(cursor);
                cursor.unsigned_leb();
                break;
            case DW_CFA_val_offset_sf:
                other(cursor);
                cursor.signed_leb();
                break;
            case DW_CFA_val_expression:
                other(cursor);
                cursor.skip(cursor.unsigned_leb());
                break;
            case DW_CFA_AARCH64_negate_ra_state: break;  // the return address is signed from here on
            case DW_CFA_GNU_args_size: cursor.unsigned_leb(); break;
            default: good_ = false;
        }
    }

    void advance(uint64_t units) {
        location_ += units * common_.code_unit;
        done_ = location_ > target_;
    }
    void at_frame(Cursor& cursor, bool is_signed) {
        const uint64_t column = cursor.unsigned_leb();
        const int64_t units = is_signed ? cursor.signed_leb() : static_cast<int64_t>(cursor.unsigned_leb());
        set(column, Saved::kAtFrame, units * common_.data_unit);
    }
    void other(Cursor& cursor) { set(cursor.unsigned_leb(), Saved::kOther, 0); }
    void set(uint64_t column, Saved saved, int64_t offset) {
        if (column == kFramePointerColumn) {
            state_.frame_pointer = {saved, offset};
        } else if (column == common_.return_column) {
            state_.return_address = {saved, offset};
        }
    }
    void restore(uint64_t column) {
        if (column == kFramePointerColumn) {
            state_.frame_pointer = initial_.frame_pointer;
        } else if (column == common_.return_column) {
            state_.return_address = initial_.return_address;
        }
    }
    void define_base(uint64_t column) {
        state_.base = column == kStackPointerColumn   ? FrameState::kStackPointer
                      : column == kFramePointerColumn ? FrameState::kFramePointer
                                                      : FrameState::kOtherBase;
    }
    void remember() {
        good_ = good_ && depth_ < kDepth;
        if (good_) {
            kept_[depth_++] = state_;
        }
    }
    void recall() {
        good_ = good_ && depth_ > 0;
        if (good_) {
            state_ = kept_[--depth_];
        }
    }

    // A register plus a number (DW_OP_bregN): that is what functions use that realign their stack.
    static bool plain_register(Cursor& cursor, int64_t& offset, uint64_t end) {
        if (cursor.get<uint8_t>() != DW_OP_breg0 + kFramePointerColumn) {
            return false;
        }
        offset = cursor.signed_leb();
        return cursor.at() <= end;
    }
    void base_expression(Cursor& cursor) {
        const uint64_t bytes = cursor.unsigned_leb();
        const uint64_t end = cursor.at() + bytes;
        Cursor expression = cursor;
        expression.end_at(end);
        const bool known = plain_register(expression, state_.offset, end) && expression.get<uint8_t>() == DW_OP_deref &&
                           expression.good() && expression.at() == end;
        state_.base = known ? FrameState::kThroughFramePointer : FrameState::kOtherBase;
        cursor.skip(bytes);
    }
    void register_expression(Cursor& cursor) {
        const uint64_t column = cursor.unsigned_leb();
        const uint64_t bytes = cursor.unsigned_leb();
        const uint64_t end = cursor.at() + bytes;
        Cursor expression = cursor;
        expression.end_at(end);
        int64_t offset = 0;
        const bool known = plain_register(expression, offset, end) && expression.good() && expression.at() == end;
        set(column, known ? Saved::kAtFramePointer : Saved::kOther, offset);
        cursor.skip(bytes);
    }

    const Common& common_;
    uint64_t location_;
    uint64_t target_;
    FrameState state_;
    FrameState initial_;
    FrameState kept_[kDepth];
    size_t depth_ = 0;
    bool done_ = false;
    bool good_ = true;
};

// Address of the entry whose function begins last before `address`; 0 none.
uint64_t find_entry(const Module& module, uint64_t address) {
    UnwindIndex index;
    if (!open_unwind_index(module, index)) {
        return 0;
    }
    const auto relative = static_cast<int64_t>(address - index.base);
    uint64_t found = 0;
    for (uint32_t low = 0, high = index.count; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        UnwindRow row{};
        if (!read_memory(index.rows + uint64_t{middle} * sizeof(row), row)) {
            return 0;
        }
        if (row.begin <= relative) {
            found = index.base + static_cast<uint64_t>(int64_t{row.entry});
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return found;
}

// Header of an entry: its end, and its second field. Leaves the cursor after that field.
bool begin_entry(Cursor& cursor, uint32_t& second) {
    const auto bytes = cursor.get<uint32_t>();
    if (!cursor.good() || bytes < sizeof(second) || bytes > kMaxProgramBytes) {
        return false;
    }
    cursor.end_at(cursor.at() + bytes);
    second = cursor.get<uint32_t>();
    return cursor.good();
}

// Up to its instructions.
bool read_common(Cursor& cursor, Common& common) {
    uint32_t id = 0;
    if (!begin_entry(cursor, id) || id != 0) {
        return false;
    }
    const auto version = cursor.get<uint8_t>();
    char letters[8] = {};
    for (size_t i = 0; i < sizeof(letters); ++i) {
        letters[i] = cursor.get<char>();
        if (letters[i] == '\0') {
            break;
        }
    }
    common.code_unit = cursor.unsigned_leb();
    common.data_unit = cursor.signed_leb();
    common.return_column = version == 1 ? cursor.get<uint8_t>() : cursor.unsigned_leb();
    if ((version != 1 && version != 3) || letters[sizeof(letters) - 1] != '\0' ||
        (letters[0] != '\0' && letters[0] != 'z')) {
        return false;
    }
    if (letters[0] == '\0') {
        return cursor.good();
    }
    common.has_augmentation = true;
    const uint64_t bytes = cursor.unsigned_leb();
    const uint64_t end = cursor.at() + bytes;
    for (const char* letter = letters + 1; *letter != '\0'; ++letter) {
        switch (*letter) {
            case 'R': common.pointers = cursor.get<uint8_t>(); break;
            case 'L': cursor.get<uint8_t>(); break;
            case 'P': {
                const auto encoding = cursor.get<uint8_t>();
                cursor.encoded(encoding & ~DW_EH_PE_indirect);
                break;
            }
            case 'S': common.of_signal = true; break;
            case 'B': break;  // aarch64: which key signs return addresses
            default: return false;
        }
    }
    if (!cursor.good() || cursor.at() > end) {
        return false;
    }
    cursor.skip(end - cursor.at());
    return cursor.good();
}

bool fits(int64_t offset, int64_t least_words, int64_t most_words) {
    return offset % 8 == 0 && offset / 8 >= least_words && offset / 8 <= most_words;
}

UnwindRule rule_of(const FrameState& state) {
    constexpr UnwindRule kStop{UnwindRule::kStop};
    if (state.return_address.saved == Saved::kUndefined) {
        return {UnwindRule::kEnd};
    }
    const bool through = state.base == FrameState::kThroughFramePointer;
    const Saved where = state.frame_pointer.saved;
    const bool saved = where == (through ? Saved::kAtFramePointer : Saved::kAtFrame);
    if (state.base == FrameState::kOtherBase || state.return_address.saved != Saved::kAtFrame ||
        (!saved && (through || where != Saved::kSame)) ||
        !fits(state.offset, through ? INT16_MIN : 0, through ? INT16_MAX : UINT16_MAX) ||
        !fits(state.return_address.offset, INT16_MIN, INT16_MAX) ||
        (saved && !fits(state.frame_pointer.offset, INT16_MIN, INT16_MAX))) {
        return kStop;
    }
    UnwindRule rule;
    rule.kind = through                                   ? UnwindRule::kThroughFramePointer
                : state.base == FrameState::kFramePointer ? UnwindRule::kFromFramePointer
                                                          : UnwindRule::kFromStackPointer;
    rule.frame_words = static_cast<uint16_t>(state.offset / 8);
    rule.saved_frame_pointer_words = saved ? static_cast<int16_t>(state.frame_pointer.offset / 8) : int16_t{0};
    rule.return_words = static_cast<int16_t>(state.return_address.offset / 8);
    return rule;
}

// The tables' entry for the function around an address, up to its instructions.
struct Entry {
    Cursor shared;
    Cursor function;
    Common common;
    uint64_t begin;
};

bool open_entry(const Module& module, uint64_t address, Entry& opened) {
    const uint64_t entry = find_entry(module, address);
    if (entry == 0) {
        return false;
    }
    Cursor function(entry, entry + kMaxProgramBytes);
    uint32_t distance = 0;
    if (!begin_entry(function, distance) || distance == 0) {
        return false;
    }
    const uint64_t common_at = entry + sizeof(uint32_t) - distance;
    Cursor shared(common_at, common_at + kMaxProgramBytes);
    Common common;
    if (!read_common(shared, common)) {
        return false;
    }
    const uint64_t begin = function.encoded(common.pointers);
    const uint64_t bytes = function.encoded(common.pointers & kForm);
    if (common.has_augmentation) {
        function.skip(function.unsigned_leb());
    }
    opened = {shared, function, common, begin};
    return function.good() && address >= begin && address - begin < bytes;
}

}  // namespace

uint64_t function_begin(const Module& module, uint64_t address) {
    Entry entry{Cursor(0, 0), Cursor(0, 0), {}, 0};
    return open_entry(module, address, entry) ? entry.begin : 0;
}

UnwindRule read_unwind_rule(const Module& module, uint64_t return_address) {
    constexpr UnwindRule kStop{UnwindRule::kStop};
    const uint64_t call = return_address - 1;  // a call may be the last instruction of its function
    Entry entry{Cursor(0, 0), Cursor(0, 0), {}, 0};
    if (!open_entry(module, call, entry) || entry.common.of_signal) {
        return kStop;
    }
    Program program(entry.common, entry.begin, call);
    program.run(entry.shared);
    program.begin_function();
    program.run(entry.function);
    return program.good() ? rule_of(program.state()) : kStop;
}

}  // namespace titan::tracer
