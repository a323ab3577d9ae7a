#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "base/utf8.h"
#include "host/listing.h"
#include "host/mapped.h"
#include "host/this_host.h"
#include "host/words.h"
#include "top/view.h"

namespace titan::tools {
namespace {

constexpr size_t kRowsUnfolded = 16;
constexpr int64_t kWorthNamingNs = 100'000'000;  // shorter waits are the job's daily life

// Cut to the width of the terminal, between characters.
std::string fitted(const std::string& line, size_t columns) {
    size_t used = 0;
    for (size_t i = 0; columns != 0 && i < line.size(); ++i) {
        if (starts_utf8_character(line[i]) && used++ == columns) {
            return line.substr(0, i);
        }
    }
    return line;
}

struct FoldedRow {
    RankRow row;
    std::vector<int> ranks;
    bool waits() const { return !row.waits_for.empty(); }
};

// Ranks that say the same are one line; those that are like nobody else come first.
std::vector<FoldedRow> folded(const std::vector<RankRow>& rows) {
    using Key = std::tuple<std::string, int64_t, std::string, std::string, std::vector<int>, bool>;
    std::map<Key, FoldedRow> by_key;
    std::vector<FoldedRow> all;
    for (const RankRow& row : rows) {
        if (rows.size() <= kRowsUnfolded || row.rank < 0) {
            all.push_back({row, {row.rank}});
            continue;
        }
        FoldedRow& fold = by_key[{row.state, row.step, row.span, row.doing, row.waits_for, row.is_throttled}];
        const int64_t longest_ns = std::max(fold.row.doing_ns, row.doing_ns);
        fold.row = fold.ranks.empty() ? row : fold.row;
        fold.row.doing_ns = longest_ns;
        fold.ranks.push_back(row.rank);
    }
    for (auto& [key, fold] : by_key) {
        all.push_back(std::move(fold));
    }
    if (!by_key.empty()) {
        std::stable_sort(all.begin(), all.end(), [](const FoldedRow& a, const FoldedRow& b) {
            return std::pair(a.waits(), a.ranks.size()) < std::pair(b.waits(), b.ranks.size());
        });
    }
    return all;
}

// A folded row shows only what its ranks share.
std::string gpu_text(const FoldedRow& fold) {
    const std::string words = fold.ranks.size() > 1 ? "" : fold.row.gpu;
    return fold.row.is_throttled ? words + (words.empty() ? "throttled" : " throttled") : words;
}

template <typename Text>
std::string named_values_text(const FoldedRow& fold, const std::vector<NamedValue>& values, const Text& text_of) {
    constexpr size_t kMostNames = 3;
    if (fold.ranks.size() > 1 || values.empty()) {
        return {};
    }
    const auto one = [&](const NamedValue& value) { return printable(value.name) + " " + text_of(value.value); };
    return listed(mapped(values, one), kMostNames);
}

std::string spans_text(const FoldedRow& fold) {
    return named_values_text(fold, fold.row.spans_ns, [](double ns) { return fine_duration_text(ns); });
}

std::string metrics_text(const FoldedRow& fold) { return named_values_text(fold, fold.row.metrics, number_text); }

std::string doing_text(const RankRow& row) {
    std::string text = row.doing;
    if (row.doing_ns != 0) {
        text += " for " + duration_text(row.doing_ns);
    }
    if (row.state == "silent") {
        text += fmt::format("; no heartbeat for {}", duration_text(row.heartbeat_age_ns));
    }
    return text + (row.span.empty() ? "" : ", span " + row.span);
}

std::string state_if_away(const FoldedRow& fold) {
    return fold.row.state == "running" ? std::string() : fold.row.state;
}

// A column of the ranks, and the windows that have room for it. One that is empty is left out.
struct RankColumn {
    ListColumn column;
    std::string (*cell)(const FoldedRow&);
    size_t from_columns = 0;
    size_t to_columns = SIZE_MAX;
};
constexpr size_t kWide = 100;
const RankColumn kRankColumns[] = {
    {{"rank", 4, true}, [](const FoldedRow& fold) { return fold.row.rank < 0 ? "-" : rank_list(fold.ranks); }},
    {{"pid", 0, true},
     [](const FoldedRow& fold) { return fold.ranks.size() > 1 ? std::string() : std::to_string(fold.row.pid); },
     80},
    {{"process", 0}, state_if_away, 40, kWide - 1},
    {{"process", 0}, [](const FoldedRow& fold) { return fold.row.state; }, kWide},
    {{"step", 0, true},
     [](const FoldedRow& fold) { return fold.row.step >= 0 ? std::to_string(fold.row.step) : "-"; },
     60},
    {{"steps/s", 0, true},
     [](const FoldedRow& fold) { return fold.row.steps_per_s < 0 ? "-" : fmt::format("{:.2f}", fold.row.steps_per_s); },
     kWide},
    {{"waits for", 0},
     [](const FoldedRow& fold) {
         const bool waits = fold.waits() && fold.row.waits_ns >= kWorthNamingNs;
         return waits ? ranks_text(fold.row.waits_for) : std::string("-");
     }},
    {{"GPU", 0}, gpu_text, kWide},
    {{"spans of a step", 0}, spans_text},
    {{"newest metrics", 0}, metrics_text, kWide},
    {{"doing", 0}, [](const FoldedRow& fold) { return doing_text(fold.row); }},
};

std::string attendance(const CallRow& row) {
    std::string text = (row.missing.empty() ? "" : "missing: " + ranks_text(row.missing) + "; ") +
                       "arrived: " + ranks_text(row.arrived);
    if (row.missing.empty() && row.elsewhere == 0) {
        text += " (all)";
    }
    if (!row.queued.empty()) {
        text += "; not yet on the GPU: " + ranks_text(row.queued);
    }
    return text + (row.elsewhere != 0 ? fmt::format("; {} on other nodes", row.elsewhere) : "");
}

std::vector<std::string> call_cells(const CallRow& row) {
    const std::string who = row.pending_ns >= kWorthNamingNs ? attendance(row)
                            : row.arrived.empty()            ? std::string()
                                                             : ranks_text(row.arrived);
    const std::string pending = row.pending_ns < 0 ? (row.progress_unknown ? "?" : "-") : duration_text(row.pending_ns);
    return {pending, row.what, who};
}

enum class Paint : uint8_t { kPlain, kHeading, kGood, kLook, kAlarm };

const char* escape_of(Paint paint) {
    switch (paint) {
        case Paint::kPlain: break;
        case Paint::kHeading: return "\033[1m";
        case Paint::kGood: return "\033[32m";
        case Paint::kLook: return "\033[1;33m";
        case Paint::kAlarm: return "\033[1;31m";
    }
    return "";
}

Paint paint_of(Alert alert) {
    return alert == Alert::kAlarm ? Paint::kAlarm : alert == Alert::kLook ? Paint::kLook : Paint::kGood;
}

class Lines {
  public:
    Lines(size_t columns, size_t lines, bool colour)
        : columns_(columns), left_(lines == 0 ? SIZE_MAX : lines), colour_(colour) {}

    void add(const std::string& line, Paint paint = Paint::kPlain) {
        if (left_ == 0) {
            return;
        }
        --left_;
        const std::string text = fitted(line, columns_);
        const bool painted = colour_ && paint != Paint::kPlain;
        text_ += (painted ? escape_of(paint) + text + "\033[0m" : text) + "\n";
    }
    // A listing of which at most that many rows are shown; the first line are its titles.
    void add_listing(const std::string& listing, size_t most, const std::vector<Paint>& paints) {
        std::istringstream rows(listing);
        std::string line;
        std::getline(rows, line);
        add(line);
        const size_t shown = paints.size() <= most ? paints.size() : most == 0 ? 0 : most - 1;
        for (size_t i = 0; i < shown && std::getline(rows, line); ++i) {
            add(line, paints[i]);
        }
        if (shown < paints.size() && most != 0) {
            add(fmt::format("... {} more", paints.size() - shown));
        }
    }
    size_t columns() const { return columns_ == 0 ? SIZE_MAX : columns_; }
    size_t left() const { return left_; }
    const std::string& text() const { return text_; }

  private:
    size_t columns_;
    size_t left_;
    bool colour_;
    std::string text_;
};

bool names_any(const JobView& job, const std::vector<int>& ranks) {
    const std::vector<int>& named = job.conclusion.ranks;
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](int rank) { return std::find(named.begin(), named.end(), rank) != named.end(); });
}

void add_ranks(Lines& lines, const JobView& job, const std::vector<FoldedRow>& rows, size_t most) {
    std::vector<const RankColumn*> columns;
    for (const RankColumn& column : kRankColumns) {
        const bool empty =
            std::all_of(rows.begin(), rows.end(), [&](const FoldedRow& row) { return column.cell(row).empty(); });
        if (lines.columns() >= column.from_columns && lines.columns() <= column.to_columns && !empty) {
            columns.push_back(&column);
        }
    }
    std::vector<ListColumn> titles = mapped(columns, &RankColumn::column);
    std::vector<std::vector<std::string>> cells;
    std::vector<Paint> paints;
    for (const FoldedRow& row : rows) {
        std::vector<std::string>& line = cells.emplace_back();
        for (const RankColumn* const column : columns) {
            line.push_back(column->cell(row));
        }
        paints.push_back(names_any(job, row.ranks) ? paint_of(job.conclusion.alert) : Paint::kPlain);
    }
    lines.add_listing(listing_text(std::move(titles), std::move(cells)), most, paints);
}

// Calls first that a rank worth a look has not joined.
void add_calls(Lines& lines, const JobView& job, size_t most) {
    std::vector<CallRow> rows = job.calls;
    std::stable_partition(rows.begin(), rows.end(), [&](const CallRow& row) { return names_any(job, row.missing); });
    std::vector<std::vector<std::string>> cells = mapped(rows, call_cells);
    lines.add_listing(
        listing_text({{"pending", 0, true}, {"last call of each communicator", 0}, {"who", 0}}, std::move(cells)), most,
        std::vector<Paint>(job.calls.size(), Paint::kPlain));
}

std::string recorded_text(const JobView& job) {
    return fmt::format("{} on {} at {}", job.has_ended ? "ended" : "as recorded", printable(job.recorded_hosts),
                       date_text(job.recorded_ns));
}

// `room`: lines that other jobs leave to it.
void add_job(Lines& lines, const JobView& job, const std::string& where, size_t room) {
    constexpr size_t kHeadLines = 2;
    constexpr size_t kTitleLines = 2;
    constexpr size_t kFewestCalls = 2;    // one and its title are no use
    constexpr size_t kLinesForHost = 16;  // a smaller window is for the ranks
    std::vector<FoldedRow> rows = folded(job.ranks);
    lines.add(job.conclusion.text, paint_of(job.conclusion.alert));
    lines.add(fmt::format("run {} attempt {} {}: {}{}{}", job.run, job.attempt,
                          job.recorded_ns == 0 ? where : recorded_text(job), counted(job.ranks.size(), "process"),
                          job.recorded_ns == 0 ? " here" : "",
                          job.world_size > 0
                              ? fmt::format(", {} in all", counted(static_cast<uint64_t>(job.world_size), "rank"))
                              : std::string()),
              Paint::kHeading);
    room -= std::min(room, kHeadLines);
    if (!job.host.empty() && room >= kLinesForHost) {
        lines.add("host: " + job.host);
        --room;
    }
    room -= std::min(room, kTitleLines);
    if (room == 0) {
        return;
    }
    // If both do not fit, communicators get a third of the room, and ranks that are to be looked at come first.
    size_t for_calls = std::min(job.calls.size(), std::max(room / 3, room > rows.size() ? room - rows.size() : 0));
    if (for_calls < std::min(job.calls.size(), kFewestCalls)) {
        for_calls = 0;
        ++room;
    }
    if (room - for_calls < rows.size()) {
        std::stable_partition(rows.begin(), rows.end(),
                              [&](const FoldedRow& row) { return names_any(job, row.ranks); });
    }
    add_ranks(lines, job, rows, room - for_calls);
    if (for_calls != 0) {
        add_calls(lines, job, for_calls);
    }
}

}  // namespace

std::string view_text(const NodeView& view, size_t columns, size_t lines_at_most, bool colour) {
    Lines lines(columns, lines_at_most, colour);
    const std::string where =
        fmt::format("on {} at {}", printable(this_host()), clock_text(view.realtime_ns).substr(0, 8));
    if (view.jobs.empty()) {
        lines.add(fmt::format("titan-top {}: no traced process", where), Paint::kHeading);
    }
    std::vector<const JobView*> jobs = mapped(view.jobs, [](const JobView& job) { return &job; });
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const JobView* a, const JobView* b) { return a->conclusion.alert > b->conclusion.alert; });
    constexpr size_t kLeastLines = 3;  // of another job: a blank one, what it comes to, its name
    for (size_t i = 0; i < jobs.size(); ++i) {
        if (i != 0) {
            lines.add("");
        }
        const size_t for_others = (jobs.size() - i - 1) * kLeastLines;
        add_job(lines, *jobs[i], where, lines.left() - std::min(lines.left(), for_others));
    }
    if (!view.problems.empty() || !view.notes.empty()) {
        lines.add("");
    }
    for (const std::string& problem : view.problems) {
        lines.add("not read: " + problem);
    }
    for (const std::string& note : view.notes) {
        lines.add(printable(note));
    }
    return lines.text();
}

}  // namespace titan::tools
