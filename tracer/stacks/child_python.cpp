#include "child_python.h"

#include <algorithm>

#include "base/memory.h"
#include "code_place.h"
#include "frames.h"
#include "runtime.h"
#include "thread_states.h"

namespace titan::tracer {
namespace {

constexpr uint32_t kMostStates = 256;
constexpr uint32_t kMostFrames = 64;

struct ChildReader {
    python::Runtime runtime;
    char room[python::kFindRoomBytes];
    python::ThreadState states[kMostStates];
    python::Frame frames[kMostFrames];
};
constinit ChildReader reader{};  // of the watch thread

size_t describe_frames(const Memory& memory, uint64_t state, std::span<ChildFrame> frames) {
    const auto room = static_cast<uint32_t>(std::min<size_t>(frames.size(), kMostFrames));
    const python::Walk walked = python::walk(memory, reader.runtime, state, reader.frames, room);
    size_t count = 0;
    for (uint32_t i = 0; i < walked.count; ++i) {
        ChildFrame& frame = frames[count];
        python::Place place;
        if (python::describe(memory, reader.runtime, reader.frames[i].code, reader.frames[i].offset, frame.file,
                             sizeof(frame.file), frame.function, sizeof(frame.function), place)) {
            frame.line = place.line;
            ++count;
        }
    }
    return count;
}

}  // namespace

size_t read_child_python(pid_t pid, std::span<ChildFrame> frames) {
    Memory memory;
    if (open_memory(pid, memory) != 0) {
        return 0;
    }
    size_t count = 0;
    char reason[python::kReasonBytes];
    if (python::find_runtime(memory, reader.room, reader.runtime, reason) == python::Search::kFound) {
        const uint32_t states = python::list_threads(memory, reader.runtime, reader.states, kMostStates).count;
        const auto* const main = std::find_if(reader.states, reader.states + states, [&](const auto& state) {
            return state.native_id == static_cast<uint64_t>(pid);
        });
        count = main == reader.states + states ? 0 : describe_frames(memory, main->address, frames);
    }
    close_memory(memory);
    return count;
}

}  // namespace titan::tracer
