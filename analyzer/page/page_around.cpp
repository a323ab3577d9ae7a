// The newest calls of each rank on one clock: how they went into the hang.
#include <algorithm>
#include <map>

#include "call_order.h"
#include "host/words.h"
#include "page_sections.h"
#include "run_text.h"

namespace titan::analyzer {
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
    if (std::all_of(run.processes.begin(), run.processes.end(),
                    [](const Process& process) { return process.entries.empty(); })) {
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
