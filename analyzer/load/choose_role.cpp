#include "choose_role.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "host/words.h"

namespace titan::analyzer {
namespace {

struct Role {
    bool dumped_for_a_hang = false;
    std::set<int32_t> ranks;
};

using Roles = std::map<std::string, Role>;

Roles roles_in(const std::vector<Process>& processes) {
    Roles roles;
    for (const Process& process : processes) {
        if (process.role().empty() || process.rank < 0) {
            continue;
        }
        Role& role = roles[process.role()];
        role.ranks.insert(process.rank);
        role.dumped_for_a_hang |= process.source.reason == format::DumpReason::kTimeout;
    }
    return roles;
}

bool share_a_rank(const Roles& roles) {
    std::set<int32_t> seen;
    return std::any_of(roles.begin(), roles.end(), [&](const auto& role) {
        return std::any_of(role.second.ranks.begin(), role.second.ranks.end(),
                           [&](int32_t rank) { return !seen.insert(rank).second; });
    });
}

// All but one of them: "generator (2 ranks), trainer (8 ranks)".
std::string names_of(const Roles& roles, Roles::const_iterator but) {
    std::string names;
    for (auto role = roles.begin(); role != roles.end(); ++role) {
        if (role != but) {
            names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", printable(role->first),
                                 counted(role->second.ranks.size(), "rank"));
        }
    }
    return names;
}

}  // namespace

bool is_of_other_role(const Process& a, const Process& b) {
    return !a.role().empty() && !b.role().empty() && a.role() != b.role();
}

std::optional<Error> choose_role(std::vector<Process>& processes, const std::string& wanted,
                                 std::vector<Warning>& warnings) {
    const Roles roles = roles_in(processes);
    auto chosen = roles.find(wanted);
    if (!wanted.empty() && chosen == roles.end()) {
        return Error(roles.empty()
                         ? "no process of this run says its role (titan_label)"
                         : fmt::format("no role {}; found: {}", printable(wanted), names_of(roles, roles.end())));
    }
    if (wanted.empty()) {
        if (!share_a_rank(roles)) {
            return std::nullopt;
        }
        const auto weight = [](const auto& role) {
            return std::tuple(role.second.dumped_for_a_hang, role.second.ranks.size());
        };
        chosen = std::max_element(roles.begin(), roles.end(),
                                  [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
        warnings.push_back({WarningKind::kOtherRole,
                            {},
                            fmt::format("{} roles have ranks of the same numbers: this is {}; --role reads {}",
                                        roles.size(), printable(chosen->first), names_of(roles, chosen))});
    }
    std::erase_if(processes, [&](const Process& process) {
        const std::string& role = process.role();
        return role.empty() ? chosen->second.ranks.contains(process.rank) : role != chosen->first;
    });
    return std::nullopt;
}

}  // namespace titan::analyzer
