#include "config_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "host/words.h"
#include "layout.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

using Rows = std::vector<ConfigRow>;

constexpr size_t kFewestRanks = 3;  // of one place: of two, none is the odd one

std::string said(const ConfigRow& row) {
    return fmt::format("{} on {}", row.value.empty() ? "not set" : row.value, ranks_text(row.ranks));
}

size_t count_ranks(const Rows& rows) {
    size_t ranks = 0;
    for (const ConfigRow& row : rows) {
        ranks += row.ranks.size();
    }
    return ranks;
}

bool has_majority(const Rows& rows) { return rows.front().ranks.size() * 2 > count_ranks(rows); }

void put_most_frequent_first(Rows& rows) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const ConfigRow& a, const ConfigRow& b) { return a.ranks.size() > b.ranks.size(); });
}

Rows rows_of(const std::string& name, const std::map<std::string, std::vector<int>>& values) {
    Rows rows;
    for (const auto& [value, ranks] : values) {
        rows.push_back({name, value, ranks});
    }
    put_most_frequent_first(rows);
    return rows;
}

// `rows`: of one name, the most frequent value first.
ConfigDifference difference_of(const Rows& rows) {
    constexpr size_t kShownValues = 3;
    const bool tied = rows[0].ranks.size() == rows[1].ranks.size();
    ConfigDifference difference;
    difference.name = rows[0].name;
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

// The rows of each place on the axis of `role`; empty if the place of a rank is unknown.
std::map<int, Rows> by_place(const Rows& rows, const Layout& layout, Role role) {
    std::map<int, Rows> parts;
    for (const ConfigRow& row : rows) {
        std::map<int, std::vector<int>> ranks_at;
        for (const int rank : row.ranks) {
            const RankPlace* place = layout.place_of(rank);
            if (place == nullptr || place->in(role) < 0) {
                return {};
            }
            ranks_at[place->in(role)].push_back(rank);
        }
        for (auto& [place, ranks] : ranks_at) {
            parts[place].push_back({row.name, row.value, std::move(ranks)});
        }
    }
    for (auto& [place, part] : parts) {
        put_most_frequent_first(part);
    }
    return parts;
}

// Roles may have settings of their own: what is odd is odd among the ranks of one place.
std::vector<ConfigDifference> differences_by_role(const Rows& rows, const Layout& layout) {
    for (const Dimension& dimension : layout.dimensions()) {
        const std::map<int, Rows> parts = by_place(rows, layout, dimension.role);
        const bool decides = parts.size() > 1 && std::all_of(parts.begin(), parts.end(), [](const auto& part) {
                                 return has_majority(part.second) && count_ranks(part.second) >= kFewestRanks;
                             });
        if (!decides) {
            continue;
        }
        std::vector<ConfigDifference> differences;
        for (const auto& [place, part] : parts) {
            if (part.size() > 1) {
                differences.push_back(difference_of(part));
            }
        }
        return differences;
    }
    return {};
}

// Variables are unset where they are not told; a fact of the machine, whose name has several words, is unknown there.
bool is_variable(const std::string& name) { return name.find(' ') == std::string::npos; }

// The differences of one name, if it has any that can be told. `of_name`: the most frequent value first.
std::vector<ConfigDifference> differences_of(const Run& run, const Rows& of_name) {
    if (of_name.size() == 2 || (of_name.size() > 2 && has_majority(of_name))) {
        return {difference_of(of_name)};
    }
    if (of_name.size() > 2 && run.layout != nullptr) {
        return differences_by_role(of_name, *run.layout);
    }
    return {};
}

}  // namespace

std::vector<ConfigRow> config_rows(const Run& run, const std::set<int>& among) {
    std::map<std::string, std::map<std::string, std::vector<int>>> by_name;
    std::vector<const Process*> told;  // those whose record tells
    for (const Process& process : run.processes) {
        if (process.rank < 0 || process.config.empty() || (!among.empty() && !among.contains(process.rank))) {
            continue;
        }
        told.push_back(&process);
        for (const auto& [name, value] : process.config) {
            by_name[process.text(name)][process.text(value)].push_back(process.rank);
        }
    }
    Rows rows;
    for (auto& [name, values] : by_name) {
        std::set<int> set_on;
        for (const auto& [value, ranks] : values) {
            set_on.insert(ranks.begin(), ranks.end());
        }
        for (const Process* process : told) {
            if (is_variable(name) && !set_on.contains(process->rank)) {
                values[""].push_back(process->rank);
            }
        }
        for (auto& [value, ranks] : values) {
            std::sort(ranks.begin(), ranks.end());
        }
        const Rows of_name = rows_of(name, values);
        rows.insert(rows.end(), of_name.begin(), of_name.end());
    }
    return rows;
}

std::vector<ConfigDifference> config_differences(const Run& run, const std::set<int>& among) {
    std::vector<ConfigDifference> differences;
    const Rows rows = config_rows(run, among);
    for (auto first = rows.begin(), end = first; first != rows.end(); first = end) {
        end = std::find_if(first, rows.end(), [&](const ConfigRow& row) { return row.name != first->name; });
        const Rows of_name(first, end);
        const std::vector<ConfigDifference> found = differences_of(run, of_name);
        differences.insert(differences.end(), found.begin(), found.end());
    }
    return differences;
}

std::vector<ConfigDifference> call_differences(const Run& run, const Communicator& communicator, uint64_t sequence) {
    std::map<std::string, std::map<std::string, std::vector<int>>> by_name;
    for (const MemberRef ref : communicator.members) {
        const Process& process = run.process(ref);
        const Entry* const entry = process.call_at(run.member(ref), sequence);
        for (const ChannelCounts& counts : process.channel_counts) {
            if (entry == nullptr || counts.entry != static_cast<size_t>(entry - process.entries.data())) {
                continue;
            }
            const std::string call = call_text(communicator, entry->kind, sequence);
            const auto note = [&](const char* what, const std::string& value) {
                if (!value.empty()) {
                    by_name[fmt::format("NCCL's {} for {}", what, call)][value].push_back(process.rank);
                }
            };
            note("algorithm", std::string(format::name_of(counts.algorithm)));
            note("protocol", std::string(format::name_of(counts.protocol)));
            note("number of channels", std::to_string(counts.channels));
        }
    }
    std::vector<ConfigDifference> differences;
    for (const auto& [name, values] : by_name) {
        const std::vector<ConfigDifference> found = differences_of(run, rows_of(name, values));
        differences.insert(differences.end(), found.begin(), found.end());
    }
    return differences;
}

}  // namespace titan::analyzer
