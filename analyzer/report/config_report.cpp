// titan-analyze layout --config: what each rank was told by variables, and which versions it found.
#include <fmt/format.h>

#include "config_differences.h"
#include "document.h"
#include "host/words.h"
#include "layout_report.h"
#include "report.h"
#include "run_text.h"

namespace titan::analyzer {

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
    Json settings = Json::array();
    for (const ConfigRow& row : config_rows(run)) {
        settings.push_back(
            {{"name", row.name}, {"value", row.value.empty() ? Json(nullptr) : Json(row.value)}, {"ranks", row.ranks}});
    }
    return {{"settings", std::move(settings)}};
}

}  // namespace titan::analyzer
