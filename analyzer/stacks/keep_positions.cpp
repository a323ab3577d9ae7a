// A process that dumped, went on a while and died: its ring is newer, and only the dump has stacks.
#include <algorithm>

#include "thread_position.h"

#include "made_texts.h"

namespace titan::analyzer {
namespace {

// Has this thread called anything since? One that no record knows moves with the process.
bool has_moved(const Process& later, int32_t thread, int64_t since_ns) {
    const auto known = std::find_if(later.threads.begin(), later.threads.end(), [&](const ThreadState& state) {
        return state.thread == static_cast<uint32_t>(thread);
    });
    return known == later.threads.end() ? later.last_activity_ns() > since_ns
                                        : std::max(known->last_call_ns, known->entered_ns) > since_ns;
}

}  // namespace

void keep_positions(const Process& dumped, Process& later) {
    if (!later.positions.empty() || dumped.step != later.step) {
        return;
    }
    later.python_threads = dumped.python_threads;
    MadeTexts texts(later.texts);
    const auto text_of = [&](uint32_t text) { return texts.add(dumped.text(text)); };
    for (const ThreadPosition& position : dumped.positions) {
        if (has_moved(later, position.thread, dumped.now_ns)) {
            continue;
        }
        ThreadPosition kept = position;
        kept.name = text_of(position.name);
        kept.why_none = text_of(position.why_none);
        std::transform(position.frames.begin(), position.frames.end(), kept.frames.begin(), text_of);
        std::transform(position.libraries.begin(), position.libraries.end(), kept.libraries.begin(), text_of);
        later.positions.push_back(std::move(kept));
    }
}

}  // namespace titan::analyzer
