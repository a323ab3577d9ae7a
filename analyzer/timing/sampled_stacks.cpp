#include "sampled_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "function_name.h"
#include "host/words.h"
#include "same_work.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastSamples = 10;      // of either side
constexpr double kLeastDifference = 0.1;  // more than the peers', of all samples
// Standard deviations of the difference, were both sides alike. Many functions are compared, and samples that follow
// each other in a long pause are not independent.
constexpr double kSure = 4;
constexpr double kNearlyMost = 0.9;  // of the largest difference: then the function that lies further in says more
constexpr size_t kMostPeers = 32;    // enough to compare with, in a job of thousands
constexpr std::string_view kMain = "main";

// A frame without its line: "load at data.py", "run at a.cpp (tool)".
std::string without_line(const std::string& frame) {
    const size_t at = frame.rfind(" at ");
    const size_t colon = at == std::string::npos ? at : frame.find_first_of(": ", at + 4);
    if (colon == std::string::npos || frame[colon] != ':') {
        return frame;
    }
    const size_t end = frame.find_first_not_of("0123456789", colon + 1);
    return frame.substr(0, colon) + (end == std::string::npos ? "" : frame.substr(end));
}

struct FunctionCount {
    size_t own = 0;
    size_t peers = 0;
    size_t depth = 0;  // sum over the own samples, from the outermost frame
    bool of_program = false;
};

struct ThreadCount {
    size_t own = 0;
    size_t peers = 0;
    std::vector<FunctionCount> functions;  // by number
};

// Counts samples of two sides by thread and function. A large job has millions of frames, which few functions share.
class Counting {
  public:
    explicit Counting(std::optional<int64_t> from_step) : from_step_(from_step) {}

    void add(const Process& process, bool is_own) {
        const StackSamples& all = process.stack_samples;
        const std::vector<size_t> samples = samples_of(process);
        std::unordered_map<uint32_t, uint32_t> functions;  // by text
        for (size_t i = 0; i < samples.size(); ++i) {
            if (samples[i] != 0) {
                add(process, all.stacks[i], samples[i], is_own, functions);
            }
        }
    }

    const std::map<std::string, ThreadCount>& threads() const { return threads_; }

    // Frames of that function in samples of that thread of a process, as they are, and how often.
    void add_frames(const Process& process, const std::string& thread, size_t function,
                    std::map<std::string, size_t>& frames) const {
        const std::vector<size_t> samples = samples_of(process);
        for (size_t i = 0; i < samples.size(); ++i) {
            const SampledStack& stack = process.stack_samples.stacks[i];
            if (samples[i] == 0 || sampled_thread(process, stack) != thread) {
                continue;
            }
            const auto found = std::find_if(stack.frames.begin(), stack.frames.end(), [&](uint32_t text) {
                return numbers_.at(without_line(process.text(text))) == function;
            });
            if (found != stack.frames.end()) {
                frames[process.text(*found)] += samples[i];
            }
        }
    }

  private:
    std::vector<size_t> samples_of(const Process& process) const {
        std::vector<size_t> samples(process.stack_samples.stacks.size());
        for (const StackSample& sample : process.stack_samples.samples) {
            if (sample.stack < samples.size() && (!from_step_ || sample.step >= *from_step_)) {
                ++samples[sample.stack];
            }
        }
        return samples;
    }

    uint32_t number_of(const Process& process, uint32_t text, std::unordered_map<uint32_t, uint32_t>& functions) {
        const auto [known, is_new] = functions.try_emplace(text, 0);
        if (is_new) {
            known->second =
                numbers_.try_emplace(without_line(process.text(text)), static_cast<uint32_t>(numbers_.size()))
                    .first->second;
        }
        return known->second;
    }

    void add(const Process& process, const SampledStack& stack, size_t samples, bool is_own,
             std::unordered_map<uint32_t, uint32_t>& functions) {
        ThreadCount& thread = threads_[sampled_thread(process, stack)];
        (is_own ? thread.own : thread.peers) += samples;
        seen_.clear();
        for (size_t i = 0; i < stack.frames.size(); ++i) {
            const uint32_t number = number_of(process, stack.frames[i], functions);
            if (std::find(seen_.begin(), seen_.end(), number) != seen_.end()) {
                continue;  // it calls itself
            }
            seen_.push_back(number);
            thread.functions.resize(std::max<size_t>(thread.functions.size(), number + 1));
            FunctionCount& function = thread.functions[number];
            (is_own ? function.own : function.peers) += samples;
            if (is_own) {
                function.depth += samples * (stack.frames.size() - i);
                function.of_program |= i < stack.libraries.size() && stack.libraries[i] == 0;
            }
        }
    }

    std::optional<int64_t> from_step_;
    std::map<std::string, ThreadCount> threads_;
    std::unordered_map<std::string, uint32_t> numbers_;  // of functions
    std::vector<uint32_t> seen_;
};

double share(size_t part, size_t of) { return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of); }

// By how much larger a part of the own samples it is; 0 where that may be chance.
double difference(const ThreadCount& thread, const FunctionCount& function) {
    const double more = share(function.own, thread.own) - share(function.peers, thread.peers);
    const double both = share(function.own + function.peers, thread.own + thread.peers);
    const double deviation =
        std::sqrt(both * (1 - both) * (1 / static_cast<double>(thread.own) + 1 / static_cast<double>(thread.peers)));
    return more >= kLeastDifference && more >= kSure * deviation ? more : 0;
}

// The innermost function of the program among those that stand out most; the number of functions: none does.
size_t standing_out(const ThreadCount& thread, double& most) {
    most = 0;
    for (const FunctionCount& function : thread.functions) {
        most = std::max(most, difference(thread, function));
    }
    const auto rank_of = [](const FunctionCount& function) {
        return std::pair(function.of_program, share(function.depth, function.own));
    };
    size_t best = thread.functions.size();
    for (size_t i = 0; i < thread.functions.size(); ++i) {
        const FunctionCount& function = thread.functions[i];
        if (most > 0 && difference(thread, function) >= kNearlyMost * most &&
            (best == thread.functions.size() || rank_of(function) > rank_of(thread.functions[best]))) {
            best = i;
        }
    }
    return best;
}

// The frame that is seen most, of those of a function.
std::string frame_text(const std::map<std::string, size_t>& frames) {
    const auto most = std::max_element(frames.begin(), frames.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::string frame = short_frame(most->first);
    return frames.size() == 1 ? frame : fmt::format("{} (and {})", frame, counted(frames.size() - 1, "more line"));
}

}  // namespace

std::string excess_text(const SampledExcess& excess) {
    const bool one = excess.ranks.size() == 1;
    const std::string who = excess.thread.empty()
                                ? ranks_text(excess.ranks)
                                : fmt::format("thread {} of {}", excess.thread, ranks_text(excess.ranks));
    const std::string peers = excess.peers_samples == 0 ? "none" : std::to_string(excess.peers_samples);
    return fmt::format("in {} of {} samples {} {} in {}; {} peers in {} of {}", excess.samples, excess.of, who,
                       one || !excess.thread.empty() ? "is" : "are", excess.frame, one ? "its" : "their", peers,
                       excess.peers_of);
}

std::string sampled_thread(const Process& process, const SampledStack& stack) {
    if (stack.thread == process.pid) {
        return std::string(kMain);
    }
    const std::string& name = process.text(stack.name);
    const size_t end = name.find_last_not_of("0123456789_-");
    return end == std::string::npos ? name : name.substr(0, end + 1);
}

std::vector<size_t> sampled_peers(const Run& run, const std::vector<int>& ranks) {
    const std::vector<uint32_t> roles = roles_of(run);
    const auto is_own = [&](size_t i) {
        return std::find(ranks.begin(), ranks.end(), run.processes[i].rank) != ranks.end();
    };
    std::set<uint32_t> own_roles;
    for (size_t i = 0; i < run.processes.size(); ++i) {
        if (is_own(i)) {
            own_roles.insert(roles[i]);
        }
    }
    std::vector<size_t> peers;
    std::vector<size_t> others;
    for (size_t i = 0; i < run.processes.size(); ++i) {
        if (!is_own(i) && !run.processes[i].stack_samples.samples.empty()) {
            others.push_back(i);
            if (own_roles.contains(roles[i])) {
                peers.push_back(i);
            }
        }
    }
    return peers.empty() ? others : peers;
}

std::optional<SampledExcess> sampled_excess(const Run& run, const std::vector<int>& ranks,
                                            std::optional<int64_t> from_step) {
    Counting counting(from_step);
    std::vector<const Process*> own;
    for (const Process& process : run.processes) {
        if (!process.stack_samples.samples.empty() &&
            std::find(ranks.begin(), ranks.end(), process.rank) != ranks.end()) {
            own.push_back(&process);
            counting.add(process, true);
        }
    }
    if (own.empty()) {
        return std::nullopt;
    }
    const std::vector<size_t> peers = sampled_peers(run, ranks);
    for (size_t i = 0; i < peers.size(); i += 1 + peers.size() / kMostPeers) {
        counting.add(run.processes[peers[i]], false);
    }
    std::optional<SampledExcess> excess;
    double most = 0;
    for (const auto& [name, thread] : counting.threads()) {
        double more = 0;
        const bool is_enough = thread.own >= kLeastSamples && thread.peers >= kLeastSamples;
        const size_t best = is_enough ? standing_out(thread, more) : 0;
        if (more <= most) {
            continue;
        }
        most = more;
        std::map<std::string, size_t> frames;
        for (const Process* const process : own) {
            counting.add_frames(*process, name, best, frames);
        }
        const FunctionCount& function = thread.functions[best];
        excess = {ranks,       name == kMain ? "" : name, frame_text(frames), function.own, thread.own, function.peers,
                  thread.peers};
    }
    return excess;
}

void find_sampled_parts(const Run& run, Timing& timing) {
    for (RankTiming& rank : timing.ranks) {
        if (rank.shape.pattern == LatePattern::kNone) {
            continue;
        }
        const TimeAxis& axis = timing.axes[rank.axis];
        rank.sampled =
            sampled_excess(run, {rank.rank}, axis.steps ? std::optional(axis.keys[rank.shape.first]) : std::nullopt);
        if (rank.sampled) {
            rank.why.push_back(excess_text(*rank.sampled));
        }
    }
}

}  // namespace titan::analyzer
