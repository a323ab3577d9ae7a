#include "summary_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "host/json_value.h"
#include "host/listing.h"
#include "host/words.h"
#include "phases.h"

namespace titan::analyzer {
namespace {

const char* kind_text(SummaryKind kind) {
    switch (kind) {
        case SummaryKind::kStep: return "step";
        case SummaryKind::kSpan: return "span";
        case SummaryKind::kGpuCall: return "GPU";
        case SummaryKind::kHostCall: return "host";
    }
    return "";
}

std::string slowest_text(const SummaryRow& row) {
    const int rank = row.slowest_rank();
    return rank < 0 ? "-" : fmt::format("rank {}: {}", rank, fine_duration_text(row.of_rank.at(rank).mean_ns()));
}

std::vector<std::string> cells(const Summary& summary, const SummaryRow& row) {
    const DurationSketch& all = row.durations;
    const std::optional<double> share = summary.share_of_steps(row);
    return {row.name,
            kind_text(row.kind),
            grouped_digits(all.count()),
            fine_duration_text(all.mean_ns()),
            fine_duration_text(all.quantile_ns(0.5)),
            fine_duration_text(all.quantile_ns(0.99)),
            fine_duration_text(static_cast<double>(all.most_ns())),
            share ? fmt::format("{:.1f}%", 100 * *share) : "-",
            row.bus_bytes != 0 && row.kind == SummaryKind::kGpuCall ? fmt::format("{:.1f}", row.bus_gb_per_s()) : "-",
            fmt::format("{} of {}", row.of_rank.size(), summary.ranks()),
            slowest_text(row)};
}

Json json_of(const Summary& summary, const SummaryRow& row) {
    const DurationSketch& all = row.durations;
    const std::optional<double> share = summary.share_of_steps(row);
    std::vector<int> ranks;
    for (const auto& [rank, durations] : row.of_rank) {
        ranks.push_back(rank);
    }
    const int slowest = row.slowest_rank();
    Json json;
    json["kind"] = kind_text(row.kind);
    json["name"] = row.name;
    json["phase"] = row.kind == SummaryKind::kSpan ? phase_of(row.name) : "";
    json["count"] = all.count();
    json["sum_ns"] = all.sum_ns();
    json["mean_ns"] = all.mean_ns();
    json["std_ns"] = all.std_ns();
    json["min_ns"] = all.least_ns();
    json["p50_ns"] = all.quantile_ns(0.5);
    json["p95_ns"] = all.quantile_ns(0.95);
    json["p99_ns"] = all.quantile_ns(0.99);
    json["max_ns"] = all.most_ns();
    json["share_of_steps"] = share ? Json(*share) : Json(nullptr);
    json["bytes"] = row.bytes;
    json["bus_gb_per_s"] = row.kind == SummaryKind::kGpuCall ? Json(row.bus_gb_per_s()) : Json(nullptr);
    json["ranks"] = ranks;
    json["ranks_on_record"] = summary.ranks();
    json["slowest_rank"] = slowest;
    json["slowest_rank_mean_ns"] = slowest < 0 ? Json(nullptr) : Json(row.of_rank.at(slowest).mean_ns());
    return json;
}

void write_table(const Summary& summary, size_t most, const std::function<void(const std::string&)>& write) {
    std::map<SummaryKind, size_t> of_kind;
    std::vector<std::vector<std::string>> lines;
    size_t left_out = 0;
    for (const SummaryRow* row : summary.rows()) {
        if (most != 0 && ++of_kind[row->kind] > most) {
            ++left_out;
            continue;
        }
        lines.push_back(cells(summary, *row));
    }
    write(listing_text({{"what", 16},
                        {"kind", 4},
                        {"count", 6, true},
                        {"mean", 7, true},
                        {"median", 7, true},
                        {"p99", 7, true},
                        {"longest", 7, true},
                        {"of steps", 8, true},
                        {"bus GB/s", 8, true},
                        {"ranks", 7, true},
                        {"slowest on average", 0}},
                       std::move(lines)));
    if (left_out != 0) {
        write(fmt::format("{} more, shorter in sum: --top 0 lists all\n", many_counted(left_out, "row")));
    }
}

}  // namespace

bool report_summary(const Run& run, const SummaryReportOptions& options,
                    const std::function<void(const std::string&)>& write) {
    Symbols symbols(Symbols::Search::kNearby);
    RecordReader reader(run, symbols);
    Summary summary(run, options.what);
    reader.visit_ours(options.ranks, [&](const ProcessRecords& records) { summary.add(records); });
    const std::vector<const SummaryRow*> rows = summary.rows();
    if (rows.empty()) {
        return false;
    }
    if (options.json) {
        for (const SummaryRow* row : rows) {
            write(json_of(summary, *row).dump() + "\n");
        }
        return true;
    }
    write_table(summary, options.most, write);
    if (summary.overwritten_markers() != 0) {
        write(fmt::format("{} of older steps {} overwritten: TITANTRACE_MARKERS, or a journal, keeps more\n",
                          many_counted(summary.overwritten_markers(), "marker"),
                          verb_form(summary.overwritten_markers(), "is", "are")));
    }
    if (summary.names_left_out() != 0) {
        write(fmt::format("{} of names beyond the first 10,000 left out\n",
                          many_counted(summary.names_left_out(), "duration")));
    }
    return true;
}

}  // namespace titan::analyzer
