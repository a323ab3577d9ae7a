// Puts a Run together: chooses among jobs that share a directory, joins their processes, warns about gaps.
#include "load_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "choose_role.h"
#include "condense.h"
#include "fr_groups.h"
#include "host/mapped.h"
#include "host/words.h"
#include "link_run.h"
#include "load_files.h"
#include "of_this_run.h"
#include "rings.h"
#include "witness.h"

namespace titan::analyzer {
namespace {

// Processes that share a communicator, directly or through others.
std::vector<std::vector<size_t>> connected(const std::vector<Process>& processes) {
    std::vector<size_t> parent(processes.size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto find = [&](size_t i) {
        while (parent[i] != i) {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        return i;
    };
    std::unordered_map<uint64_t, size_t> holder;
    for (size_t i = 0; i < processes.size(); ++i) {
        for (const Member& member : processes[i].members) {
            for (const uint64_t id : {member.id, member.alias_id, member.parent_id}) {
                if (id != 0) {
                    parent[find(i)] = find(holder.try_emplace(id, i).first->second);
                }
            }
        }
    }
    std::map<size_t, std::vector<size_t>> groups;
    for (size_t i = 0; i < processes.size(); ++i) {
        groups[find(i)].push_back(i);
    }
    return mapped(groups, [](auto& one) { return std::move(one.second); });
}

// Two jobs can share a run id and a directory (a restart that counts no attempts). The newest job stays: a group of
// processes that had dumped before the newest one was even started belongs to an earlier job. Clocks of two hosts may
// differ by hours: between hosts, an earlier job is only known by a rank that came again.
std::vector<Process> choose_incarnation(std::vector<Process> processes, std::vector<Warning>& warnings) {
    auto groups = connected(processes);
    const auto newest = [&](const std::vector<size_t>& group) {
        int64_t time = 0;
        for (const size_t i : group) {
            time = std::max(time, processes[i].now_ns);
        }
        return time;
    };
    std::stable_sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return newest(a) > newest(b); });
    std::vector<Process> kept;
    std::multimap<int32_t, size_t> kept_ranks;
    std::vector<int> earlier;
    std::vector<Process> doubtful;              // earlier only by the clock of another host
    std::map<std::string, int64_t> started_ns;  // of each role
    const auto has_kept_of_host = [&](const Process& process) {
        return std::any_of(kept.begin(), kept.end(),
                           [&](const Process& other) { return other.boot_id == process.boot_id; });
    };
    const auto kept_of_rank = [&](const Process& process) -> const Process* {
        const auto [first, last] = kept_ranks.equal_range(process.rank);
        const auto same =
            std::find_if(first, last, [&](const auto& other) { return !live_beside(kept[other.second], process); });
        return same == last ? nullptr : &kept[same->second];
    };
    for (auto& group : groups) {
        const std::map<std::string, int64_t> started_before = started_ns;
        const int64_t newest_ns = newest(group);
        const auto is_before_start = [&](const Process& process) {
            const auto started = started_before.find(process.role());
            return started != started_before.end() && newest_ns < started->second;
        };
        std::stable_sort(group.begin(), group.end(),
                         [&](size_t a, size_t b) { return processes[a].now_ns > processes[b].now_ns; });
        for (const size_t i : group) {
            Process& process = processes[i];
            // A process without a rank is known by its pid: it may lie in a dump and in a digest.
            const bool twin = process.rank < 0 && std::any_of(kept.begin(), kept.end(), [&](const Process& other) {
                                  return other.rank < 0 && other.pid == process.pid &&
                                         other.pid_start_ticks == process.pid_start_ticks &&
                                         other.boot_id == process.boot_id;
                              });
            if (twin) {
                continue;
            }
            const Process* const winner = process.rank < 0 ? nullptr : kept_of_rank(process);
            if (winner == nullptr && is_before_start(process) && !process.boot_id.empty() &&
                !has_kept_of_host(process)) {
                doubtful.push_back(std::move(process));
                continue;
            }
            if (winner != nullptr || is_before_start(process)) {
                const bool same_process = winner != nullptr && winner->pid == process.pid &&
                                          winner->pid_start_ticks == process.pid_start_ticks;
                if (!same_process) {
                    earlier.push_back(process.rank);
                }
                continue;
            }
            if (process.started_ns > 0) {
                int64_t& first_ns = started_ns.try_emplace(process.role(), INT64_MAX).first->second;
                first_ns = std::min(first_ns, process.started_ns);
            }
            kept_ranks.emplace(process.rank, kept.size());
            kept.push_back(std::move(process));
        }
    }
    const bool came_again = !earlier.empty();
    for (Process& process : doubtful) {  // the newest first
        if (came_again || kept_of_rank(process) != nullptr) {
            earlier.push_back(process.rank);
        } else {
            kept_ranks.emplace(process.rank, kept.size());
            kept.push_back(std::move(process));
        }
    }
    if (!earlier.empty()) {
        warnings.push_back(
            {WarningKind::kOtherRun, earlier,
             fmt::format("records of an earlier job with the same run id left out ({})", ranks_text(earlier))});
    }
    return kept;
}

// Gives the run one attempt number: the highest among its processes.
void join_attempts(Run& run) {
    run.attempt = run.processes.front().attempt;
    for (const Process& process : run.processes) {
        run.attempt = std::max(run.attempt, process.attempt);
    }
    std::vector<int> others;
    for (Process& process : run.processes) {
        if (process.attempt != run.attempt) {
            others.push_back(process.rank);
            process.attempt = run.attempt;
        }
    }
    if (!others.empty()) {
        std::sort(others.begin(), others.end());
        run.warnings.push_back(
            {WarningKind::kAttemptsDiffer, others,
             fmt::format("{} and the others count different attempts ({} here), and ran at the same time: taken "
                         "together. torchrun counts a restart only on the node that lost a rank",
                         ranks_text(others), run.attempt)});
    }
}

// From its processes to all that follows from them.
void complete(Run& run, GroupRanks& group_ranks) {
    run.id = run.processes.front().run;
    join_attempts(run);
    complete_flight_recorder(run, group_ranks);
    for (Process& process : run.processes) {
        if (!process.condensed) {
            condense(process);
        }
    }
    keep_of_this_run(run);
    link(run);
    warn_of_gaps(run);
    warn_of_what_it_hides(run);
}

bool has_record(const std::vector<Process>& processes, const Process& process) {
    return std::any_of(processes.begin(), processes.end(),
                       [&](const Process& other) { return is_same_process(other, process); });
}

}  // namespace

Result<Run> load_run(const LoadOptions& wanted) {
    LoadOptions options = wanted;
    // Whether a ring of this node stands for the dump of its rank depends on the calls in both.
    options.records_alone = options.records_alone && list_rings(options.ring_directories).empty();
    GroupRanks group_ranks;
    Result<LoadedRun> loaded = load_files(options, group_ranks);
    if (!loaded) {
        return loaded.error();
    }
    Run run;
    if (!loaded->logs.paths.empty()) {
        run.journals = std::move(loaded->logs.paths);
        run.attempt = loaded->logs.attempt;
        run.warnings = std::move(loaded->logs.warnings);
        return run;
    }
    run.warnings = std::move(loaded->found.warnings);
    run.passed_over = loaded->passed_over;
    run.start = loaded->start;
    run.starts = loaded->starts;
    leave_out_stale(loaded->found.processes, run.warnings);
    run.processes = choose_incarnation(std::move(loaded->found.processes), run.warnings);
    add_node_rings(loaded->key, run.processes, options);
    std::vector<Process> journaled = std::move(loaded->found.journaled);
    std::erase_if(journaled, [&run](const Process& process) { return has_record(run.processes, process); });
    Result<std::vector<World>> worlds = choose_worlds(std::move(run.processes), options.role);
    if (!worlds) {
        return worlds.error();
    }
    run.processes = std::move(worlds->front().processes);
    if (run.processes.empty() && !loaded->found.testimony.empty() && !loaded->any) {
        run.testimony = std::move(loaded->found.testimony);
        name_ranks_of_nccl(run);
        warn_of_unread(run);
        return run.testimony.empty() ? Result<Run>(Error(run.warnings.back().summary)) : run;
    }
    const auto journaled_of = [&](const std::string& world) {
        std::vector<Process> some;
        std::copy_if(journaled.begin(), journaled.end(), std::back_inserter(some),
                     [&](const Process& process) { return worlds->size() == 1 || process.role() == world; });
        return some;
    };
    run.journaled = journaled_of(worlds->front().name);
    run.journals = std::move(loaded->journals);
    if (run.processes.empty()) {
        return nothing_usable(*loaded);
    }
    run.world = worlds->front().name;
    run.testimony = std::move(loaded->found.testimony);
    warn_of_unread(run);
    for (auto world = worlds->begin() + 1; world != worlds->end(); ++world) {
        Run& other = run.beside.emplace_back();
        other.world = std::move(world->name);
        other.processes = std::move(world->processes);
        other.journaled = journaled_of(other.world);
        other.journals = run.journals;
        other.testimony = run.testimony;
    }
    complete(run, group_ranks);
    for (Run& other : run.beside) {
        complete(other, group_ranks);
    }
    if (!run.beside.empty()) {
        run.warnings.push_back(other_worlds(run));
    }
    return run;
}

}  // namespace titan::analyzer
