#include "folded_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "function_name.h"
#include "sampled_stacks.h"

namespace titan::analyzer {
namespace {

constexpr const char* kUnknown = "(not seen)";

// A semicolon ends a frame, and what follows the last blank is a number.
std::string as_frame(const std::string& text) {
    std::string frame = text.empty() ? kUnknown : short_frame(text);
    std::replace(frame.begin(), frame.end(), ';', ',');
    return frame;
}

template <typename Frames, typename Text>
std::string as_line(const std::string& thread, const Frames& innermost_first, const Text& text_of) {
    std::string line = as_frame(thread);
    for (auto frame = innermost_first.rbegin(); frame != innermost_first.rend(); ++frame) {
        line += ";" + as_frame(text_of(*frame));
    }
    return innermost_first.empty() ? line + ";" + kUnknown : line;
}

using Counts = std::map<std::string, size_t>;

size_t add_samples(const Process& process, Counts& counts) {
    const StackSamples& all = process.stack_samples;
    std::vector<std::string> lines;
    for (const SampledStack& stack : all.stacks) {
        lines.push_back(as_line(sampled_thread(process, stack), stack.frames,
                                [&](uint32_t text) -> const std::string& { return process.text(text); }));
    }
    size_t samples = 0;
    for (const StackSample& sample : all.samples) {
        if (sample.stack < lines.size()) {
            ++counts[lines[sample.stack]];
            ++samples;
        }
    }
    return samples;
}

FoldedStacks written(const Counts& counts, size_t samples, size_t ranks) {
    FoldedStacks folded{.samples = samples, .stacks = counts.size(), .ranks = ranks};
    for (const auto& [stack, count] : counts) {
        folded.text += fmt::format("{} {}\n", stack, count);
    }
    return folded;
}

}  // namespace

FoldedStacks fold_samples(const Run& run, const std::set<int>& ranks) {
    Counts counts;
    size_t samples = 0;
    size_t with_samples = 0;
    for (const Process& process : run.processes) {
        if (ranks.empty() || ranks.contains(process.rank)) {
            const size_t added = add_samples(process, counts);
            samples += added;
            with_samples += added != 0 ? 1 : 0;
        }
    }
    return written(counts, samples, with_samples);
}

FoldedStacks fold_dumped(const std::vector<ProcessStacks>& all, bool all_threads) {
    Counts counts;
    size_t samples = 0;
    size_t ranks = 0;
    for (const ProcessStacks& process : all) {
        const size_t before = samples;
        for (const ThreadStack& thread : process.threads) {
            const bool is_main = thread.tid == process.pid;
            if ((all_threads || is_main) && !thread.merged.frames.empty()) {
                ++counts[as_line(is_main ? "main" : thread.name, thread.merged.frames,
                                 [](const std::string& text) -> const std::string& { return text; })];
                ++samples;
            }
        }
        ranks += samples != before ? 1 : 0;
    }
    return written(counts, samples, ranks);
}

FoldedStacks fold_difference(const Run& run, int rank) {
    Counts own;
    Counts others;
    size_t own_samples = 0;
    size_t peer_samples = 0;
    for (const Process& process : run.processes) {
        own_samples += process.rank == rank ? add_samples(process, own) : 0;
    }
    const std::vector<size_t> peers = sampled_peers(run, {rank});
    for (const size_t peer : peers) {
        peer_samples += add_samples(run.processes[peer], others);
    }
    FoldedStacks folded{.samples = own_samples, .ranks = 1, .peers = peers.size()};
    if (own_samples == 0 || peer_samples == 0) {
        return folded;
    }
    const auto scaled = [&](const Counts& counts, const std::string& stack, size_t samples) {
        const auto found = counts.find(stack);
        const auto count = static_cast<double>(found == counts.end() ? 0 : found->second);
        return std::llround(count * static_cast<double>(std::max(own_samples, peer_samples)) /
                            static_cast<double>(samples));
    };
    Counts both = own;
    both.insert(others.begin(), others.end());
    for (const auto& [stack, count] : both) {
        folded.text +=
            fmt::format("{} {} {}\n", stack, scaled(others, stack, peer_samples), scaled(own, stack, own_samples));
    }
    folded.stacks = both.size();
    return folded;
}

}  // namespace titan::analyzer
