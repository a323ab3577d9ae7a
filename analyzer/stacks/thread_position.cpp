// Chooses from all stacks in a dump those that a verdict needs.
#include "thread_position.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "formats/container/dump_reader.h"
#include "formats/layout/waits_outside_nccl.h"
#include "formats/ring/stacks_image.h"
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

// --- waits outside NCCL

std::string_view wait_outside_nccl(const Process& process, const ThreadPosition& position) {
    const auto is_in = [&](const format::WaitOutsideNccl& wait) {
        return std::any_of(position.frames.begin(), position.frames.end(),
                           [&](uint32_t frame) { return process.text(frame).starts_with(wait.begin); });
    };
    const auto found = std::find_if(std::begin(format::kWaitsOutsideNccl), std::end(format::kWaitsOutsideNccl), is_in);
    return found == std::end(format::kWaitsOutsideNccl) ? std::string_view() : found->what;
}

bool waits_for_an_answer(const Process& process, const ThreadPosition& position) {
    constexpr auto kReceives = std::to_array<std::string_view>(
        {"recv ", "__recv ", "__libc_recv ", "recvfrom ", "__recvfrom ", "__libc_recvfrom ", "recvmsg ", "__recvmsg ",
         "connect ", "__connect ", "poll ", "__poll ", "ppoll ", "epoll_wait ", "select ", "__select ", "pselect "});
    const auto is_receive = [&](std::string_view function) {
        return process.text(position.frames.front()).starts_with(function);
    };
    return !position.frames.empty() && (!wait_outside_nccl(process, position).empty() ||
                                        std::any_of(kReceives.begin(), kReceives.end(), is_receive));
}

// --- A process that dumped, went on a while and died: its ring is newer, and only the dump has stacks.

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

// --- samples of stacks

namespace {

// Drops the frames around the Python program: they never differ, and samples of a thread that could not be asked lack
// them.
size_t frames_of_program(const ThreadStack& thread) {
    const std::vector<std::string>& frames = thread.merged.frames;
    if (thread.python.empty() || thread.python_cut) {
        return frames.size();
    }
    const auto outermost = std::find(frames.rbegin(), frames.rend(), site_text(thread.python.back()));
    return outermost == frames.rend() ? frames.size() : static_cast<size_t>(frames.rend() - outermost);
}

SampledStack in_words(const ThreadStack& thread, MadeTexts& texts) {
    SampledStack stack;
    stack.thread = thread.tid;
    stack.name = texts.add(thread.name);
    const auto number_of = [&](const std::string& text) { return texts.add(text); };
    const MergedStack& merged = thread.merged;
    const auto count = static_cast<std::ptrdiff_t>(frames_of_program(thread));
    std::transform(merged.frames.begin(), merged.frames.begin() + count, std::back_inserter(stack.frames), number_of);
    std::transform(merged.libraries.begin(), merged.libraries.begin() + count, std::back_inserter(stack.libraries),
                   number_of);
    return stack;
}

}  // namespace

void decode_samples(const format::RingImage& ring, Symbols& symbols, Process& process) {
    MadeTexts texts(process.texts);
    StackSamples& samples = process.stack_samples;
    for (std::span<const std::byte> bytes : ring.stack_samples()) {
        bytes = bytes.first(std::min<size_t>(bytes.size(), format::kMaxStacksBytes));
        const auto image = format::StacksImage::open(bytes);
        const auto stacks = read_stacks(bytes, symbols, [](const format::StackThread&) { return true; });
        if (!image || !stacks) {
            continue;
        }
        const auto first = static_cast<uint32_t>(samples.stacks.size());
        for (const ThreadStack& thread : stacks->threads) {
            samples.stacks.push_back(in_words(thread, texts));
        }
        for (const format::StackSample& sample : image->samples()) {
            const bool is_known = sample.stack < stacks->threads.size();
            samples.samples.push_back(
                {is_known ? first + sample.stack : kNoIndex, sample.step, ring.clock().realtime_ns(sample.ticks)});
        }
    }
}

}  // namespace titan::analyzer
