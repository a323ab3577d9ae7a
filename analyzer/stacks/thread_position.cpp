// Chooses from all stacks in a dump those that a verdict needs.
#include "thread_position.h"

#include <algorithm>
#include <map>

#include "function_name.h"
#include "host_threads.h"
#include "made_texts.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMaxThreads = 8;
// A deep stack keeps its inner part and its way in from main.
constexpr size_t kInnerFrames = 96;
constexpr size_t kOuterFrames = 31;

class Keeper {
  public:
    explicit Keeper(Process& process) : texts_(process.texts) {}

    ThreadPosition keep(const ThreadStack& thread) {
        ThreadPosition position;
        position.thread = thread.tid;
        position.name = texts_.add(thread.name);
        const std::vector<std::string>& frames = thread.merged.frames;
        if (frames.empty()) {
            position.why_none = texts_.add(no_stack_text(thread));
        }
        const size_t left_out =
            frames.size() > kInnerFrames + 1 + kOuterFrames ? frames.size() - kInnerFrames - kOuterFrames : 0;
        for (size_t i = 0; i < frames.size(); ++i) {
            if (left_out != 0 && i == kInnerFrames) {
                position.frames.push_back(texts_.add("(frames left out)"));
                position.libraries.push_back(0);
                i += left_out;
            }
            position.frames.push_back(texts_.add(frames[i]));
            position.libraries.push_back(texts_.add(thread.merged.libraries[i]));
        }
        const auto kept = [&](uint32_t index) { return left_out != 0 && index >= kInnerFrames ? kNoIndex : index; };
        position.python = kept(thread.merged.python);
        position.caller = kept(thread.merged.caller);
        position.native = kept(thread.merged.native);
        position.held_gil = thread.held_gil;
        return position;
    }

  private:
    MadeTexts texts_;
};

void keep_threads(const ProcessStacks& stacks, Process& process) {
    Keeper keeper(process);
    for (const ThreadStack& thread : stacks.threads) {
        if (process.positions.size() < kMaxThreads) {
            process.positions.push_back(keeper.keep(thread));
        }
    }
}

int32_t most_informative_thread(const Process& process) {
    if (process.liveness == Liveness::kCrashed && process.fatal_thread != 0) {
        return static_cast<int32_t>(process.fatal_thread);
    }
    const ThreadState* const thread = most_informative_thread_state(process);
    return thread != nullptr && thread->call != 0 ? static_cast<int32_t>(thread->thread) : working_thread(process);
}

}  // namespace

void decode_positions(std::span<const std::byte> image, Symbols& symbols, Process& process) {
    if (image.empty()) {
        return;
    }
    const int32_t first = most_informative_thread(process);
    const int32_t working = working_thread(process);
    const auto rank_of = [&](int32_t tid) { return tid == first ? 0 : tid == working ? 1 : 2; };
    const auto calls_nccl = [&](int32_t tid) {
        return std::any_of(process.threads.begin(), process.threads.end(),
                           [&](const ThreadState& thread) { return static_cast<int32_t>(thread.thread) == tid; });
    };
    const auto tells = [&](const format::StackThread& thread) {
        return rank_of(thread.tid) < 2 || calls_nccl(thread.tid);
    };
    auto stacks = read_stacks(image, symbols, tells);
    if (!stacks) {
        return;
    }
    process.python_threads = stacks->python_threads;
    const auto order_of = [&](const ThreadStack& thread) { return std::pair(rank_of(thread.tid), !thread.held_gil); };
    std::stable_sort(stacks->threads.begin(), stacks->threads.end(),
                     [&](const ThreadStack& a, const ThreadStack& b) { return order_of(a) < order_of(b); });
    keep_threads(*stacks, process);
    const ThreadPosition* const at_work = working_position(process);
    if (at_work != nullptr && waits_for_a_thread(process, *at_work)) {
        const auto others = read_stacks(image, symbols, [&](const format::StackThread& thread) {
            return thread.python_count != 0 && !tells(thread) && thread.held_gil == 0;
        });
        keep_threads(*others, process);
    }
}

const ThreadPosition* working_position(const Process& process) {
    const int32_t working = working_thread(process);
    const auto found = std::find_if(process.positions.begin(), process.positions.end(),
                                    [&](const ThreadPosition& position) { return position.thread == working; });
    return found == process.positions.end() || found->frames.empty() ? nullptr : &*found;
}

bool waits_for_a_thread(const Process& process, const ThreadPosition& position) {
    if (position.python == kNoIndex) {
        return false;
    }
    const std::string& frame = process.text(position.frames[position.python]);
    return frame.find(" at threading.py:") != std::string::npos || frame.find(" at queue.py:") != std::string::npos;
}

std::string place_in_program(const Process& process, const ThreadPosition& position) {
    const auto frame = [&](uint32_t index) { return short_frame(process.text(position.frames[index])); };
    const auto has = [&](uint32_t index) { return index < position.frames.size(); };
    if (position.frames.empty()) {
        return {};
    }
    return (has(position.caller) ? frame(position.caller) + ", in " : std::string()) +
           frame(has(position.python)   ? position.python
                 : has(position.native) ? position.native
                                        : 0);
}

std::string place_text(const Process& process, const ThreadPosition& position) {
    const bool is_inside = position.python < position.frames.size() && position.native < position.frames.size();
    return place_in_program(process, position) +
           (is_inside ? ", inside " + short_frame(process.text(position.frames[position.native])) : std::string());
}

}  // namespace titan::analyzer
