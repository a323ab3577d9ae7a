#include "jobs_of_node.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

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

void say_jobs_of_node(const RingDirectories& directories) {
    constexpr size_t kShown = 4;
    std::map<std::string, JobOfNode> jobs;
    for (const NodeRing& ring : list_rings(directories)) {
        if (ring.problem.empty() && ring.rank >= 0) {
            JobOfNode& job = jobs[ring.run];
            ++(ring.liveness == Liveness::kAlive ? job.alive : job.ended);
            job.newest_ns = std::max(job.newest_ns, ring.newest_ns);
            job.directory = std::filesystem::path(ring.path).parent_path();
        }
    }
    std::vector<std::pair<std::string, JobOfNode>> newest_first(jobs.begin(), jobs.end());
    std::stable_sort(newest_first.begin(), newest_first.end(),
                     [](const auto& a, const auto& b) { return a.second.newest_ns > b.second.newest_ns; });
    for (size_t i = 0; i < std::min(kShown, newest_first.size()); ++i) {
        const auto& [run, job] = newest_first[i];
        const std::string name = shell_quoted(printable(run));
        if (job.alive != 0) {
            say("titan-analyze: run {} lives on this node ({}); for dumps of now: titan-dump --job {}\n",
                printable(run), counted(job.alive, "rank"), name);
        } else {
            say("titan-analyze: run {} ended on this node at {} and left {}: titan-analyze {} --run {}\n",
                printable(run), date_text(job.newest_ns), counted(job.ended, "ring"),
                shell_quoted(printable(job.directory)), name);
        }
    }
    if (newest_first.size() > kShown) {
        say("titan-analyze: and {} more; titan-analyze rings lists all\n", newest_first.size() - kShown);
    }
}

}  // namespace titan::analyzer
