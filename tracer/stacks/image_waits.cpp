#include "image_waits.h"

#include <algorithm>

#include "formats/layout/stacks_layout.h"
#include "formats/layout/waits_outside_nccl.h"
#include "stack_image.h"

namespace titan::tracer {

std::string_view wait_outside_nccl(std::span<const char> image, pid_t tid) {
    using format::StackTable;
    if (image.empty()) {
        return {};
    }
    const auto threads = rows_of<format::StackThread>(image, StackTable::kThreads);
    const auto thread = std::find_if(threads.begin(), threads.end(),
                                     [tid](const format::StackThread& candidate) { return candidate.tid == tid; });
    if (thread == threads.end()) {
        return {};
    }
    const auto frames =
        rows_of<format::StackFrame>(image, StackTable::kFrames).subspan(thread->first_frame, thread->frame_count);
    const char* const texts = rows_of<char>(image, StackTable::kTexts).data();
    for (const format::WaitOutsideNccl& wait : format::kWaitsOutsideNccl) {
        for (const format::StackName& name : rows_of<format::StackName>(image, StackTable::kNames)) {
            const auto is_here = [&](const format::StackFrame& frame) {
                return (frame.address & ~format::kInterrupted) == name.address;
            };
            if (format::symbol_begins(texts + name.name, wait.begin) &&
                std::any_of(frames.begin(), frames.end(), is_here)) {
                return wait.what;
            }
        }
    }
    return {};
}

}  // namespace titan::tracer
