// What the child processes of the named ranks tell: data loaders, savers of checkpoints; and the OOM killer.
#include "steps.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "base/signals.h"
#include "health_of.h"
#include "host/words.h"
#include "thread_position.h"

namespace titan::analyzer {
namespace {

// Files of Python and PyTorch in which a program waits for a process that it started (CPython 3.9 to 3.14, PyTorch 2).
constexpr auto kWaitsForChild =
    std::to_array<std::string_view>({"dataloader.py:", "queues.py:", "connection.py:", "popen_fork.py:",
                                     "popen_spawn_posix.py:", "popen_forkserver.py:", "subprocess.py:", "pool.py:"});

bool waits_for_child(const Process& process) {
    const ThreadPosition* const position = working_position(process);
    return position != nullptr && std::ranges::any_of(position->frames, [&](uint32_t frame) {
               const std::string& text = process.text(frame);
               return std::ranges::any_of(kWaitsForChild,
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

// A neighbour reads the counter every ten seconds or so (TITANTRACE_HEALTH_S), and notices as much later.
constexpr int64_t kAtThatTimeNs = 60'000'000'000;

// "40 s before the record of rank 3 ends".
Sentence when(const Process& process, int64_t at_ns) {
    const int64_t before_ns = process.now_ns - at_ns;
    return phrase("{} {} the record of {} ends", duration_fact(std::abs(before_ns)),
                  before_ns >= 0 ? "before" : "after", rank_fact(process.rank));
}

void tell_of_own_group(const Process& process, const OomKills& kills, Finding& finding) {
    finding.evidence.push_back(phrase("the OOM killer has killed {} in the control group of {}{} {}",
                                      counted(kills.count, "process"), rank_fact(process.rank),
                                      kills.count == 1 ? "," : ", the last", when(process, kills.last_ns)));
}

// The process killed on the host whose end is nearest to the rank's.
void tell_of_neighbours(const Run& run, const Process& gone, Finding& finding) {
    const Process* nearest = nullptr;
    OomKills its;
    for (const Process& process : run.processes) {
        const OomKills kills = process.host == gone.host ? oom_kills_of(process) : OomKills{};
        const int64_t distance_ns = std::abs(kills.last_ns - gone.now_ns);
        if (kills.count != 0 && distance_ns <= kAtThatTimeNs &&
            (nearest == nullptr || distance_ns < std::abs(its.last_ns - gone.now_ns))) {
            nearest = &process;
            its = kills;
        }
    }
    if (nearest != nullptr) {
        finding.evidence.push_back(phrase("the OOM killer killed {} in the control group of {} on the same host, {}",
                                          its.count == 1 ? "a process" : "processes", rank_fact(nearest->rank),
                                          when(gone, its.last_ns)));
    }
}

// What the kernel's OOM killer did in the control group of the rank; of a rank that is gone, also what its neighbours
// on the host saw it do at that time.
void tell_out_of_memory(const Run& run, const Process& process, Finding& finding) {
    if (const OomKills kills = oom_kills_of(process); kills.count != 0) {
        tell_of_own_group(process, kills, finding);
    } else if (process.out_of_memory_kills != 0) {
        finding.evidence.push_back(
            phrase("the OOM killer has killed {} in the control group of {} since the rank started",
                   counted(process.out_of_memory_kills, "process"), rank_fact(process.rank)));
    } else if (process.is_gone()) {
        tell_of_neighbours(run, process, finding);
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
