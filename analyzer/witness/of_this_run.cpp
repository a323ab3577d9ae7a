// Chooses the statements about this run: logs of earlier jobs lie beside the dumps, too.
#include "of_this_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "host/words.h"

namespace titan::analyzer {
namespace {

// Clocks of two hosts, and a time that was cut to seconds.
constexpr int64_t kTolerableNs = 5'000'000'000;

// When the first thing of this run is known to have happened, 0 unknown.
int64_t begin_ns(const Run& run) {
    int64_t begin = INT64_MAX;
    for (const Process& process : run.processes) {
        const int64_t first = process.started_ns > 0     ? process.started_ns
                              : !process.entries.empty() ? process.entries.front().entered_ns
                                                         : 0;
        begin = first > 0 ? std::min(begin, first) : begin;
    }
    return begin == INT64_MAX ? 0 : begin;
}

class OfThisRun {
  public:
    explicit OfThisRun(const Run& run) : run_(run), begin_ns_(begin_ns(run)) {
        for (const Process& process : run.processes) {
            if (process.rank >= 0) {
                of_rank_[process.rank] = &process;
            }
        }
        tasks_are_ranks_ = are_tasks_ranks();
    }

    void name_rank(Testimony& said) const {
        if (said.rank < 0 && said.pid > 0) {
            for (const auto& [rank, process] : of_rank_) {
                said.rank = process->pid == said.pid && same_host(said, *process) ? rank : said.rank;
            }
        }
        if (said.rank < 0 && said.local_rank >= 0) {
            said.rank = rank_of_error_file(said);
        }
        if (said.rank < 0 && said.task >= 0 && tasks_are_ranks_) {
            said.rank = said.task;
            said.rank_by_task = !of_rank_.contains(said.task);
        }
    }

    bool contradicts(const Testimony& said) const {
        if ((said.attempt >= 0 && said.attempt != run_.attempt) ||
            (!said.run.empty() && run_.id.starts_with("slurm-") && said.run != run_.id) ||
            (said.time_ns != 0 && said.time_ns + kTolerableNs < begin_ns_) ||
            (said.written_ns != 0 && said.written_ns + kTolerableNs < begin_ns_) ||
            (said.rank >= run_.processes.front().world_size && run_.processes.front().world_size > 0)) {
            return true;
        }
        const auto process = of_rank_.find(said.rank);
        return process != of_rank_.end() && said.pid > 0 && process->second->pid > 0 &&
               process->second->pid != said.pid;
    }

  private:
    // torchrun's log names the file and the rank; without it the rank on the node is the rank where there is one node.
    int32_t rank_of_error_file(const Testimony& said) const {
        int32_t rank = -1;
        size_t found = 0;
        for (const Testimony& other : run_.testimony) {
            if (other.rank >= 0 && other.error_file.ends_with(said.file)) {
                rank = other.rank;
                ++found;
            }
        }
        if (found != 0) {
            return found == 1 ? rank : -1;
        }
        const bool one_node = std::ranges::all_of(
            of_rank_, [&](const auto& one) { return one.second->host == of_rank_.begin()->second->host; });
        const auto known = static_cast<int32_t>(of_rank_.size());
        return one_node && known * 2 > run_.processes.front().world_size ? said.local_rank : -1;
    }

    // A task of Slurm that is a torchrun starts several ranks, so its number is none of theirs.
    bool are_tasks_ranks() const {
        return std::ranges::all_of(run_.testimony, [&](const Testimony& said) {
            const auto process = of_rank_.find(said.task);
            return said.witness != "torchrun" &&
                   (said.task < 0 || process == of_rank_.end() || same_host(said, *process->second));
        });
    }

    const Run& run_;
    int64_t begin_ns_ = 0;
    std::map<int32_t, const Process*> of_rank_;
    bool tasks_are_ranks_ = false;
};

}  // namespace

bool same_host(const Testimony& said, const Process& process) {
    const auto short_name = [](std::string_view host) { return host.substr(0, host.find('.')); };
    return said.host.empty() || process.host.empty() || short_name(said.host) == short_name(process.host);
}

void keep_of_this_run(Run& run) {
    if (run.testimony.empty()) {
        return;
    }
    name_ranks_of_nccl(run);
    const OfThisRun judge(run);
    const auto part_of = [](const Testimony& said) { return std::pair(said.file, said.part); };
    std::set<std::pair<std::string, int32_t>> others;  // a part is written in one go, and is about one job
    for (Testimony& said : run.testimony) {
        if (!speaks_of_communicators(said)) {
            judge.name_rank(said);
        }
        if (judge.contradicts(said)) {
            others.insert(part_of(said));
        }
    }
    std::erase_if(run.testimony, [&](const Testimony& said) { return others.contains(part_of(said)); });
    if (!others.empty()) {
        run.warnings.push_back(
            {WarningKind::kOtherRun,
             {},
             fmt::format("{}{} not used: {} of another job or attempt", others.begin()->first,
                         others.size() == 1 ? " is" : fmt::format(" and {} more are", others.size() - 1),
                         verb_form(others.size(), "it is", "they are"))});
    }
}

// --- ranks of communicators

namespace {

int32_t world_of(const Run& run) {
    int32_t world = run.world_size;
    for (const Process& process : run.processes) {
        world = std::max(world, process.world_size);
    }
    if (run.processes.empty()) {
        for (const Testimony& said : run.testimony) {
            world = std::max({world, said.comm_size, said.watchdog || said.lost_a_peer ? said.rank + 1 : -1});
        }
    }
    return world;
}

void name_rank_of_nccl(const Run& run, int32_t world, Testimony& said) {
    const auto has_pid = [&](const Process& process) {
        return process.rank >= 0 && process.pid == said.pid && same_host(said, process);
    };
    const auto same = std::ranges::find_if(run.processes, has_pid);
    if (said.pid > 0 && same != run.processes.end() && std::count_if(same, run.processes.end(), has_pid) == 1) {
        said.rank = same->rank;
        return;
    }
    // Containers on different nodes use the same pids. In a communicator of all ranks the rank is that of the job.
    const auto recorded =
        std::ranges::find_if(run.processes, [&](const Process& process) { return process.rank == said.comm_rank; });
    const bool other_process = recorded != run.processes.end() && said.pid > 0 && recorded->pid != said.pid;
    if (said.comm_rank >= 0 && said.comm_size == world && !other_process) {
        said.rank = said.comm_rank;
    }
}

}  // namespace

bool speaks_of_communicators(const Testimony& said) {
    return said.witness.starts_with("NCCL") || said.witness == "torchcomms";
}

void name_ranks_of_nccl(Run& run) {
    const int32_t world = world_of(run);
    for (Testimony& said : run.testimony) {
        if (said.rank < 0 && speaks_of_communicators(said)) {
            name_rank_of_nccl(run, world, said);
        }
    }
    if (run.processes.empty()) {
        run.world_size = world;
    }
}

}  // namespace titan::analyzer
