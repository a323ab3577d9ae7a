// Of all stacks in a dump, those that a verdict needs.
#include "standing.h"

#include <algorithm>
#include <map>

#include "host_threads.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMaxThreads = 8;
// Of a deep stack the inner part and the way in from main.
constexpr size_t kInnerFrames = 96;
constexpr size_t kOuterFrames = 31;

class Keeper {
  public:
    explicit Keeper(Process& process) : process_(process) {}

    Standing keep(const ThreadStack& thread) {
        Standing standing;
        standing.thread = thread.tid;
        standing.name = text(thread.name);
        const std::vector<std::string>& frames = thread.merged.frames;
        if (frames.empty()) {
            standing.why_none = text(no_stack_text(thread));
        }
        const size_t left_out =
            frames.size() > kInnerFrames + 1 + kOuterFrames ? frames.size() - kInnerFrames - kOuterFrames : 0;
        for (size_t i = 0; i < frames.size(); ++i) {
            if (left_out != 0 && i == kInnerFrames) {
                standing.frames.push_back(text("(frames left out)"));
                standing.libraries.push_back(0);
                i += left_out;
            }
            standing.frames.push_back(text(frames[i]));
            standing.libraries.push_back(text(thread.merged.libraries[i]));
        }
        const auto kept = [&](uint32_t index) { return left_out != 0 && index >= kInnerFrames ? kNoIndex : index; };
        standing.python = kept(thread.merged.python);
        standing.caller = kept(thread.merged.caller);
        standing.native = kept(thread.merged.native);
        return standing;
    }

  private:
    uint32_t text(const std::string& text) {
        const auto [known, fresh] = known_.try_emplace(text, static_cast<uint32_t>(process_.texts.size()));
        if (fresh) {
            process_.texts.push_back(text);
        }
        return text.empty() ? 0 : known->second;
    }

    Process& process_;
    std::map<std::string, uint32_t> known_;
};

int32_t thread_that_tells_most(const Process& process) {
    if (process.liveness == Liveness::kCrashed && process.fatal_thread != 0) {
        return static_cast<int32_t>(process.fatal_thread);
    }
    const ThreadState* const thread = telling_thread(process);
    return thread != nullptr && thread->call != 0 ? static_cast<int32_t>(thread->thread) : process.pid;
}

}  // namespace

void decode_standing(std::span<const std::byte> image, Symbols& symbols, Process& process) {
    if (image.empty()) {
        return;
    }
    const int32_t first = thread_that_tells_most(process);
    const auto rank_of = [&](int32_t tid) { return tid == first ? 0 : tid == process.pid ? 1 : 2; };
    const auto calls_nccl = [&](int32_t tid) {
        return std::any_of(process.threads.begin(), process.threads.end(),
                           [&](const ThreadState& thread) { return static_cast<int32_t>(thread.thread) == tid; });
    };
    auto stacks = read_stacks(image, symbols, [&](int32_t tid) { return rank_of(tid) < 2 || calls_nccl(tid); });
    if (!stacks) {
        return;
    }
    std::stable_sort(stacks->threads.begin(), stacks->threads.end(),
                     [&](const ThreadStack& a, const ThreadStack& b) { return rank_of(a.tid) < rank_of(b.tid); });
    Keeper keeper(process);
    for (size_t i = 0; i < std::min(stacks->threads.size(), kMaxThreads); ++i) {
        process.standing.push_back(keeper.keep(stacks->threads[i]));
    }
}

std::string place_text(const Process& process, const Standing& standing) {
    const auto frame = [&](uint32_t index) { return process.text(standing.frames[index]); };
    const auto has = [&](uint32_t index) { return index < standing.frames.size(); };
    if (standing.frames.empty()) {
        return {};
    }
    std::string text = frame(has(standing.python) ? standing.python : has(standing.native) ? standing.native : 0);
    if (has(standing.python) && has(standing.native)) {
        text += ", inside " + frame(standing.native);
    }
    return has(standing.caller) ? text + ", called from " + frame(standing.caller) : text;
}

}  // namespace titan::analyzer
