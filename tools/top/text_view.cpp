#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/utf8.h"
#include "host/words.h"
#include "top/view.h"

namespace titan::tools {
namespace {

constexpr size_t kRowsUnfolded = 16;
constexpr int64_t kWorthNamingNs = 100'000'000;  // shorter waits are the job's daily life

std::string host_name() {
    char name[65] = "";
    ::gethostname(name, sizeof(name) - 1);
    return printable(name);
}

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

// Of ranks that are folded only what they share.
std::string gpu_text(const FoldedRow& fold) {
    const std::string words = fold.ranks.size() > 1 ? "" : fold.row.gpu;
    return fold.row.is_throttled ? words + (words.empty() ? "throttled" : " throttled") : words;
}

// The most telling comes first: terminals are narrow.
std::string rank_line(const FoldedRow& fold) {
    const RankRow& row = fold.row;
    const bool waits = !row.waits_for.empty() && row.doing_ns >= kWorthNamingNs;
    std::string line = fmt::format(
        "{:>10} {:>8}  {:<8} {:>7} {:>7}  {:<12}  ", row.rank < 0 ? "-" : rank_ranges(fold.ranks),
        fold.ranks.size() > 1 ? "" : std::to_string(row.pid), row.state, row.step >= 0 ? std::to_string(row.step) : "-",
        row.steps_per_s < 0 ? "-" : fmt::format("{:.2f}", row.steps_per_s), waits ? ranks_text(row.waits_for) : "-");
    if (const std::string gpu = gpu_text(fold); !gpu.empty()) {
        line += gpu + "  ";
    }
    line += row.doing;
    if (row.doing_ns != 0) {
        line += " for " + duration_text(row.doing_ns);
    }
    if (row.state == "silent") {
        line += fmt::format("; no heartbeat for {}", duration_text(row.heartbeat_age_ns));
    }
    return line + (row.span.empty() ? "" : ", span " + row.span);
}

std::string attendance(const CallRow& row) {
    std::string text = "arrived: " + ranks_text(row.arrived);
    if (!row.missing.empty()) {
        text += "; missing: " + ranks_text(row.missing);
    } else if (row.elsewhere == 0) {
        text += " (all)";
    }
    if (!row.queued.empty()) {
        text += "; not yet on the GPU: " + ranks_text(row.queued);
    }
    return text + (row.elsewhere != 0 ? fmt::format("; {} on other nodes", row.elsewhere) : "");
}

std::string call_line(const CallRow& row) {
    const std::string who = row.pending_ns >= kWorthNamingNs ? attendance(row)
                            : row.arrived.empty()            ? std::string()
                                                             : ranks_text(row.arrived);
    const std::string pending = row.pending_ns < 0 ? (row.progress_unknown ? "?" : "-") : duration_text(row.pending_ns);
    return fmt::format("{:>12}  {:<40}  {}", pending, row.what, who);
}

class Lines {
  public:
    Lines(size_t columns, size_t lines, bool bold)
        : columns_(columns), left_(lines == 0 ? SIZE_MAX : lines), bold_(bold) {}

    void add(const std::string& line, bool heading = false) {
        if (left_ == 0) {
            return;
        }
        --left_;
        const std::string text = fitted(line, columns_);
        text_ += (bold_ && heading ? "\033[1m" + text + "\033[0m" : text) + "\n";
    }
    size_t left() const { return left_; }
    const std::string& text() const { return text_; }

  private:
    size_t columns_;
    size_t left_;
    bool bold_;
    std::string text_;
};

template <typename Row, typename Write>
void add_rows(Lines& lines, const std::vector<Row>& rows, size_t most, Write&& write) {
    const size_t shown = rows.size() <= most ? rows.size() : most == 0 ? 0 : most - 1;
    for (size_t i = 0; i < shown; ++i) {
        lines.add(write(rows[i]));
    }
    if (shown < rows.size() && most != 0) {
        lines.add(fmt::format("{:>12}", fmt::format("... {} more", rows.size() - shown)));
    }
}

void add_job(Lines& lines, const JobView& job) {
    const std::vector<FoldedRow> rows = folded(job.ranks);
    lines.add(fmt::format("run {} attempt {}: {} here{}", job.run, job.attempt, counted(job.ranks.size(), "process"),
                          job.world_size > 0
                              ? fmt::format(", {} in all", counted(static_cast<uint64_t>(job.world_size), "rank"))
                              : std::string()),
              true);
    if (!job.host.empty()) {
        lines.add("host: " + job.host);
    }
    lines.add(fmt::format("{:>10} {:>8}  {:<8} {:>7} {:>7}  {:<12}  {}", "rank", "pid", "process", "step", "steps/s",
                          "waits for", "doing"));
    // If both do not fit, communicators get a third of the room.
    const size_t room = lines.left() > 2 ? lines.left() - 2 : 0;
    const size_t for_calls =
        std::min(job.calls.size(), std::max(room / 3, room > rows.size() ? room - rows.size() : 0));
    add_rows(lines, rows, room - for_calls, rank_line);
    lines.add(fmt::format("{:>12}  {:<40}", "pending", "last call of each communicator"));
    add_rows(lines, job.calls, for_calls, call_line);
}

}  // namespace

std::string view_text(const NodeView& view, size_t columns, size_t lines_at_most, bool bold) {
    Lines lines(columns, lines_at_most, bold);
    const std::string clock = clock_text(view.realtime_ns).substr(0, 8);
    if (view.jobs.empty()) {
        lines.add(fmt::format("titan-top on {} at {}: no traced process", host_name(), clock), true);
    } else {
        lines.add(fmt::format("titan-top on {} at {}", host_name(), clock), true);
    }
    for (const JobView& job : view.jobs) {
        lines.add("");
        add_job(lines, job);
    }
    if (!view.problems.empty()) {
        lines.add("");
    }
    for (const std::string& problem : view.problems) {
        lines.add("not read: " + problem);
    }
    return lines.text();
}

}  // namespace titan::tools
