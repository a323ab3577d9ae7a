#include "config_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "host/words.h"

namespace titan::analyzer {
namespace {

std::string said(const ConfigRow& row) {
    return fmt::format("{} on {}", row.value.empty() ? "not set" : row.value, ranks_text(row.ranks));
}

// `rows`: of one name, the most frequent value first.
ConfigDifference difference_of(const std::vector<ConfigRow>& rows) {
    constexpr size_t kShownValues = 3;
    const bool tied = rows[0].ranks.size() == rows[1].ranks.size();
    ConfigDifference difference;
    std::vector<std::string> values;
    std::vector<int> others;
    for (size_t i = tied ? 0 : 1; i < rows.size(); ++i) {
        difference.odd.insert(difference.odd.end(), rows[i].ranks.begin(), rows[i].ranks.end());
        if (values.size() < kShownValues) {
            values.push_back(said(rows[i]));
        } else {
            others.insert(others.end(), rows[i].ranks.begin(), rows[i].ranks.end());
        }
    }
    std::sort(difference.odd.begin(), difference.odd.end());
    if (!others.empty()) {
        std::sort(others.begin(), others.end());
        values.push_back("another one on " + ranks_text(others));
    }
    difference.text =
        fmt::format("{} is {}{}", rows[0].name, fmt::join(values, ", "), tied ? "" : ", and " + said(rows[0]));
    return difference;
}

}  // namespace

std::vector<ConfigRow> config_rows(const Run& run) {
    std::map<std::string, std::map<std::string, std::vector<int>>> by_name;
    std::vector<const Process*> told;  // those whose record tells
    for (const Process& process : run.processes) {
        if (process.rank < 0 || process.config.empty()) {
            continue;
        }
        told.push_back(&process);
        for (const auto& [name, value] : process.config) {
            by_name[process.text(name)][process.text(value)].push_back(process.rank);
        }
    }
    std::vector<ConfigRow> rows;
    for (auto& [name, values] : by_name) {
        std::set<int> set_on;
        for (const auto& [value, ranks] : values) {
            set_on.insert(ranks.begin(), ranks.end());
        }
        for (const Process* process : told) {
            if (!set_on.contains(process->rank)) {
                values[""].push_back(process->rank);
            }
        }
        const size_t first = rows.size();
        for (auto& [value, ranks] : values) {
            std::sort(ranks.begin(), ranks.end());
            rows.push_back({name, value, ranks});
        }
        std::stable_sort(rows.begin() + static_cast<std::ptrdiff_t>(first), rows.end(),
                         [](const ConfigRow& a, const ConfigRow& b) { return a.ranks.size() > b.ranks.size(); });
    }
    return rows;
}

std::vector<ConfigDifference> config_differences(const Run& run) {
    std::vector<ConfigDifference> differences;
    const std::vector<ConfigRow> rows = config_rows(run);
    for (size_t first = 0, end = 0; first < rows.size(); first = end) {
        size_t ranks = 0;
        for (end = first; end < rows.size() && rows[end].name == rows[first].name; ++end) {
            ranks += rows[end].ranks.size();
        }
        const bool of_most = rows[first].ranks.size() * 2 > ranks;
        if (end - first > 1 && (of_most || end - first == 2)) {
            differences.push_back(difference_of(
                {rows.begin() + static_cast<std::ptrdiff_t>(first), rows.begin() + static_cast<std::ptrdiff_t>(end)}));
        }
    }
    return differences;
}

}  // namespace titan::analyzer
