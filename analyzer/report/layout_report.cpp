#include "layout_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "formats/json_value.h"
#include "host/words.h"
#include "layout.h"
#include "report.h"

namespace titan::analyzer {
namespace {

using format::Json;

constexpr size_t kShownRanks = 64;
constexpr size_t kShownNames = 4;
constexpr size_t kShownHosts = 32;

std::string_view name_of(RoleSource source) {
    switch (source) {
        case RoleSource::kName: return "name";
        case RoleSource::kSameRanks: return "same_ranks";
        case RoleSource::kInferred: return "inferred";
        case RoleSource::kNone: break;
    }
    return "none";
}

Json place_json(const Layout& layout, const RankPlace& place) {
    Json json = Json::object();
    for (const Dimension& dimension : layout.dimensions()) {
        if (place.in(dimension.role) >= 0) {
            json[std::string(name_of(dimension.role))] = place.in(dimension.role);
        }
    }
    json["node"] = place.host.empty() ? Json(nullptr) : Json(place.host);
    return json;
}

Json communicators_json(const Run& run) {
    Json list = Json::array();
    for (uint32_t index = 0; index < run.communicators.size(); ++index) {
        const Communicator& communicator = run.communicators[index];
        const CommunicatorRole& role = run.layout->roles()[index];
        std::vector<int> ranks;
        for (const MemberRef ref : communicator.members) {
            ranks.push_back(run.member(ref).global_rank);
        }
        list.push_back({{"id", id_text(communicator.id)},
                        {"name", communicator.name},
                        {"size", communicator.size},
                        {"role", name_of(role.role)},
                        {"by", name_of(role.source)},
                        {"why", role.why},
                        {"ranks", ranks}});
    }
    return list;
}

// "tp:0, tp:1, tp:2 and 13 more".
std::string names_text(const Run& run, const std::vector<uint32_t>& communicators) {
    std::string text;
    for (size_t i = 0; i < std::min(kShownNames, communicators.size()); ++i) {
        text += (text.empty() ? "" : ", ") + distinct_text(run, communicators[i]);
    }
    return communicators.size() > kShownNames ? text + fmt::format(" and {} more", communicators.size() - kShownNames)
                                              : text;
}

std::string dimensions_table(const Run& run) {
    std::string out;
    for (const Dimension& dimension : run.layout->dimensions()) {
        out += fmt::format("  {:<13}{}{:<5} {}\n", name_of(dimension.role), dimension.regular ? "" : "up to ",
                           dimension.size,
                           dimension.by_label ? "by titan_label"
                                              : fmt::format("{} communicator{}: {}", dimension.communicators.size(),
                                                            dimension.communicators.size() == 1 ? "" : "s",
                                                            names_text(run, dimension.communicators)));
        out += fmt::format("  {:<18} {}\n", "", dimension.why);
    }
    return out.empty() ? "  none: no communicator's name or structure shows what it is for\n" : out;
}

std::string others_table(const Run& run) {
    std::map<Role, std::vector<uint32_t>> others;
    for (uint32_t index = 0; index < run.communicators.size(); ++index) {
        if (const Role role = run.layout->roles()[index].role; !row_of(role).has_place) {
            others[role].push_back(index);
        }
    }
    std::string out;
    for (const auto& [role, communicators] : others) {
        out += fmt::format("  {:<18} {} communicator{}: {}\n", name_of(role), communicators.size(),
                           communicators.size() == 1 ? "" : "s", names_text(run, communicators));
    }
    return out;
}

std::string hosts_table(const Run& run) {
    std::map<std::string, std::vector<int>, NumbersByValue> hosts;
    for (const auto& [rank, place] : run.layout->places()) {
        hosts[place.host].push_back(rank);
    }
    std::string out;
    size_t shown = 0;
    for (const auto& [host, ranks] : hosts) {
        if (shown++ < kShownHosts) {
            out += fmt::format("  {:<18} {}\n", host.empty() ? "(not recorded)" : host, ranks_text(ranks));
        }
    }
    return shown > kShownHosts ? out + fmt::format("  and {} more (--json)\n", shown - kShownHosts) : out;
}

std::string ranks_table(const Layout& layout) {
    std::string out = fmt::format("  {:>6}", "rank");
    std::vector<Role> roles;
    for (const Dimension& dimension : layout.dimensions()) {
        roles.push_back(dimension.role);
        out += fmt::format(" {:>{}}", name_of(dimension.role), std::max<size_t>(4, name_of(dimension.role).size()));
    }
    out += "  node\n";
    size_t shown = 0;
    for (const auto& [rank, place] : layout.places()) {
        if (shown++ >= kShownRanks) {
            continue;
        }
        out += fmt::format("  {:>6}", rank);
        for (const Role role : roles) {
            out += fmt::format(" {:>{}}", place.in(role) >= 0 ? std::to_string(place.in(role)) : "-",
                               std::max<size_t>(4, name_of(role).size()));
        }
        out += "  " + (place.host.empty() ? "-" : place.host) + "\n";
    }
    return shown > kShownRanks ? out + fmt::format("  and {} more (--json)\n", shown - kShownRanks) : out;
}

}  // namespace

Json layout_json(const Run& run, const std::set<int>* named) {
    const Layout& layout = *run.layout;
    Json json;
    json["dims"] = Json::array();
    for (const Dimension& dimension : layout.dimensions()) {
        json["dims"].push_back({{"role", name_of(dimension.role)},
                                {"size", dimension.size},
                                {"communicators", dimension.communicators.size()},
                                {"regular", dimension.regular},
                                {"inferred", dimension.inferred},
                                {"why", dimension.why}});
    }
    json["ranks"] = Json::object();
    for (const auto& [rank, place] : layout.places()) {
        if (named == nullptr || named->contains(rank)) {
            json["ranks"][std::to_string(rank)] = place_json(layout, place);
        }
    }
    if (named == nullptr) {
        json["communicators"] = communicators_json(run);
    }
    return json;
}

std::string layout_report(const Run& run, const TextStyle& style) {
    const auto title = [&](const std::string& text) {
        return style.colour ? fmt::format("\033[1m{}\033[0m\n", text) : text + "\n";
    };
    std::string out =
        title(fmt::format("{} ranks on {} host{}", run.world_size, run.hosts.size(), run.hosts.size() == 1 ? "" : "s"));
    out += "\n" + title("Axes") + dimensions_table(run);
    if (const std::string others = others_table(run); !others.empty()) {
        out += "\n" + title("Other communicators") + others;
    }
    out += "\n" + title("Hosts") + hosts_table(run);
    if (!run.layout->dimensions().empty()) {
        out += "\n" + title("Ranks") + ranks_table(*run.layout);
    }
    return out;
}

}  // namespace titan::analyzer
