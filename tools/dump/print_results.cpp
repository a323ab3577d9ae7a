// Prints the results of titan-dump.
#include <fmt/format.h>
#include <unistd.h>

#include "dump/dump_processes.h"
#include "formats/ring/ring_image.h"
#include "host/json_value.h"
#include "host/listing.h"
#include "host/words.h"
#include "node/proc.h"

namespace titan::tools {
namespace {

const char* how_text(How how) {
    switch (how) {
        case How::kAnswered: return "answered";
        case How::kOutside: return "outside";
        case How::kSavedBefore: return "saved_before";
        case How::kFailed: break;
    }
    return "failed";
}

Json identity_json(const NodeProcess& process) {
    return {{"pid", process.header.pid},
            {"rank", process.header.rank},
            {"run", process.run()},
            {"attempt", process.header.attempt},
            {"state", presence_text(process.presence)}};
}

std::string dumped(const Json& json) { return json.dump(2) + "\n"; }

}  // namespace

std::string outcome_text(const DumpOutcome& outcome) {
    const std::string who = outcome.process.text();
    std::string text;
    switch (outcome.how) {
        case How::kAnswered: break;
        case How::kOutside: text = fmt::format("{} {}: its dump was written from outside", who, outcome.why); break;
        case How::kSavedBefore:
            text = fmt::format("{} {}: another rank saved its ring when that was noticed", who, outcome.why);
            break;
        case How::kFailed: text = fmt::format("{} has no dump: it {}", who, outcome.why); break;
    }
    if (!outcome.threads.empty()) {
        text += "; " + outcome.threads;
    }
    if (!outcome.problem.empty()) {
        text += fmt::format("{}{}: {}", text.empty() ? who : "", text.empty() ? "" : "; not where it should be",
                            outcome.problem);
    }
    return text;
}

std::string result_json(const DumpResult& result) {
    Json json{{"schema", 1},
              {"dumps", Json::array()},
              {"other_nodes", Json::array()},
              {"unanswered_ranks", result.unanswered},
              {"problems", result.problems}};
    for (const auto& [rank, path] : result.other_answers) {
        json["other_nodes"].push_back({{"rank", rank}, {"path", path}});
    }
    for (const DumpOutcome& outcome : result.outcomes) {
        Json one = identity_json(outcome.process);
        one["how"] = how_text(outcome.how);
        one["path"] = outcome.path;
        one["why"] = outcome.why;
        one["threads"] = outcome.threads;
        one["problem"] = outcome.problem;
        json["dumps"].push_back(std::move(one));
    }
    return dumped(json);
}

std::string list_text(const NodeProcesses& found) {
    const bool all_users = ::geteuid() == 0;
    std::vector<ListColumn> columns{{"pid", 8, true},        {"process", 9},      {"rank", 6, true}, {"step", 10, true},
                                    {"heartbeat", 10, true}, {"run/attempt", 28}, {"program", 0}};
    if (all_users) {
        columns.insert(columns.end() - 1, {"user", 10});
    }
    std::vector<std::vector<std::string>> rows;
    for (const NodeProcess& process : found.processes) {
        const format::RingHeader& header = process.header;
        std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{
            std::to_string(header.pid), presence_text(process.presence),
            header.rank >= 0 ? std::to_string(header.rank) : "-", header.step >= 0 ? std::to_string(header.step) : "-",
            process.presence == Presence::kUnknown ? "-" : duration_text(process.heartbeat_age_ns),
            fmt::format("{}/{}", process.run(), header.attempt), printable(format::fixed_text(header.executable))});
        if (all_users) {
            row.insert(row.end() - 1, user_name(process.directory.owner));
        }
    }
    return listing_text(std::move(columns), std::move(rows));
}

std::string list_json(const NodeProcesses& found) {
    Json json{{"schema", 1}, {"processes", Json::array()}, {"problems", found.problems}};
    for (const NodeProcess& process : found.processes) {
        Json one = identity_json(process);
        one["world_size"] = process.header.world_size;
        one["step"] = process.header.step;
        one["heartbeat_age_ns"] = process.heartbeat_age_ns;
        one["answers"] = process.header.dump_answers == 1;
        one["user"] = user_name(process.directory.owner);
        one["program"] = printable(format::fixed_text(process.header.executable));
        one["ring"] = printable(process.ring_path());
        json["processes"].push_back(std::move(one));
    }
    return dumped(json);
}

}  // namespace titan::tools
