// Who is where: what each rank has called, started and finished, communicator by communicator.
#include <algorithm>
#include <map>
#include <set>

#include "call_order.h"
#include "host/words.h"
#include "page_sections.h"
#include "rank_state.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostColumns = 24;
constexpr size_t kMostRows = 2'000;

// Sequence numbers of the newest calls; -1 where there is none, or nothing tells.
struct CallProgress {
    int64_t called = -1;
    int64_t started = -1;
    int64_t finished = -1;
    std::string op;  // of the newest call
};

// A damaged record may hold any count.
int64_t last_of(uint64_t calls) {
    constexpr uint64_t kMost = uint64_t{1} << 53;  // what a number of JavaScript holds
    return static_cast<int64_t>(std::min(calls, kMost)) - 1;
}

CallProgress progress_of(const Process& process, const Member& member) {
    CallProgress progress;
    progress.called = member.issued <= process.sees.first_number ? -1 : last_of(member.issued);
    progress.finished = last_of(member.finished);
    for (const uint32_t index : member.calls) {
        const Entry& entry = process.entries[index];
        progress.op = op_text(entry.kind);
        if (entry.device == DeviceState::kStarted || entry.device == DeviceState::kFinished) {
            progress.started = std::max(progress.started, last_of(entry.sequence) + 1);
        }
    }
    progress.started = std::max(progress.started, progress.finished);
    return progress;
}

using Cells = std::vector<std::pair<std::string, CallProgress>>;  // by column

// A rank that has two communicators of one column has a second column for the other.
Cells cells_of(const Run& run, const Process& process, int rank) {
    Cells cells;
    std::map<std::string, int> seen;
    for (uint32_t i = 0; i < process.members.size(); ++i) {
        const Member& member = process.members[i];
        if (member.communicator == kNoIndex || rank_of(process, i) != rank) {
            continue;
        }
        std::string column = role_text(run.communicators[member.communicator]);
        const int number = ++seen[column];
        if (number > 1) {
            column += " (" + std::to_string(number) + ")";
        }
        cells.emplace_back(std::move(column), progress_of(process, member));
    }
    return cells;
}

struct Row {
    std::vector<int> ranks;
    std::string state;
    std::map<std::string, CallProgress> cells;
    int64_t behind = 0;  // calls, over all columns
};

std::string key_of(const Cells& cells, const std::string& state) {
    std::string key = state;
    for (const auto& [column, progress] : cells) {
        key += "\n" + column;
        for (const int64_t number : {progress.called, progress.started, progress.finished}) {
            key += " " + std::to_string(number);
        }
    }
    return key;
}

// The columns that most ranks have, and among them those first in which ranks differ.
std::vector<std::string> columns_of(const std::map<std::string, Row>& rows) {
    std::map<std::string, std::pair<size_t, std::set<int64_t>>> known;  // ranks, and what was called
    for (const auto& [key, row] : rows) {
        for (const auto& [column, progress] : row.cells) {
            known[column].first += row.ranks.size();
            known[column].second.insert(progress.called);
        }
    }
    std::vector<std::string> columns;
    for (const auto& [column, of] : known) {
        columns.push_back(column);
    }
    std::stable_sort(columns.begin(), columns.end(), [&](const std::string& a, const std::string& b) {
        const auto worth = [&](const std::string& column) {
            return std::pair(known[column].second.size() > 1, known[column].first);
        };
        return worth(a) > worth(b);
    });
    return columns;
}

}  // namespace

Json calls_section(const Run& run) {
    std::map<std::string, Row> rows;
    std::map<std::string, int64_t> furthest;
    for (const Process& process : run.processes) {
        const std::string state = rank_state_without_times(run, process);
        for (const int rank : ranks_of(process)) {
            const Cells cells = cells_of(run, process, rank);
            Row& row = rows[key_of(cells, state)];
            row.ranks.push_back(rank);
            row.state = state;
            for (const auto& [column, progress] : cells) {
                row.cells[column] = progress;
                int64_t& most = furthest.try_emplace(column, -1).first->second;
                most = std::max(most, progress.called);
            }
        }
    }
    if (furthest.empty()) {
        return nothing_because("no communicator is on record");
    }
    std::vector<Row*> order;
    for (auto& [key, row] : rows) {
        for (const auto& [column, progress] : row.cells) {
            row.behind += furthest[column] - progress.called;
        }
        order.push_back(&row);
    }
    std::stable_sort(order.begin(), order.end(), [](const Row* a, const Row* b) {
        return std::pair(-a->behind, a->ranks) < std::pair(-b->behind, b->ranks);
    });
    std::vector<std::string> columns = columns_of(rows);
    const size_t more_columns = columns.size() - std::min(columns.size(), kMostColumns);
    columns.resize(columns.size() - more_columns);
    const size_t more_rows = order.size() - std::min(order.size(), kMostRows);
    order.resize(order.size() - more_rows);
    Json list = Json::array();
    for (const Row* row : order) {
        Json cells = Json::array();
        for (const std::string& column : columns) {
            const auto found = row->cells.find(column);
            if (found == row->cells.end()) {
                cells.push_back(nullptr);
                continue;
            }
            const CallProgress& progress = found->second;
            Json cell = Json::array();
            for (const int64_t number : {progress.called, progress.started, progress.finished}) {
                cell.push_back(number);
            }
            cell.push_back(progress.op);
            cells.push_back(std::move(cell));
        }
        list.push_back({{"ranks", rank_ranges(row->ranks)}, {"state", row->state}, {"cells", std::move(cells)}});
    }
    return {{"columns", columns}, {"rows", std::move(list)}, {"more_columns", more_columns}, {"more_rows", more_rows}};
}

}  // namespace titan::analyzer
