// Offsets of the fields in one CPython's structures, and other differences between versions.
//
// Thread-safety: pure functions, async-signal-safe. Sources: see layouts.def and debug_offsets.def.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::tracer::python {

// Columns of a code object's table of lines.
enum class LineTable : uint8_t { kLnotab, kRanges, kLocations };

// How a frame stores its position, and where one run of the interpreter's C function ends.
enum class FrameStyle : uint8_t {
    kByteIndex,   // 3.9: index in bytes; one native run per frame
    kUnitIndex,   // 3.10: index in 2-byte units; one native run per frame
    kEntryFlag,   // 3.11: pointer to the instruction; a flag on the last frame of a native run
    kShimFrames,  // 3.12 and later: pointer; a frame of another owner lies below the last frame of a native run
};

struct Layout {
#define TITAN_PYTHON_OFFSET(field, ...) uint32_t field;
#include "layouts.def"
    uint32_t frame_bytes;   // bytes of a frame that a walk reads, from its start
    uint32_t code_bytes;    // likewise of a code object
    uint32_t thread_bytes;  // likewise of a thread state
    FrameStyle frames;
    LineTable lines;
    uint8_t shim_owner;        // frames of this owner and of higher ones are no Python frames
    bool thread_frame_nested;  // thread_frame points to what points to the frame
    bool has_native_id;
    bool has_bytecode_copies;  // threads may run their own copies of a function's code
    bool has_base_frame;       // the outermost placeholder stands for the thread, not for a native run
};

// Largest view of any of these structures; larger ones are rejected.
constexpr size_t kMaxViewBytes = 512;
constexpr size_t kDebugWords = 96;

// False: this version's structures are not known here.
bool layout_of_version(uint32_t minor, Layout& layout);
// Takes the words at the start of _PyRuntime. False: not known, or not plausible.
bool layout_of_debug_offsets(uint32_t minor, const uint64_t (&words)[kDebugWords], bool free_threaded, Layout& layout);

}  // namespace titan::tracer::python
