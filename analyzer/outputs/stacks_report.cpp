#include "stacks_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "document.h"
#include "function_name.h"
#include "host/json_value.h"
#include "host/mapped.h"
#include "host/words.h"
#include "host_threads.h"
#include "named_stacks.h"
#include "record_fields.h"
#include "sampled_stacks.h"

namespace titan::analyzer {
namespace {

constexpr const char* kOutcomes[] = {"unwound", "cut", "no_answer", "blocks_signal", "not_asked", "ours"};

std::string bold(const std::string& text, const TextStyle& style) {
    return style.colour ? fmt::format("\033[1m{}\033[0m", text) : text;
}

// A chain of frames that nobody leaves is not indented: only branches are.
void write_tree(const StackNode& node, size_t depth, bool is_first, std::string& out) {
    const bool branches = node.children.size() > 1 || node.ending != 0;
    for (const StackNode& child : node.children) {
        const std::vector<int> ranks(child.ranks.begin(), child.ranks.end());
        const std::string who = fmt::format(
            "{}{}", ranks_text(ranks),
            child.threads > child.ranks.size() ? fmt::format(" ({} threads)", child.threads) : std::string());
        out += fmt::format("{:{}}{}{}\n", "", 2 * depth + 2, short_frame(child.text),
                           branches || is_first || child.ending != 0 ? "   <- " + who : "");
        write_tree(child, child.children.size() > 1 || child.ending != 0 ? depth + 1 : depth, false, out);
    }
}

void write_process(const ProcessStacks& process, const TextStyle& style, std::string& out) {
    const std::string who = process.pid == 0
                                ? fmt::format("rank {}", process.rank)
                                : fmt::format("rank {} (pid {} on {})", process.rank, process.pid, process.host);
    out += bold(process.threads.empty() ? who + ": no stacks"
                                        : fmt::format("{}: {} threads in {}", who, process.threads.size(),
                                                      fine_duration_text(static_cast<double>(process.took_ns))),
                style) +
           "\n";
    for (const ThreadStack& thread : process.threads) {
        out += fmt::format("\n  thread {} {}: {}, {} of processor time{}\n", thread.tid, thread.name,
                           state_text(thread.state, thread.wait_channel),
                           fine_duration_text(static_cast<double>(thread.cpu_ns)),
                           thread.held_gil ? ", holds the GIL" : "");
        if (thread.merged.frames.empty()) {
            out += fmt::format("    ({})\n", no_stack_text(thread));
        }
        for (const std::string& text : thread.merged.frames) {
            out += fmt::format("    {}\n", short_frame(text));
        }
        if (thread.outcome == format::StackOutcome::kCut) {
            out += "    (more, which could not be followed)\n";
        }
    }
    for (const DumpedChild& child : process.children) {
        out += fmt::format("\n  child process {} {}: {}, {} of processor time\n", child.pid, child.name,
                           state_text(child.state, child.wait_channel),
                           fine_duration_text(static_cast<double>(child.cpu_ns)));
        for (const std::string& text : child.frames) {
            out += fmt::format("    {}\n", short_frame(text));
        }
    }
    out += "\n";
}

Json thread_json(const ThreadStack& thread) {
    Json json{{"tid", thread.tid},
              {"name", thread.name},
              {"state", std::string(1, thread.state)},
              {"wait_channel", thread.wait_channel},
              {"system_call", thread.system_call},
              {"cpu_ns", thread.cpu_ns},
              {"outcome", static_cast<size_t>(thread.outcome) < std::size(kOutcomes)
                              ? kOutcomes[static_cast<size_t>(thread.outcome)]
                              : "unknown"},
              {"frames", Json::array()}};
    for (const StackSite& site : thread.sites) {
        Json frame{{"address", site.address},
                   {"module", site.module},
                   {"module_offset", site.in_module},
                   {"function", site.function}};
        if (!site.file.empty()) {
            frame["file"] = site.file;
            frame["line"] = site.line;
        }
        frame["inlined"] = inlined_json(site);
        json["frames"].push_back(std::move(frame));
    }
    json["python_frames"] = mapped(thread.python, [](const PythonSite& site) -> Json {
        return {{"file", site.file}, {"function", site.function}, {"line", site.line}, {"is_entry", site.is_entry}};
    });
    json["python_cut"] = thread.python_cut;
    json["held_gil"] = thread.held_gil;
    json["merged"] = thread.merged.frames;
    return json;
}

Json child_json(const DumpedChild& child) {
    return {{"pid", child.pid},
            {"name", child.name},
            {"state", std::string(1, child.state)},
            {"wait_channel", child.wait_channel},
            {"cpu_ns", child.cpu_ns},
            {"frames", child.frames}};
}

}  // namespace

std::string stacks_report(const std::vector<ProcessStacks>& all, const std::vector<std::string>& problems,
                          const StacksView& view, const TextStyle& style) {
    std::string out;
    if (view.list) {
        for (const ProcessStacks& process : all) {
            write_process(process, style, out);
        }
    } else {
        out += bold(view.all_threads ? "All threads, outermost frames first" : "Main threads, outermost frames first",
                    style) +
               "\n";
        write_tree(merge_stacks(all, view.all_threads), 0, true, out);
    }
    std::vector<std::string> notes = problems;
    std::map<std::string, std::vector<int>> ranks_of;
    for (const ProcessStacks& process : all) {
        for (const std::string& note : process.notes) {
            ranks_of[note].push_back(process.rank);
        }
    }
    for (const auto& [note, ranks] : ranks_of) {
        notes.push_back(ranks_text(ranks) + ": " + note);
    }
    if (!notes.empty()) {
        out += "\n" + bold("What could not be seen", style) + "\n";
    }
    for (const std::string& note : notes) {
        out += "  - " + note + "\n";
    }
    return out;
}

std::string stacks_json_report(const std::vector<ProcessStacks>& all, const std::vector<std::string>& problems) {
    Json json{{"schema", kJsonSchema}, {"processes", Json::array()}, {"problems", problems}};
    for (const ProcessStacks& process : all) {
        Json one{{"rank", process.rank},       {"pid", process.pid},       {"host", process.host},
                 {"took_ns", process.took_ns}, {"python", process.python}, {"notes", process.notes},
                 {"threads", Json::array()}};
        for (const ThreadStack& thread : process.threads) {
            one["threads"].push_back(thread_json(thread));
        }
        one["children"] = mapped(process.children, child_json);
        json["processes"].push_back(std::move(one));
    }
    return json.dump(2) + "\n";
}

// --- folded stacks

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
    std::vector<std::string> lines = mapped(all.stacks, [&](const SampledStack& stack) {
        return as_line(sampled_thread(process, stack), stack.frames,
                       [&](uint32_t text) -> const std::string& { return process.text(text); });
    });
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
        if (is_asked_for(run, process, ranks)) {
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
