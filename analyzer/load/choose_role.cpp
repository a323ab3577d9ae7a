#include "choose_role.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "host/mapped.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

bool is_of_other_role(const Process& a, const Process& b) {
    return !a.role().empty() && !b.role().empty() && a.role() != b.role();
}

bool share_a_rank(const std::vector<Process>& processes) {
    std::set<int32_t> seen;
    return std::ranges::any_of(
        processes, [&](const Process& process) { return process.rank >= 0 && !seen.insert(process.rank).second; });
}

// Sets of processes that belong together: of one role, or in one communicator. One that leads from world to world has
// several members of one rank, or more than the world has processes.
class Kin {
  public:
    explicit Kin(const std::vector<Process>& processes) : processes_(processes), parent_(processes.size()) {
        std::iota(parent_.begin(), parent_.end(), size_t{0});
        std::map<std::string, std::vector<size_t>> roles;
        std::map<uint64_t, std::vector<size_t>> communicators;
        for (size_t i = 0; i < processes.size(); ++i) {
            if (!processes[i].role().empty()) {
                roles[processes[i].role()].push_back(i);
            }
            for (const Member& member : processes[i].members) {
                if (member.id != 0 && member.size <= processes[i].world_size) {
                    communicators[member.id].push_back(i);
                }
            }
        }
        for (const auto& [role, members] : roles) {
            join(members);
        }
        // First those that number their members as the job does.
        for (const bool own_numbers : {true, false}) {
            for (const auto& [id, members] : communicators) {
                if (own_numbers == numbers_alike(id, members)) {
                    join(members);
                }
            }
        }
    }

    // The largest first, then the one that started first.
    std::vector<std::vector<size_t>> sets() {
        std::map<size_t, std::vector<size_t>> of_root;
        for (size_t i = 0; i < parent_.size(); ++i) {
            of_root[root(i)].push_back(i);
        }
        std::vector<std::vector<size_t>> sets = mapped(of_root, [](auto& one) { return std::move(one.second); });
        const auto started_ns = [&](const std::vector<size_t>& set) { return processes_[set.front()].started_ns; };
        std::ranges::stable_sort(sets, [&](const auto& a, const auto& b) {
            return std::tuple(b.size(), started_ns(a)) < std::tuple(a.size(), started_ns(b));
        });
        return sets;
    }

  private:
    size_t root(size_t i) {
        while (parent_[i] != i) {
            i = parent_[i] = parent_[parent_[i]];
        }
        return i;
    }

    bool numbers_alike(uint64_t id, const std::vector<size_t>& members) const {
        return std::ranges::all_of(members, [&](size_t i) {
            const Process& process = processes_[i];
            return std::ranges::any_of(process.members, [&](const Member& member) {
                return member.id == id && member.rank == process.rank && member.size == process.world_size;
            });
        });
    }

    // Unless that makes two processes of one rank, or of two roles, one world.
    void join(const std::vector<size_t>& members) {
        std::set<size_t> roots;
        for (const size_t i : members) {
            roots.insert(root(i));
        }
        std::set<int32_t> ranks;
        const Process* speaker = nullptr;
        for (size_t i = 0; i < processes_.size(); ++i) {
            if (!roots.contains(root(i))) {
                continue;
            }
            const Process& process = processes_[i];
            if ((process.rank >= 0 && !ranks.insert(process.rank).second) ||
                (speaker != nullptr && is_of_other_role(*speaker, process))) {
                return;
            }
            speaker = process.role().empty() ? speaker : &process;
        }
        for (const size_t one : roots) {
            parent_[one] = *roots.begin();
        }
    }

    const std::vector<Process>& processes_;
    std::vector<size_t> parent_;
};

// Which processes a world has so far.
struct Draft {
    std::set<int32_t> ranks;
    int32_t size = -1;
    std::string role;
    std::vector<size_t> members;

    bool takes(const std::vector<Process>& processes, const std::vector<size_t>& set) const {
        return std::ranges::all_of(set, [&](size_t i) {
            const Process& process = processes[i];
            return !ranks.contains(process.rank) &&
                   (size < 0 || process.world_size < 0 || process.world_size == size) &&
                   (role.empty() || process.role().empty() || process.role() == role);
        });
    }
    void add(const std::vector<Process>& processes, const std::vector<size_t>& set) {
        for (const size_t i : set) {
            if (processes[i].rank >= 0) {
                ranks.insert(processes[i].rank);
            }
            size = processes[i].world_size;
            role = role.empty() ? processes[i].role() : role;
        }
        members.insert(members.end(), set.begin(), set.end());
    }
};

std::vector<World> worlds_of(std::vector<Process> processes) {
    std::vector<Draft> drafts;
    for (const std::vector<size_t>& set : Kin(processes).sets()) {
        auto draft = std::ranges::find_if(drafts, [&](const Draft& one) { return one.takes(processes, set); });
        draft = draft == drafts.end() ? drafts.emplace(drafts.end()) : draft;
        draft->add(processes, set);
    }
    const auto started_ns = [&](const Draft& draft) {
        int64_t first_ns = INT64_MAX;
        for (const size_t i : draft.members) {
            first_ns = std::min(first_ns, processes[i].started_ns);
        }
        return first_ns;
    };
    std::ranges::stable_sort(drafts, [&](const Draft& a, const Draft& b) { return started_ns(a) < started_ns(b); });
    std::vector<World> worlds;
    for (Draft& draft : drafts) {
        World& world = worlds.emplace_back();
        world.name = draft.role.empty() ? fmt::format("world-{}", worlds.size()) : draft.role;
        std::ranges::sort(draft.members);
        for (const size_t i : draft.members) {
            world.processes.push_back(std::move(processes[i]));
        }
    }
    return worlds;
}

bool is_role(const std::string& name, const std::vector<Process>& processes) {
    return std::ranges::any_of(processes, [&](const Process& process) { return process.role() == name; });
}

// "world-2 of pids 12, 13", or the role.
std::string name_of_world(const std::string& name, const std::vector<Process>& processes) {
    constexpr size_t kShown = 8;
    if (is_role(name, processes)) {
        return printable(name);
    }
    std::string text = name + (processes.size() == 1 ? " of pid " : " of pids ");
    for (size_t i = 0; i < processes.size() && i <= kShown; ++i) {
        text += (i == 0 ? "" : ", ") + (i == kShown ? "..." : std::to_string(processes[i].pid));
    }
    return text;
}

std::string with_size(const std::string& name, const std::vector<Process>& processes) {
    return fmt::format("{} ({})", name_of_world(name, processes), counted(processes.size(), "rank"));
}

}  // namespace

bool is_same_process(const Process& a, const Process& b) {
    return a.pid == b.pid && a.pid_start_ticks == b.pid_start_ticks && a.boot_id == b.boot_id;
}

bool live_beside(const Process& a, const Process& b) {
    if (is_of_other_role(a, b)) {
        return true;
    }
    // The clocks of two machines are not the same.
    const int64_t least_ns = a.boot_id == b.boot_id && !a.boot_id.empty() ? 0 : 5'000'000'000;
    const bool known = a.started_ns > 0 && b.started_ns > 0 && a.pid > 0 && b.pid > 0;
    return known && !is_same_process(a, b) && a.attempt == b.attempt && a.run == b.run &&
           std::min(a.now_ns, b.now_ns) - std::max(a.started_ns, b.started_ns) > least_ns;
}

Result<std::vector<World>> choose_worlds(std::vector<Process> processes, const std::string& wanted) {
    std::vector<World> worlds;
    const bool have_roles =
        std::ranges::any_of(processes, [](const Process& process) { return !process.role().empty(); });
    if (share_a_rank(processes) || (have_roles && !wanted.empty())) {
        worlds = worlds_of(std::move(processes));
    } else {
        worlds.push_back({"", std::move(processes)});
    }
    auto chosen = std::ranges::find_if(worlds, [&](const World& world) { return world.name == wanted; });
    if (!wanted.empty() && chosen == worlds.end()) {
        std::set<std::string> names;
        for (const World& world : worlds) {
            names.insert(with_size(world.name, world.processes));
        }
        return Error(!have_roles && worlds.size() == 1
                         ? "no process of this run says its role (titan_label)"
                         : fmt::format("no role {}; found: {}", printable(wanted), fmt::join(names, ", ")));
    }
    if (worlds.size() == 1) {
        return worlds;
    }
    if (!wanted.empty()) {
        World only = std::move(*chosen);
        worlds.clear();
        worlds.push_back(std::move(only));
        return worlds;
    }
    const auto worth = [](const World& world) {
        const auto any = [&](auto&& holds) { return std::ranges::any_of(world.processes, holds); };
        return std::tuple(any([](const Process& process) { return process.died(); }), any([](const Process& process) {
                              return process.source.reason == format::DumpReason::kTimeout;
                          }),
                          world.processes.size());
    };
    chosen = std::ranges::min_element(worlds, [&](const World& a, const World& b) {
        return std::tuple(worth(b), a.name) < std::tuple(worth(a), b.name);
    });
    std::iter_swap(worlds.begin(), chosen);
    return worlds;
}

std::string world_name(const Run& run) { return name_of_world(run.world, run.processes); }

Warning other_worlds(const Run& run) {
    std::vector<int> ranks = run.ranks;
    size_t processes = run.processes.size();
    bool have_roles = is_role(run.world, run.processes);
    std::set<std::string> others;
    for (const Run& other : run.beside) {
        ranks.insert(ranks.end(), other.ranks.begin(), other.ranks.end());
        processes += other.processes.size();
        have_roles = have_roles && is_role(other.world, other.processes);
        others.insert(with_size(other.world, other.processes));
    }
    sort_unique(ranks);
    return {WarningKind::kOtherRole,
            {},
            fmt::format("{} processes say that they are {}: {} {} have ranks of the same numbers: this is {}; --role "
                        "reads {}",
                        processes, ranks_text(ranks), run.beside.size() + 1, have_roles ? "roles" : "worlds",
                        world_name(run), fmt::join(others, ", "))};
}

}  // namespace titan::analyzer
