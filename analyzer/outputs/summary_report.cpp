#include "summary_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "host/json_value.h"
#include "host/listing.h"
#include "host/mapped.h"
#include "host/words.h"
#include "phases.h"
#include "report_parts.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

bool is_metric(const SummaryRow* row) { return row->kind == PartKind::kMetric; }

std::string ranks_cell(const Summary& summary, const SummaryRow& row) {
    return fmt::format("{} of {}", row.of_rank.size(), summary.ranks_beside(row));
}

std::string slowest_text(const SummaryRow& row) {
    const int rank = row.highest_rank();
    return rank < 0 ? "-" : fmt::format("rank {}: {}", rank, fine_duration_text(row.of_rank.at(rank).mean()));
}

std::string mean_of_rank_text(const SummaryRow& row, int rank) {
    return rank < 0 ? "-" : fmt::format("rank {}: {}", rank, number_text(row.of_rank.at(rank).mean()));
}

std::vector<std::string> duration_cells(const Summary& summary, const SummaryRow& row) {
    const ValueSketch& all = row.values;
    const std::optional<double> share = summary.share_of_steps(row);
    const std::string count = row.calls > all.count()
                                  ? fmt::format("{} of {}", grouped_digits(all.count()), grouped_digits(row.calls))
                                  : grouped_digits(all.count());
    if (all.count() == 0) {
        return {name_or_none(row.name),
                name_of(row.kind),
                count,
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                ranks_cell(summary, row),
                "-"};
    }
    return {name_or_none(row.name),
            name_of(row.kind),
            count,
            fine_duration_text(all.mean()),
            fine_duration_text(all.quantile(0.5)),
            fine_duration_text(all.quantile(0.99)),
            fine_duration_text(all.most()),
            share ? fmt::format("{:.1f}%", 100 * *share) : "-",
            row.kind == PartKind::kGpuCall ? fmt::format("{:.1f}", row.bus_gb_per_s()) : "-",
            ranks_cell(summary, row),
            slowest_text(row)};
}

std::vector<std::string> metric_cells(const Summary& summary, const SummaryRow& row) {
    const ValueSketch& all = row.values;
    const std::string count =
        grouped_digits(all.count()) + (row.not_finite == 0 ? "" : fmt::format(" + {} not finite", row.not_finite));
    if (all.count() == 0) {
        return {name_or_none(row.name), count, "-", "-", "-", "-", "-", "-", ranks_cell(summary, row), "-", "-"};
    }
    return {name_or_none(row.name),
            count,
            number_text(all.mean()),
            number_text(all.std()),
            number_text(all.least()),
            number_text(all.quantile(0.5)),
            number_text(all.quantile(0.99)),
            number_text(all.most()),
            ranks_cell(summary, row),
            mean_of_rank_text(row, row.lowest_rank()),
            mean_of_rank_text(row, row.highest_rank())};
}

}  // namespace

// Nanoseconds have it in their keys.
Json summary_row_json(const Summary& summary, const SummaryRow& row) {
    const ValueSketch& all = row.values;
    const std::optional<double> share = summary.share_of_steps(row);
    const std::string unit = is_metric(&row) ? "" : "_ns";
    const auto mean_of = [&row](int rank) {
        return rank < 0 ? Json(nullptr) : number_or_word(row.of_rank.at(rank).mean());
    };
    Json json;
    json["kind"] = name_of(row.kind);
    json["name"] = row.name;
    json["phase"] = row.kind == PartKind::kSpan ? phase_of(row.name) : "";
    json["count"] = all.count();
    // Where no value is finite there is none.
    const auto put = [&](const char* key, double value) {
        json[key + unit] = all.count() == 0 ? Json(nullptr) : number_or_word(value);
    };
    put("sum", all.sum());
    put("mean", all.mean());
    put("std", all.std());
    put("min", all.least());
    put("p50", all.quantile(0.5));
    put("p95", all.quantile(0.95));
    put("p99", all.quantile(0.99));
    put("max", all.most());
    json["ranks_on_record"] = summary.ranks_beside(row);
    if (is_metric(&row)) {
        json["not_finite"] = row.not_finite;
        json["lowest_rank"] = row.lowest_rank();
        json["lowest_rank_mean"] = mean_of(row.lowest_rank());
        json["highest_rank"] = row.highest_rank();
        json["highest_rank_mean"] = mean_of(row.highest_rank());
        return json;
    }
    json["share_of_steps"] = share ? Json(*share) : Json(nullptr);
    json["calls"] = row.calls;
    json["calls_summed_by_step"] = row.summed_calls;
    json["bytes"] = row.bytes;
    json["bus_gb_per_s"] = row.kind == PartKind::kGpuCall ? Json(row.bus_gb_per_s()) : Json(nullptr);
    json["slowest_rank"] = row.highest_rank();
    json["slowest_rank_mean_ns"] = mean_of(row.highest_rank());
    return json;
}

namespace {

// With all ranks that have such values.
Json json_of(const Summary& summary, const SummaryRow& row) {
    Json json = summary_row_json(summary, row);
    json["ranks"] = mapped(row.of_rank, [](const auto& one) { return one.first; });
    return json;
}

Json json_of(const Throughput& throughput) {
    const auto or_null = [](const std::optional<double>& value) {
        return value ? number_or_word(*value) : Json(nullptr);
    };
    Json json;
    json["kind"] = "job";
    json["name"] = "throughput";
    json["ranks"] = throughput.ranks;
    json["step_ns"] = throughput.step_ns;
    json["steps_per_s"] = throughput.steps_per_s();
    json["tokens_per_s"] = or_null(throughput.tokens_per_s);
    json["mfu"] = or_null(throughput.mfu);
    json["peak_tflops"] = throughput.peak_tflops > 0 ? Json(throughput.peak_tflops) : Json(nullptr);
    return json;
}

uint64_t rounded(double value) { return static_cast<uint64_t>(std::llround(value)); }

std::string throughput_text(const Throughput& throughput) {
    std::string text = fmt::format("{:.4g} steps/s", throughput.steps_per_s());
    if (throughput.tokens_per_s) {
        text += fmt::format("; {} tokens/s, {} on each of {}", grouped_digits(rounded(*throughput.tokens_per_s)),
                            grouped_digits(rounded(*throughput.tokens_per_s / throughput.ranks)),
                            many_counted(static_cast<size_t>(throughput.ranks), "rank"));
    }
    if (throughput.mfu) {
        text += fmt::format("; MFU {:.1f}% of {:.4g} TFLOPS a GPU", 100 * *throughput.mfu, throughput.peak_tflops);
    }
    return text + "\n";
}

std::vector<const SummaryRow*> first_of_each_kind(const std::vector<const SummaryRow*>& rows, size_t most) {
    std::map<PartKind, size_t> of_kind;
    std::vector<const SummaryRow*> first;
    for (const SummaryRow* row : rows) {
        if (most == 0 || ++of_kind[row->kind] <= most) {
            first.push_back(row);
        }
    }
    return first;
}

const std::vector<ListColumn> kDurationColumns = {
    {"what", 16},          {"kind", 4},        {"count", 6, true},       {"mean", 7, true},
    {"median", 7, true},   {"p99", 7, true},   {"longest", 7, true},     {"of steps", 8, true},
    {"bus GB/s", 8, true}, {"ranks", 7, true}, {"slowest on average", 0}};
const std::vector<ListColumn> kMetricColumns = {
    {"metric", 16},     {"values", 6, true},       {"mean", 8, true},        {"std", 8, true},
    {"least", 8, true}, {"median", 8, true},       {"p99", 8, true},         {"greatest", 8, true},
    {"ranks", 7, true}, {"lowest on average", 18}, {"highest on average", 0}};

void write_tables(const Summary& summary, const SummaryReportOptions& options,
                  const std::function<void(const std::string&)>& write) {
    const std::vector<const SummaryRow*> all = summary.rows();
    // Who sorts wants the first of that order.
    const bool sorted = !options.table.sort.empty();
    const std::vector<const SummaryRow*> rows = first_of_each_kind(all, sorted ? 0 : options.most);
    Rows durations, metrics;
    for (const SummaryRow* row : rows) {
        if (is_metric(row)) {
            metrics.push_back(metric_cells(summary, *row));
        } else {
            durations.push_back(duration_cells(summary, *row));
        }
    }
    size_t shown = 0;
    for (auto& [columns, cells] : {std::pair(&kDurationColumns, &durations), std::pair(&kMetricColumns, &metrics)}) {
        if (cells->empty()) {
            continue;
        }
        sort_rows(*columns, options.table, *cells);
        cells->resize(sorted && options.most != 0 ? std::min(options.most, cells->size()) : cells->size());
        write((shown == 0 ? "" : "\n") +
              listing_text(*columns, *cells, {.csv = options.table.csv, .width = options.table.width}));
        shown += cells->size();
    }
    if (options.table.csv) {
        return;
    }
    if (all.size() != shown) {
        write(fmt::format("{} more: --top 0 lists all\n", many_counted(all.size() - shown, "row")));
    }
    if (const auto throughput = summary.throughput()) {
        write("\n" + throughput_text(*throughput));
    }
}

}  // namespace

bool report_summary(const Run& run, const SummaryReportOptions& options, const Write& write, const Write& note) {
    Symbols symbols(Symbols::Search::kNearby);
    RecordReader reader(run, symbols);
    Summary summary(run, options.what);
    const auto add = [&summary](const ProcessRecords& records) { summary.add(records); };
    reader.visit_all(options.ranks, add, options.progress);
    for (const std::string& problem : reader.problems()) {
        note(problem);
    }
    const std::vector<const SummaryRow*> rows = summary.rows();
    if (rows.empty()) {
        return false;
    }
    if (options.json) {
        for (const SummaryRow* row : rows) {
            write(json_of(summary, *row).dump() + "\n");
        }
        if (const auto throughput = summary.throughput()) {
            write(json_of(*throughput).dump() + "\n");
        }
        return true;
    }
    check_sort({kDurationColumns, kMetricColumns}, options.table);
    write_tables(summary, options, write);
    if (options.table.csv) {
        return true;
    }
    if (const std::vector<int> missing = missing_ranks(run, options.ranks); !missing.empty()) {
        write(fmt::format("no record of {}: the numbers are those of the others\n", ranks_text(missing)));
    }
    for (const std::string& seen : observing_texts(run)) {
        write(seen + "\n");
    }
    if (summary.overwritten_markers() != 0) {
        const std::string lost = many_counted(summary.overwritten_markers(), "marker") + " of older steps " +
                                 verb_form(summary.overwritten_markers(), "is", "are");
        write(summary.has_journal()
                  ? lost +
                        " in no journal: the ranks marked more than TITANTRACE_MARKERS between two looks, or it was "
                        "full\n"
                  : lost + " overwritten: TITANTRACE_MARKERS, or a journal, keeps more\n");
    }
    if (summary.summed_calls() != 0) {
        write(fmt::format(
            "{} {} on record as sums of {} step: median and p99 take each as long as the mean of its step\n",
            many_counted(summary.summed_calls(), "call"), verb_form(summary.summed_calls(), "is", "are"),
            verb_form(summary.summed_calls(), "its", "their")));
    }
    if (summary.flight_recorder_ranks() != 0) {
        write("Flight Recorder files hold only calls, and how long they take only with TORCH_NCCL_ENABLE_TIMING=1\n");
    }
    if (summary.names_left_out() != 0) {
        write(fmt::format("{} of names beyond the first 10,000 left out\n",
                          many_counted(summary.names_left_out(), "value")));
    }
    return true;
}

// --- goodput

namespace {

struct PartName {
    TimePart part;
    const char* heading;
    const char* key;
};
constexpr auto kPartNames = std::to_array<PartName>({
    {TimePart::kInitialization, "start", "initialization_ns"},
    {TimePart::kCompile, "compile", "compile_ns"},
    {TimePart::kCheckpoint, "checkpoints", "checkpoint_ns"},
    {TimePart::kData, "data", "data_ns"},
    {TimePart::kValidation, "validation", "validation_ns"},
    {TimePart::kTraining, "training", "training_ns"},
    {TimePart::kEnd, "end", "end_ns"},
    {TimePart::kNotOnRecord, "not on record", "not_on_record_ns"},
});
static_assert(kPartNames.size() == kTimeParts);

std::string time_cell(double ns) { return ns > 0 ? fine_duration_text(ns) : "-"; }

std::string steps_cell(const AttemptTimes& one) {
    return one.first_step == kNoStep ? "-" : fmt::format("{}-{}", one.first_step, one.newest_step);
}

std::string lost_cell(const AttemptTimes& one) {
    return one.lost_steps == 0 ? "-"
                               : fmt::format("{} ({})", fine_duration_text(one.lost_ns),
                                             counted(static_cast<uint64_t>(one.lost_steps), "step"));
}

void write_table(const std::vector<AttemptTimes>& attempts, const ListingOptions& table,
                 const std::function<void(const std::string&)>& write) {
    // A session may have several runs.
    const bool shows_runs =
        std::ranges::any_of(attempts, [&attempts](const AttemptTimes& one) { return one.run != attempts.front().run; });
    std::vector<ListColumn> columns = {
        {"attempt", 7, true}, {"ranks", 5, true}, {"began", 26}, {"steps", 8}, {"took", 7, true}};
    const bool shows_starts = std::ranges::any_of(attempts, [](const AttemptTimes& one) { return one.start != 0; });
    if (shows_starts) {
        columns.insert(columns.begin() + 1, {"start", 5, true});
    }
    if (shows_runs) {
        columns.insert(columns.begin(), {"run", 8});
    }
    std::vector<PartName> shown;  // parts that took time
    for (const PartName& part : kPartNames) {
        double all_ns = 0;
        for (const AttemptTimes& one : attempts) {
            all_ns += one.part_ns(part.part);
        }
        if (all_ns > 0) {
            shown.push_back(part);
            columns.push_back({part.heading, 7, true});
        }
    }
    columns.push_back({"done again", 10, true});
    columns.push_back({"pause", 0, true});
    std::vector<std::vector<std::string>> lines;
    for (const AttemptTimes& one : attempts) {
        std::vector<std::string> line = {std::to_string(one.attempt), std::to_string(one.ranks),
                                         date_text(one.began_ns), steps_cell(one), time_cell(one.took_ns())};
        if (shows_starts) {
            line.insert(line.begin() + 1, std::to_string(std::max(one.start, 1)));
        }
        if (shows_runs) {
            line.insert(line.begin(), one.run);
        }
        for (const PartName& part : shown) {
            line.push_back(time_cell(one.part_ns(part.part)));
        }
        line.push_back(lost_cell(one));
        line.push_back(time_cell(one.pause_ns));
        lines.push_back(std::move(line));
    }
    check_sort({columns}, table);
    write(listing_text(columns, std::move(lines), table));
}

Json json_of(const AttemptTimes& one) {
    const auto step_or_null = [](int64_t step) { return step == kNoStep ? Json(nullptr) : Json(step); };
    Json json;
    json["kind"] = "attempt";
    json["run"] = one.run;
    json["attempt"] = one.attempt;
    json["start"] = std::max(one.start, 1);
    json["ranks"] = one.ranks;
    json["began_realtime_ns"] = one.began_ns;
    json["ended_realtime_ns"] = one.ended_ns;
    json["first_step"] = step_or_null(one.first_step);
    json["newest_step"] = step_or_null(one.newest_step);
    json["took_ns"] = one.took_ns();
    for (const PartName& part : kPartNames) {
        json[part.key] = one.part_ns(part.part);
    }
    json["lost_ns"] = one.lost_ns;
    json["lost_steps"] = one.lost_steps;
    json["pause_ns"] = one.pause_ns;
    return json;
}

Json json_of(const Goodput& goodput, size_t attempts) {
    return {{"kind", "goodput"},
            {"share", goodput.marks_steps ? Json(goodput.share()) : Json(nullptr)},
            {"kept_ns", goodput.kept_ns},
            {"took_ns", goodput.all_ns},
            {"attempts", attempts}};
}

}  // namespace

Json goodput_json(const std::vector<AttemptTimes>& attempts) {
    Json json = mapped(attempts, [](const AttemptTimes& one) { return json_of(one); });
    json.push_back(json_of(goodput_of(attempts), attempts.size()));
    return json;
}

void report_goodput(const std::vector<AttemptTimes>& attempts, bool json, const ListingOptions& table,
                    const std::function<void(const std::string&)>& write) {
    if (!json) {
        const Goodput goodput = goodput_of(attempts);
        write_table(attempts, table, write);
        if (table.csv) {
            return;
        }
        if (!goodput.marks_steps) {
            write(fmt::format("\ngoodput unknown: the program marks no steps (titan_step, titantrace.step), of {}\n",
                              fine_duration_text(goodput.all_ns)));
            return;
        }
        write(fmt::format("\ngoodput {:.1f}%: {} of training that was not done again, of {}\n", 100 * goodput.share(),
                          fine_duration_text(goodput.kept_ns), fine_duration_text(goodput.all_ns)));
        return;
    }
    const Json rows = goodput_json(attempts);
    for (const Json& row : rows.items()) {
        write(row.dump() + "\n");
    }
}

}  // namespace titan::analyzer
