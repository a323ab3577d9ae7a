// Sections out of full records: durations, stacks; and the readings of the machine.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "health_faults.h"
#include "health_of.h"
#include "host/words.h"
#include "named_stacks.h"
#include "page_sections.h"
#include "summary_report.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostDurations = 200;
constexpr size_t kMostFrames = 6'000;  // of a tree

Json first_rows(const Summary& summary, std::vector<const SummaryRow*> rows, const char* why_none) {
    std::erase_if(rows, [](const SummaryRow* row) { return row->kind == PartKind::kMetric; });
    if (rows.empty()) {
        return nothing_because(why_none);
    }
    const size_t more = rows.size() - std::min(rows.size(), kMostDurations);
    rows.resize(rows.size() - more);
    Json list = Json::array();
    for (const SummaryRow* row : rows) {
        Json json = summary_row_json(summary, *row);
        json["up_to_bytes"] = row->up_to_bytes;
        list.push_back(std::move(json));
    }
    return {{"rows", std::move(list)}, {"more_rows", more}};
}

// Frames that nobody leaves are one node.
Json tree_json(const StackNode& start, size_t& left) {
    const StackNode* node = &start;
    Json frames = Json::array();
    frames.push_back(node->text);
    while (node->children.size() == 1 && node->ending == 0) {
        node = &node->children.front();
        frames.push_back(node->text);
    }
    left -= std::min(left, frames.items().size());
    Json children = Json::array();
    for (const StackNode& child : node->children) {
        if (left > 0) {
            children.push_back(tree_json(child, left));
        }
    }
    return {{"frames", std::move(frames)},
            {"ranks", rank_ranges({start.ranks.begin(), start.ranks.end()})},
            {"threads", start.threads},
            {"children", std::move(children)}};
}

Json tree_section(const std::vector<ProcessStacks>& all, bool all_threads) {
    const StackNode root = merge_stacks(all, all_threads);
    size_t left = kMostFrames;
    Json list = Json::array();
    for (const StackNode& child : root.children) {
        if (left > 0) {
            list.push_back(tree_json(child, left));
        }
    }
    return {{"roots", std::move(list)}, {"cut", left == 0}};
}

struct Reading {
    double value;
    int rank;
};

}  // namespace

Json durations_section(const Summary& summary) {
    return first_rows(summary, summary.rows(), "no step, span or call is on record from begin to end");
}

Json sizes_section(const Summary& summary) {
    return first_rows(summary, summary.rows_by_size(), "no collective is on record with its size");
}

Json stacks_section(const std::vector<ProcessStacks>& all, const std::vector<std::string>& problems) {
    const bool any = std::any_of(all.begin(), all.end(), [](const ProcessStacks& one) { return !one.threads.empty(); });
    std::map<std::string, std::vector<int>> ranks_of;
    for (const ProcessStacks& process : all) {
        for (const std::string& note : process.notes) {
            ranks_of[note].push_back(process.rank);
        }
    }
    Json notes = problems;
    for (const auto& [note, ranks] : ranks_of) {
        notes.push_back(ranks_text(ranks) + ": " + note);
    }
    if (!any) {
        Json json = nothing_because("no record has stacks");
        json["notes"] = std::move(notes);
        return json;
    }
    return {{"main_threads", tree_section(all, false)}, {"all_threads", tree_section(all, true)}, {"notes", notes}};
}

Json health_section(const Run& run) {
    std::map<std::pair<std::string, std::string>, std::vector<int>> faults;        // device and what: ranks
    std::map<std::pair<std::string, std::string>, std::vector<Reading>> readings;  // kind and what was read
    for (const Process& process : run.processes) {
        for (const Fault& fault : faults_of(process)) {
            faults[{fault.device.name() + " of " + process.host, fault.what}].push_back(process.rank);
        }
        for (const DeviceHealth& device : health_of(process)) {
            for (const auto& [what, reading] : device.readings) {
                readings[{device.kind, what}].push_back({plausible_reading(reading->value), process.rank});
            }
        }
    }
    if (readings.empty()) {
        return nothing_because("the machines were not read (TITANTRACE_HEALTH_S)");
    }
    Json fault_list = Json::array();
    for (auto& [key, ranks] : faults) {
        fault_list.push_back({{"device", key.first}, {"what", key.second}, {"ranks", rank_ranges(ranks)}});
    }
    Json list = Json::array();
    for (auto& [key, values] : readings) {
        std::stable_sort(values.begin(), values.end(),
                         [](const Reading& a, const Reading& b) { return a.value < b.value; });
        list.push_back({{"kind", key.first},
                        {"what", key.second},
                        {"readings", values.size()},
                        {"least", values.front().value},
                        {"least_rank", values.front().rank},
                        {"median", values[values.size() / 2].value},
                        {"most", values.back().value},
                        {"most_rank", values.back().rank}});
    }
    return {{"faults", std::move(fault_list)}, {"readings", std::move(list)}};
}

}  // namespace titan::analyzer
