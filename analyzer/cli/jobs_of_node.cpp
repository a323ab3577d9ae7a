#include "jobs_of_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "commands.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

struct JobOfNode {
    size_t alive = 0;
    size_t ended = 0;
    int64_t newest_ns = 0;
    std::string directory;
};

}  // namespace

// One line, on the newest: who asked for a directory did not ask for the jobs of the node.
void say_jobs_of_node(const RingDirectories& directories) {
    std::map<std::string, JobOfNode> jobs;
    for (const NodeRing& ring : list_rings(directories)) {
        if (ring.problem.empty() && ring.rank >= 0) {
            JobOfNode& job = jobs[ring.run];
            ++(ring.liveness == Liveness::kAlive ? job.alive : job.ended);
            job.newest_ns = std::max(job.newest_ns, ring.newest_ns);
            job.directory = std::filesystem::path(ring.path).parent_path();
        }
    }
    const auto newest = std::max_element(
        jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.second.newest_ns < b.second.newest_ns; });
    if (newest == jobs.end()) {
        return;
    }
    const auto& [run, job] = *newest;
    const std::string name = shell_quoted(printable(run));
    const std::string others =
        jobs.size() == 1 ? "" : fmt::format("; {}: titan-analyze rings", counted(jobs.size() - 1, "more job"));
    if (job.alive != 0) {
        say("titan-analyze: run {} lives on this node ({}); for dumps of now: titan-dump --job {}{}\n", printable(run),
            counted(job.alive, "rank"), name, others);
    } else {
        say("titan-analyze: run {} ended on this node at {} and left {}: titan-analyze {} --run {}{}\n", printable(run),
            date_text(job.newest_ns), counted(job.ended, "ring"), shell_quoted(printable(job.directory)), name, others);
    }
}

}  // namespace titan::analyzer
