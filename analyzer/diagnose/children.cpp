#include "children.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/signals.h"
#include "host/words.h"
#include "out_of_memory.h"
#include "thread_position.h"

namespace titan::analyzer {
namespace {

// Files of Python and PyTorch in which a program waits for a process that it started (CPython 3.9 to 3.14, PyTorch 2).
constexpr auto kWaitsForChild =
    std::to_array<std::string_view>({"dataloader.py:", "queues.py:", "connection.py:", "popen_fork.py:",
                                     "popen_spawn_posix.py:", "popen_forkserver.py:", "subprocess.py:", "pool.py:"});

bool waits_for_child(const Process& process) {
    const ThreadPosition* const position = working_position(process);
    return position != nullptr && std::any_of(position->frames.begin(), position->frames.end(), [&](uint32_t frame) {
               const std::string& text = process.text(frame);
               return std::any_of(kWaitsForChild.begin(), kWaitsForChild.end(),
                                  [&](std::string_view file) { return text.find(file) != std::string::npos; });
           });
}

std::string name_of(const Process& process, const ChildProcess& child) {
    const std::string& name = process.text(child.name);
    return fmt::format("child process {}{}", child.pid, name.empty() ? "" : " (" + name + ")");
}

std::string failure_of(const ChildProcess& child) {
    if (WIFSIGNALED(child.wait_status)) {
        return fmt::format("was killed by {}", signal_name(WTERMSIG(child.wait_status)));
    }
    return fmt::format("ended with status {}", WEXITSTATUS(child.wait_status));
}

void tell_failures(const Process& process, Finding& finding) {
    for (const ChildProcess& child : process.children) {
        if (child.ended_ns == 0 || child.wait_status <= 0) {
            continue;
        }
        finding.evidence.push_back(phrase("{} of {} {} {} before the rank's record ends", name_of(process, child),
                                          rank_fact(process.rank), failure_of(child),
                                          duration_fact(std::max<int64_t>(process.now_ns - child.ended_ns, 0))));
    }
}

std::string place_of(const Process& process, const ChildProcess& child) {
    if (child.frames.empty()) {
        return child.wait_channel == 0 ? std::string("code that cannot be seen") : process.text(child.wait_channel);
    }
    return process.text(child.frames.front());
}

void tell_where_children_are(const Process& process, Finding& finding) {
    constexpr size_t kShownPlaces = 3;
    std::map<std::string, std::vector<const ChildProcess*>> at;
    for (const ChildProcess& child : process.children) {
        if (child.ended_ns == 0) {
            at[place_of(process, child)].push_back(&child);
        }
    }
    size_t shown = 0;
    for (const auto& [place, children] : at) {
        if (shown++ == kShownPlaces) {
            break;
        }
        const ChildProcess& first = *children.front();
        finding.evidence.push_back(
            phrase("{}{} of {} {} in {}{}", name_of(process, first),
                   children.size() == 1 ? std::string() : fmt::format(" and {} more", children.size() - 1),
                   rank_fact(process.rank), verb_form(children.size(), "is", "are"), place,
                   first.state == 'D'   ? ", and cannot be interrupted"
                   : first.state == 'T' ? ", and stopped"
                                        : ""));
    }
}

}  // namespace

void add_children(const Evidence& evidence, std::vector<Finding>& findings) {
    evidence.for_each_named(findings, [&](const Process& process, Finding& finding) {
        tell_failures(process, finding);
        tell_out_of_memory(evidence.run, process, finding);
        if (!process.is_gone() && waits_for_child(process)) {
            tell_where_children_are(process, finding);
        }
    });
}

}  // namespace titan::analyzer
