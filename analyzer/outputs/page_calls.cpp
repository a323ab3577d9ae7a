// Who is where: what each rank has called, started and finished, communicator by communicator.
#include <algorithm>
#include <map>
#include <set>

#include "call_order.h"
#include "host/mapped.h"
#include "host/words.h"
#include "layout.h"
#include "page_sections.h"
#include "rank_state.h"
#include "report_parts.h"
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
    std::vector<std::string> columns = mapped(known, [](const auto& one) { return one.first; });
    std::ranges::stable_sort(columns, [&](const std::string& a, const std::string& b) {
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
    std::ranges::stable_sort(order, [](const Row* a, const Row* b) {
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
            Json cell{progress.called, progress.started, progress.finished};
            cell.push_back(progress.op);
            cells.push_back(std::move(cell));
        }
        list.push_back({{"ranks", rank_ranges(row->ranks)}, {"state", row->state}, {"cells", std::move(cells)}});
    }
    return {{"columns", columns}, {"rows", std::move(list)}, {"more_columns", more_columns}, {"more_rows", more_rows}};
}

// --- Where each rank runs, whether it lives, and what it does.

Json ranks_section(const Run& run) {
    SharedTexts texts;
    Json rows = Json::array();
    for (const Process& process : run.processes) {
        const std::string state = rank_state(run, process);
        for (const int rank : ranks_of(process)) {
            const std::string place = run.layout == nullptr ? std::string() : run.layout->place_text(rank);
            Json row = Json::array();
            row.push_back(rank);
            row.push_back(process.pid);
            row.push_back(process.step);
            for (const std::string& text :
                 {process.host, place, std::string(status_of(process)), state, process.source.label}) {
                row.push_back(texts.number_of(text));
            }
            rows.push_back(std::move(row));
        }
    }
    if (rows.empty()) {
        return nothing_because("no rank left a record");
    }
    return {{"columns", std::vector<std::string>{"rank", "pid", "step", "host", "place", "status", "state", "file"}},
            {"rows", std::move(rows)},
            {"texts", texts.json()}};
}

// --- The newest calls of each rank on one clock: how they went into the hang.

namespace {

constexpr size_t kMostCalls = 16'000;  // of all ranks
constexpr size_t kMostOfARank = 48;
constexpr size_t kLeastOfARank = 4;

// The first wait of a hang; where none is on record what the findings say; else the newest thing on record.
int64_t moment_of(const Evidence& evidence, const Clocks& clocks, const std::vector<Finding>& findings) {
    const Run& run = evidence.run;
    int64_t first = INT64_MAX;
    for (uint32_t node = 0; node < evidence.graph.nodes.size(); ++node) {
        for (const Waiter& waiter : evidence.graph.nodes[node].waiting) {
            if (evidence.hangs(node) && waiter.since_ns > 0) {
                first = std::min(first, clocks.common_ns(waiter.member.process, waiter.since_ns));
            }
        }
    }
    for (const Finding& finding : findings) {
        if (first == INT64_MAX && finding.hangs && finding.since_ns > 0) {
            first = finding.since_ns;
        }
    }
    if (first != INT64_MAX) {
        return first;
    }
    int64_t newest = 0;
    for (uint32_t i = 0; i < run.processes.size(); ++i) {
        newest = std::max(newest, clocks.common_ns(i, run.processes[i].last_activity_ns()));
    }
    return newest;
}

}  // namespace

Json around_section(const Evidence& evidence, const Clocks& clocks, const std::vector<Finding>& findings) {
    const Run& run = evidence.run;
    if (run.processes.empty()) {
        return nothing_because("no rank left a record");
    }
    if (std::ranges::all_of(run.processes, [](const Process& process) { return process.entries.empty(); })) {
        return nothing_because("no call is on record");
    }
    const int64_t zero_ns = moment_of(evidence, clocks, findings);
    const size_t most = std::clamp(kMostCalls / run.processes.size(), kLeastOfARank, kMostOfARank);
    SharedTexts texts;
    Json rows = Json::array();
    for (uint32_t i = 0; i < run.processes.size(); ++i) {
        const Process& process = run.processes[i];
        // Whole microseconds from the moment; null: not seen.
        const auto after_us = [&](int64_t at_ns) {
            int64_t after = 0;
            return at_ns == 0 || __builtin_sub_overflow(clocks.common_ns(i, at_ns), zero_ns, &after)
                       ? Json(nullptr)
                       : Json(after / 1000);
        };
        std::map<int, Json> calls_of;
        for (const int rank : ranks_of(process)) {
            calls_of[rank] = Json::array();
        }
        for (size_t e = process.entries.size(); e-- > 0;) {
            const Entry& entry = process.entries[e];
            const uint32_t index = entry.row == kNoIndex ? kNoIndex : process.members[entry.row].communicator;
            if (index == kNoIndex || entry.entered_ns == 0 || !format::moves_data(entry.kind) || entry.captured) {
                continue;
            }
            Json& calls = calls_of[rank_of(process, entry.row)];
            if (calls.items().size() >= most) {
                continue;
            }
            Json call = Json::array();
            call.push_back(texts.number_of(op_text(entry.kind) + " on " + role_text(run.communicators[index])));
            call.push_back(entry.sequence);
            call.push_back(after_us(entry.entered_ns));
            call.push_back(after_us(entry.returned_ns));
            call.push_back(after_us(entry.started_ns));
            call.push_back(after_us(entry.finished_ns));
            call.push_back(entry.device == DeviceState::kFinished);
            calls.push_back(std::move(call));
        }
        for (auto& [rank, calls] : calls_of) {
            rows.push_back({{"rank", rank}, {"calls", std::move(calls)}});
        }
    }
    return {{"hang", any_hangs(findings)},
            {"zero_realtime_ns", zero_ns},
            {"clocks", clocks.summary()},
            {"texts", texts.json()},
            {"rows", std::move(rows)}};
}

}  // namespace titan::analyzer
