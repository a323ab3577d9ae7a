#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "config_differences.h"
#include "document.h"
#include "host/json_value.h"
#include "host/mapped.h"
#include "host/words.h"
#include "layout.h"
#include "report.h"
#include "report_parts.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kShownRanks = 64;
constexpr size_t kShownCommunicators = 4;
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
        std::set<std::string> ids{id_text(communicator.id)};  // members may know it by several
        Json all_ranks = Json::array(), issued = Json::array();
        for (const MemberRef ref : communicator.members) {
            ranks.push_back(run.member(ref).global_rank);
            ids.insert(id_text(run.member(ref).id));
        }
        for (int rank = 0; rank < static_cast<int>(communicator.by_rank.size()); ++rank) {
            const MemberRef ref = communicator.by_rank[static_cast<size_t>(rank)];
            const int global = run.global_rank(communicator, rank);
            all_ranks.push_back(global < 0 ? Json(nullptr) : Json(global));
            issued.push_back(ref.known() ? Json(run.member(ref).issued) : Json(nullptr));
        }
        Json one = {{"id", id_text(communicator.id)},
                    {"name", communicator.name},
                    {"size", communicator.size},
                    {"role", name_of(role.role)},
                    {"by", name_of(role.source)},
                    {"why", role.why},
                    {"ranks", ranks},
                    {"ids", ids}};
        one["all_ranks"] = std::move(all_ranks);  // a list would copy them, which may be long
        one["issued"] = std::move(issued);
        list.push_back(std::move(one));
    }
    return list;
}

// A process may drive several ranks, or be none that talks.
Json processes_json(const Run& run) {
    Json list = Json::array();
    for (const Process& process : run.processes) {
        std::set<int> ranks{process.rank};
        for (const Member& member : process.members) {
            ranks.insert(member.global_rank);
        }
        ranks.erase(-1);
        list.push_back({{"ranks", ranks},
                        {"host", process.host},
                        {"pid", process.pid},
                        {"source", name_of(process.source)},
                        {"dumped_realtime_ns", process.now_ns},
                        {"timeout_ms", process.watchdog_ns() / 1'000'000}});
    }
    return list;
}

std::string count_text(const Run& run, const std::vector<uint32_t>& communicators) {
    const auto name_of = [&run](uint32_t communicator) { return distinct_text(run, communicator); };
    return fmt::format("{}: {}", counted(communicators.size(), "communicator"),
                       listed(mapped(communicators, name_of), kShownCommunicators));
}

Section axes(const Run& run) {
    Section section{.id = "axes", .title = "Axes"};
    Table table{.columns = {{"", 13}, {"", 5}, {"", 0}}};
    for (const Dimension& dimension : run.layout->dimensions()) {
        table.rows.push_back({std::string(name_of(dimension.role)),
                              fmt::format("{}{}", dimension.regular ? "" : "up to ", dimension.size),
                              dimension.by_label ? "by titan_label" : count_text(run, dimension.communicators)});
        table.rows.push_back({"", "", dimension.why});
    }
    section.blocks.push_back(std::move(table));
    if (run.layout->dimensions().empty()) {
        section.blocks = {Paragraph{"none: no communicator's name or structure shows what it is for"}};
    }
    return section;
}

Section other_communicators(const Run& run) {
    std::map<Role, std::vector<uint32_t>> others;
    for (uint32_t index = 0; index < run.communicators.size(); ++index) {
        if (const Role role = run.layout->roles()[index].role; !row_of(role).has_place) {
            others[role].push_back(index);
        }
    }
    Table table{.columns = {{"", 18}, {"", 0}}};
    for (const auto& [role, communicators] : others) {
        table.rows.push_back({std::string(name_of(role)), count_text(run, communicators)});
    }
    return {.id = "other_communicators", .title = "Other communicators", .blocks = {std::move(table)}};
}

Section hosts(const Run& run) {
    std::map<std::string, std::vector<int>, NumbersByValue> hosts;
    for (const auto& [rank, place] : run.layout->places()) {
        hosts[place.host].push_back(rank);
    }
    Table table{.columns = {{"", 18}, {"", 0}}, .shown = kShownHosts};
    for (const auto& [host, ranks] : hosts) {
        table.rows.push_back({host.empty() ? "(not recorded)" : host, ranks_text(ranks)});
    }
    return {.id = "hosts", .title = "Hosts", .blocks = {std::move(table)}};
}

Section ranks(const Layout& layout) {
    Table table{.columns = {{"rank", 6, true}}, .shown = kShownRanks};
    for (const Dimension& dimension : layout.dimensions()) {
        table.columns.push_back({std::string(name_of(dimension.role)), 4, true});
    }
    table.columns.push_back({"node", 0});
    for (const auto& [rank, place] : layout.places()) {
        std::vector<std::string> cells{std::to_string(rank)};
        for (const Dimension& dimension : layout.dimensions()) {
            const int at = place.in(dimension.role);
            cells.push_back(at >= 0 ? std::to_string(at) : "-");
        }
        cells.push_back(place.host.empty() ? "-" : place.host);
        table.rows.push_back(std::move(cells));
    }
    return {.id = "ranks", .title = "Ranks", .blocks = {std::move(table)}};
}

bool any_without_place(const Run& run) {
    const std::vector<CommunicatorRole>& roles = run.layout->roles();
    return std::ranges::any_of(roles, [](const CommunicatorRole& role) { return !row_of(role.role).has_place; });
}

}  // namespace

Json layout_json(const Run& run, const std::set<int>* named) {
    const Layout& layout = *run.layout;
    Json json;
    json["dims"] = mapped(layout.dimensions(), [](const Dimension& dimension) -> Json {
        return {{"role", name_of(dimension.role)},
                {"size", dimension.size},
                {"communicators", dimension.communicators.size()},
                {"regular", dimension.regular},
                {"inferred", dimension.inferred},
                {"why", dimension.why}};
    });
    json["ranks"] = Json::object();
    for (const auto& [rank, place] : layout.places()) {
        if (named == nullptr || named->contains(rank)) {
            json["ranks"][std::to_string(rank)] = place_json(layout, place);
        }
    }
    if (named == nullptr) {
        json["communicators"] = communicators_json(run);
        json["processes"] = processes_json(run);
    }
    return json;
}

std::string layout_report(const Run& run, const TextStyle& style) {
    Document document{.about = fmt::format("{} ranks on {}", run.world_size, counted(run.hosts.size(), "host"))};
    document.sections.push_back(axes(run));
    if (any_without_place(run)) {
        document.sections.push_back(other_communicators(run));
    }
    document.sections.push_back(hosts(run));
    if (!run.layout->dimensions().empty()) {
        document.sections.push_back(ranks(*run.layout));
    }
    return document_text(document, style);
}

// --- titan-analyze layout --config: what each rank was told by variables, and which versions it found.

std::string config_report(const Run& run, const TextStyle& style) {
    Table differing{.columns = {{"name", 30}, {"value", 24}, {"ranks", 0}}};
    Table equal{.columns = {{"name", 30}, {"value", 0}}};
    const std::vector<ConfigRow> rows = config_rows(run);
    for (size_t i = 0; i < rows.size(); ++i) {
        const ConfigRow& row = rows[i];
        const bool differs =
            (i > 0 && rows[i - 1].name == row.name) || (i + 1 < rows.size() && rows[i + 1].name == row.name);
        if (differs) {
            differing.rows.push_back({row.name, row.value.empty() ? "(not set)" : row.value, ranks_text(row.ranks)});
        } else {
            equal.rows.push_back({row.name, row.value});
        }
    }
    Document document{.about = fmt::format("{} ranks on {}", run.world_size, counted(run.hosts.size(), "host"))};
    if (rows.empty()) {
        document.sections.push_back(
            {.id = "config", .title = "Settings", .lead = "no dump here has the settings of its process"});
    }
    if (!differing.rows.empty()) {
        document.sections.push_back(
            {.id = "differing", .title = "Not the same on all ranks", .blocks = {std::move(differing)}});
    }
    if (!equal.rows.empty()) {
        document.sections.push_back({.id = "equal", .title = "The same on all ranks", .blocks = {std::move(equal)}});
    }
    return document_text(document, style);
}

Json config_json(const Run& run) {
    Json settings = mapped(config_rows(run), [](const ConfigRow& row) -> Json {
        return {
            {"name", row.name}, {"value", row.value.empty() ? Json(nullptr) : Json(row.value)}, {"ranks", row.ranks}};
    });
    return {{"settings", std::move(settings)}};
}

}  // namespace titan::analyzer
