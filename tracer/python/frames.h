// The Python frames of one thread, innermost first: code objects and places in them, no text. describe() makes text of
// them.
//
// DirectMemory needs no system call: it is for a thread that walks its own frames in a call that it made. A signal
// handler walks with Memory, because it may interrupt the interpreter while the pointers of a new frame are not set.
// Async-signal-safe, bounded by the room for frames. Frames that change meanwhile end the walk early, but never lead it
// astray: each must run a code object.
#pragma once

#include "runtime.h"

namespace titan::tracer::python {

constexpr int32_t kUnknownOffset = INT32_MIN;

struct Frame {
    // If is_entry, and from 3.12 on: an address within the stack frame of the C function that runs this frame and those
    // inside it up to the next entry, so that native frames are matched without their names. Else 0.
    uint64_t native_mark = 0;
    uint64_t code = 0;                // the code object's address
    int32_t offset = kUnknownOffset;  // offset of the current instruction, in bytes
    // The outermost frame of one native run of the interpreter's C function (_PyEval_EvalFrameDefault; from 3.14
    // on it may hand over to others by tail calls, whose names no table tells): between native frames, a stack goes on
    // after this one.
    bool is_entry = false;
    // Native runs between the frame before and this one that show no Python frame (just entered, or about to return).
    uint8_t bare_runs = 0;
};

enum class Cut : uint8_t {
    kNone,
    kRoom,  // there are more frames
    kTorn,  // not a frame: the thread ran on, or memory is damaged
};

struct Walk {
    uint32_t count = 0;
    uint32_t bare_runs = 0;  // native runs outside the last frame that show no Python frame
    Cut cut = Cut::kNone;
};

namespace detail {

// A frame's content, the same for all versions.
struct RawFrame {
    uint64_t previous, code;
    int32_t offset;
    bool is_python;    // else a placeholder of the interpreter's
    bool is_complete;  // its first traceable instruction has begun; CPython itself shows no others
    bool ends_run;     // nothing further out belongs to the same native run
};

template <class M>
bool read_code_place(const M& memory, const Runtime& runtime, const char* frame, bool generator, RawFrame& raw) {
    const Layout& layout = runtime.layout;
    char room[kMaxViewBytes];
    const char* const code = raw.code == 0 ? nullptr : memory.view(raw.code, room, layout.code_bytes);
    if (code == nullptr || field<uint64_t>(code, layout.object_type) != runtime.code_type) {
        return false;
    }
    raw.is_complete = true;
    if (layout.frames <= FrameStyle::kUnitIndex) {
        const int32_t index = field<int32_t>(frame, layout.frame_instruction);
        raw.offset = layout.frames == FrameStyle::kUnitIndex && index > 0 && index < (1 << 29) ? index * 2 : index;
        return true;
    }
    uint64_t start = raw.code + layout.code_bytecode;
    if (layout.has_bytecode_copies) {
        const auto index = field<int32_t>(frame, layout.frame_copy_index);
        const auto copies = field<uint64_t>(code, layout.code_copies);
        if (index > 0 && copies != 0 && copies % 8 == 0) {
            char entry[8];
            const char* const there =
                index < (1 << 20) ? memory.view(copies + 8 + 8 * static_cast<uint64_t>(index), entry, 8) : nullptr;
            start = there != nullptr ? field<uint64_t>(there, 0) : 0;
        }
    }
    const auto units = field<int64_t>(code, layout.object_type + 8);
    const auto offset = static_cast<int64_t>(field<uint64_t>(frame, layout.frame_instruction) - start);
    if (units <= 0 || units > INT32_MAX / 2 || offset < -2 || offset >= units * 2) {
        raw.offset = kUnknownOffset;
        return true;
    }
    raw.offset = static_cast<int32_t>(offset);
    raw.is_complete = generator || raw.offset / 2 >= field<int32_t>(code, layout.code_first_traceable);
    return true;
}

template <class M>
bool read_frame(const M& memory, const Runtime& runtime, uint64_t address, RawFrame& raw) {
    const Layout& layout = runtime.layout;
    char room[kMaxViewBytes];
    const char* const frame = address % 8 == 0 ? memory.view(address, room, layout.frame_bytes) : nullptr;
    if (frame == nullptr) {
        return false;
    }
    constexpr uint64_t kReferenceTags = 3;
    constexpr uint8_t kGeneratorOwner = 1, kLastOwner = 4;
    raw.previous = field<uint64_t>(frame, layout.frame_previous);
    raw.code = field<uint64_t>(frame, layout.frame_code) & ~kReferenceTags;
    raw.is_python = true;
    raw.ends_run = layout.frames <= FrameStyle::kUnitIndex;
    uint8_t owner = 0;
    if (layout.frames >= FrameStyle::kEntryFlag) {
        owner = field<uint8_t>(frame, layout.frame_owner);
        if (owner > kLastOwner) {
            return false;
        }
        raw.ends_run = layout.frames == FrameStyle::kEntryFlag && field<uint8_t>(frame, layout.frame_is_entry) != 0;
        raw.is_python = owner < layout.shim_owner;
        raw.ends_run |= !raw.is_python && !(layout.has_base_frame && raw.previous == 0);
    }
    return !raw.is_python || read_code_place(memory, runtime, frame, owner == kGeneratorOwner, raw);
}

template <class M>
bool top_frame(const M& memory, const Layout& layout, uint64_t thread, uint64_t& frame) {
    char room[8];
    const char* there = memory.view(thread + layout.thread_frame, room, 8);
    if (there != nullptr && layout.thread_frame_nested) {
        const uint64_t cframe = field<uint64_t>(there, 0);
        if (cframe == 0) {
            frame = 0;
            return true;
        }
        there = memory.view(cframe + layout.cframe_frame, room, 8);
    }
    frame = there != nullptr ? field<uint64_t>(there, 0) : 0;
    return there != nullptr;
}

}  // namespace detail

// `thread` is the address of a thread state.
template <class M>
Walk walk(const M& memory, const Runtime& runtime, uint64_t thread, Frame* out, uint32_t capacity) {
    Walk walk;
    uint64_t address;
    if (!detail::top_frame(memory, runtime.layout, thread, address)) {
        walk.cut = Cut::kTorn;
        return walk;
    }
    bool run_shows = false;  // a frame of the present native run is among `out`
    uint64_t mark = 0;       // Brent's: see thread_states.cpp
    // Placeholders and incomplete frames take steps without taking room.
    const uint64_t most_steps = 4ull * capacity + 64;
    for (uint64_t step = 0, next_mark = 2; address != 0; ++step) {
        detail::RawFrame raw;
        if (address == mark || step == most_steps || !detail::read_frame(memory, runtime, address, raw)) {
            walk.cut = Cut::kTorn;
            break;
        }
        if (step == next_mark) {
            mark = address;
            next_mark *= 2;
        }
        if (raw.is_python && raw.is_complete) {
            if (walk.count == capacity) {
                walk.cut = Cut::kRoom;
                break;
            }
            out[walk.count++] = {0, raw.code, raw.offset, false, static_cast<uint8_t>(walk.bare_runs)};
            walk.bare_runs = 0;
            run_shows = true;
        }
        if (raw.ends_run) {
            if (run_shows) {
                out[walk.count - 1].is_entry = true;
                out[walk.count - 1].native_mark =
                    raw.is_python ? 0 : address;  // the placeholder is a local variable there
            } else if (walk.bare_runs < UINT8_MAX) {
                walk.bare_runs++;
            }
            run_shows = false;
        }
        address = raw.previous;
        // The outermost frame ends a native run. One of Python's that does not has just lost its link: a generator that
        // ends.
        if (address == 0 && raw.is_python && !raw.ends_run) {
            walk.cut = Cut::kTorn;
        }
    }
    return walk;
}

}  // namespace titan::tracer::python
