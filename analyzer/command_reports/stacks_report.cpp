#include "stacks_report.h"

#include <fmt/format.h>

#include <map>

#include "function_name.h"
#include "host/json_value.h"
#include "host/words.h"
#include "json_schema.h"
#include "site_json.h"
#include "stack_tree.h"

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
    json["python_frames"] = Json::array();
    for (const PythonSite& site : thread.python) {
        json["python_frames"].push_back(
            {{"file", site.file}, {"function", site.function}, {"line", site.line}, {"is_entry", site.is_entry}});
    }
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
        one["children"] = Json::array();
        for (const DumpedChild& child : process.children) {
            one["children"].push_back(child_json(child));
        }
        json["processes"].push_back(std::move(one));
    }
    return json.dump(2) + "\n";
}

}  // namespace titan::analyzer
