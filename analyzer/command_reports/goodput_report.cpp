#include "goodput_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "host/json_value.h"
#include "host/listing.h"
#include "host/words.h"

namespace titan::analyzer {
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
    const bool shows_runs = std::any_of(attempts.begin(), attempts.end(), [&attempts](const AttemptTimes& one) {
        return one.run != attempts.front().run;
    });
    std::vector<ListColumn> columns = {
        {"attempt", 7, true}, {"ranks", 5, true}, {"began", 26}, {"steps", 8}, {"took", 7, true}};
    const bool shows_starts =
        std::any_of(attempts.begin(), attempts.end(), [](const AttemptTimes& one) { return one.start != 0; });
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
    Json json = Json::array();
    for (const AttemptTimes& one : attempts) {
        json.push_back(json_of(one));
    }
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
