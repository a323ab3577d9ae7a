#include "stack_writer.h"

#include <algorithm>

#include "unwinder.h"

namespace titan::tracer {

bool StackWriter::write(const Answer& answer, format::StackThread& thread, bool whole) {
    if (!write_native(answer.thread, thread, whole)) {
        return false;
    }
    write_python(answer.python, thread);
    return true;
}

void StackWriter::write_python_alone(const PythonWalk& walked, format::StackThread& thread) {
    frames_seen_ = 0;
    write_python(walked, thread);
}

bool StackWriter::write_native(const CapturedThread& captured, format::StackThread& thread, bool whole) {
    size_t room = 0;
    uint64_t* const addresses = image_.frame_room(room);
    const Unwound unwound = unwind(captured, static_cast<int32_t>(thread.tid) == crashing_, modules_, addresses, tops_,
                                   std::min(room, kMaxFramesOfThread));
    if (whole && !unwound.whole) {
        return false;
    }
    frames_seen_ = unwound.count;
    image_.add_frames(thread, unwound.count);
    thread.outcome = unwound.whole ? format::StackOutcome::kUnwound : format::StackOutcome::kCut;
    return true;
}

void StackWriter::write_python(const PythonWalk& walked, format::StackThread& thread) {
    thread.first_python = image_.python_count();
    thread.python_count = 0;
    thread.python_cut = walked.walk.cut == python::Cut::kNone ? 0 : 1;
    for (uint32_t i = 0; i < walked.walk.count; ++i) {
        format::StackPython place = place_of(walked.frames[i]);
        place.is_entry = walked.frames[i].is_entry ? 1 : 0;
        place.native = native_frame_of(walked.frames[i].native_mark);
        if (!image_.add_python(place)) {
            thread.python_cut = 1;
            return;
        }
        ++thread.python_count;
    }
}

// The native frame of the thread written last that holds that address of its stack, + 1; 0 none.
uint32_t StackWriter::native_frame_of(uint64_t mark) const {
    for (size_t i = 0; mark != 0 && i + 1 < frames_seen_; ++i) {
        if (tops_[i] != 0 && tops_[i] <= mark && mark < tops_[i + 1]) {
            return static_cast<uint32_t>(i + 1);
        }
    }
    return 0;
}

format::StackPython StackWriter::place_of(const python::Frame& frame) {
    KnownPlace& known = places_[(frame.code / 16 + static_cast<uint64_t>(frame.offset)) % kKnownPlaces];
    if (known.code != frame.code || known.offset != frame.offset) {
        known = {frame.code, frame.offset, {}};
        PythonPlace place{};
        if (describe_python(frame, place)) {
            known.place = {image_.text(place.file), image_.text(place.function), place.line, 0, 0, 0};
        }
    }
    return known.place;
}

}  // namespace titan::tracer
