#include "decode_samples.h"

#include <algorithm>

#include "formats/container/dump_reader.h"
#include "formats/ring/stacks_image.h"
#include "made_texts.h"

namespace titan::analyzer {
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
