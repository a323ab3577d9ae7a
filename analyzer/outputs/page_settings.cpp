// Settings that are not the same on all ranks.
#include <algorithm>
#include <map>

#include "config_differences.h"
#include "host/words.h"
#include "page_sections.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostSettings = 200;

}  // namespace

Json settings_section(const Run& run) {
    const std::vector<ConfigRow> all = config_rows(run);
    if (all.empty()) {
        return nothing_because("no dump has the settings of its process");
    }
    std::map<std::string_view, size_t> values;
    for (const ConfigRow& row : all) {
        ++values[row.name];
    }
    Json rows = Json::array();
    size_t differing = 0;
    for (const ConfigRow& row : all) {
        if (values[row.name] > 1 && ++differing <= kMostSettings) {
            rows.push_back({{"name", row.name},
                            {"value", row.value.empty() ? Json(nullptr) : Json(row.value)},
                            {"ranks", rank_ranges(row.ranks)}});
        }
    }
    const auto equal = std::ranges::count_if(values, [](const auto& one) { return one.second == 1; });
    return {{"rows", std::move(rows)}, {"more_rows", differing - std::min(differing, kMostSettings)}, {"equal", equal}};
}

}  // namespace titan::analyzer
