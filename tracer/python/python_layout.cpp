#include "python_layout.h"

#include <initializer_list>

namespace titan::tracer::python {
namespace {

constexpr uint32_t kFirstTabled = 9, kFirstSelfDescribing = 13;

struct Offsets {
    const char* field;
    uint32_t by_version[4];
};
struct Words {
    const char* field;
    uint16_t by_version[3];
};

constexpr Offsets kOffsets[] = {
#define TITAN_PYTHON_OFFSET(field, ...) {#field, {__VA_ARGS__}},
#include "layouts.def"
};

uint32_t furthest(std::initializer_list<uint32_t> ends) {
    uint32_t most = 0;
    for (const uint32_t end : ends) {
        most = end > most ? end : most;
    }
    return most;
}

// Completes the layout: sizes that a walk reads of each structure, and the limits that make its reads safe.
bool complete(uint32_t minor, Layout& layout) {
    layout.frames = minor == 9    ? FrameStyle::kByteIndex
                    : minor == 10 ? FrameStyle::kUnitIndex
                    : minor == 11 ? FrameStyle::kEntryFlag
                                  : FrameStyle::kShimFrames;
    layout.lines = minor == 9 ? LineTable::kLnotab : minor == 10 ? LineTable::kRanges : LineTable::kLocations;
    layout.thread_frame_nested = minor == 11 || minor == 12;
    layout.has_native_id = minor >= 11;
    layout.has_base_frame = minor >= 15;
    layout.shim_owner = 3;
    layout.frame_bytes = furthest({layout.frame_previous + 8, layout.frame_code + 8, layout.frame_instruction + 8,
                                   layout.frame_owner + 1, layout.frame_is_entry + 1, layout.frame_copy_index + 4});
    layout.code_bytes = furthest({layout.object_type + 16, layout.code_first_traceable + 4, layout.code_copies + 8});
    layout.thread_bytes = furthest({layout.thread_next + 8, layout.thread_interpreter + 8, layout.thread_frame + 8,
                                    layout.thread_id + 8, layout.thread_native_id + 8});
    return layout.frame_bytes <= kMaxViewBytes && layout.code_bytes <= kMaxViewBytes &&
           layout.thread_bytes <= kMaxViewBytes;
}

// Offsets within these lie close to their object's start; the runtime's and an interpreter's structure are large.
bool small_offsets(const Layout& layout) {
    for (const uint32_t offset :
         {layout.code_file, layout.code_name, layout.code_qualname, layout.code_lines, layout.code_first_line,
          layout.code_bytecode, layout.text_length, layout.text_state, layout.text_ascii_bytes,
          layout.text_compact_bytes, layout.bytes_size, layout.bytes_data, layout.object_type, layout.type_name}) {
        if (offset == 0 || offset > kMaxViewBytes) {
            return false;
        }
    }
    return true;
}

}  // namespace

bool layout_of_version(uint32_t minor, Layout& layout) {
    layout = Layout{};
    if (minor < kFirstTabled || minor >= kFirstSelfDescribing) {
        return false;
    }
    const uint32_t column = minor - kFirstTabled;
    size_t row = 0;
#define TITAN_PYTHON_OFFSET(name, ...) layout.name = kOffsets[row++].by_version[column];
#include "layouts.def"
    return complete(minor, layout);
}

bool layout_of_debug_offsets(uint32_t minor, const uint64_t (&words)[kDebugWords], bool free_threaded, Layout& layout) {
    layout = Layout{};
    constexpr uint32_t kMaxOffset = 64u << 20;
    constexpr Words kWords[] = {
#define TITAN_PYTHON_WORD(field, ...) {#field, {__VA_ARGS__}},
#include "debug_offsets.def"
    };
    if (minor < kFirstSelfDescribing || minor >= kFirstSelfDescribing + sizeof(Words::by_version) / sizeof(uint16_t)) {
        return false;
    }
    size_t row = 0;
    bool sane = true;
    const auto next_word = [&] {
        const uint16_t word = kWords[row++].by_version[minor - kFirstSelfDescribing];
        const uint64_t offset = word == 0 ? 0 : words[word];
        sane = sane && offset <= kMaxOffset;
        return static_cast<uint32_t>(offset);
    };
#define TITAN_PYTHON_WORD(name, ...) layout.name = next_word();
#include "debug_offsets.def"
    if (!sane) {
        return false;
    }
    // Fields that the offsets do not name are derived from others: a compact string's head is the full one without its
    // last pointer, and the first traceable instruction lies before co_extra, which lies before the code (or the list
    // of its copies). The fields of an interpreter's own lock are told from the start of the interpreter.
    sane = layout.gil_holder >= layout.interpreter_own_gil && layout.gil_locked >= layout.interpreter_own_gil;
    layout.gil_holder -= layout.interpreter_own_gil;
    layout.gil_locked -= layout.interpreter_own_gil;
    layout.has_bytecode_copies = free_threaded && layout.code_copies != 0;
    layout.text_compact_bytes -= 8;
    layout.text_kind_shift = free_threaded && minor >= 14 ? 8 : 2;
    layout.code_first_traceable = (layout.has_bytecode_copies ? layout.code_copies : layout.code_bytecode) - 16;
    return sane && complete(minor, layout) && small_offsets(layout);
}

}  // namespace titan::tracer::python
