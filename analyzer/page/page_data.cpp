#include "page_data.h"

#include <map>

#include "diagnosis_document.h"
#include "document_json.h"
#include "evidence.h"
#include "goodput_report.h"
#include "host/words.h"
#include "late_ranks.h"
#include "page_sections.h"
#include "report_parts.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

Json run_json(const Run& run) {
    Json labels = Json::array();
    for (const auto& [key, value] : shared_labels(run)) {
        labels.push_back({{"name", key}, {"value", value}});
    }
    int64_t newest_ns = 0;
    for (const Process& process : run.processes) {
        newest_ns = std::max(newest_ns, newest_moment_ns(process));
    }
    return {{"id", run.id},
            {"attempt", run.attempt},
            {"world_size", run.world_size},
            {"ranks", run.ranks.size()},
            {"missing", rank_ranges(run.missing_ranks)},
            {"hosts", run.hosts.size()},
            {"newest_realtime_ns", newest_ns},
            {"labels", std::move(labels)}};
}

// In the order of the document's findings: what a link to one of them is made of, and what to filter by.
Json findings_json(const Diagnosis& diagnosis) {
    Json list = Json::array();
    for (const Finding& finding : diagnosis.findings) {
        list.push_back({{"kind", name_of(finding.kind)},
                        {"confidence", name_of(finding.confidence)},
                        {"ranks", rank_ranges(finding.ranks)},
                        {"victims", rank_ranges(finding.victims)},
                        {"hangs", finding.hangs},
                        {"meaning", row_of(finding.kind).meaning},
                        {"remedy", finding.remedy()}});
    }
    return list;
}

Json gaps_json(const Run& run, const Diagnosis& diagnosis, const std::vector<std::string>& problems) {
    Json list = Json::array();
    for (const Warning& warning : diagnosis.warnings) {
        list.push_back({{"kind", name_of(warning.kind)},
                        {"meaning", row_of(warning.kind).meaning},
                        {"ranks", rank_ranges(warning.ranks)},
                        {"text", warning.summary}});
    }
    for (const std::string& seen : observing_texts(run)) {
        list.push_back({{"kind", "budget"}, {"meaning", ""}, {"ranks", ""}, {"text", seen}});
    }
    for (const std::string& problem : problems) {
        list.push_back({{"kind", "journal"}, {"meaning", ""}, {"ranks", ""}, {"text", problem}});
    }
    return list;
}

Json goodput_section(const std::vector<AttemptTimes>& attempts) {
    return attempts.empty() ? nothing_because("no attempt has a record of titantrace") : goodput_json(attempts);
}

}  // namespace

Json page_data(const Run& run, const Diagnosis& diagnosis, const PageOptions& options) {
    // Records are opened once for all sections that read them.
    Symbols symbols(Symbols::Search::kNearby);
    RecordReader reader(run, symbols);
    SummaryOptions sums;
    sums.by_size = true;
    Summary summary(run, sums);
    StepMetrics metrics;
    AttemptReader times(run, nullptr);
    std::map<const Process*, ProcessStacks> stacks_of;
    reader.visit_all({}, [&](const ProcessRecords& records) {
        summary.add(records);
        if (records.process().source.is_flight_recorder) {
            return;  // calls alone
        }
        metrics.add(records);
        times.add(records);
        if (!records.process().source.is_journal) {
            stacks_of[&records.process()] = records.stacks();
        }
    });
    std::vector<ProcessStacks> stacks;
    for (const Process& process : run.processes) {
        const auto read = stacks_of.find(&process);
        stacks.push_back(read != stacks_of.end() ? std::move(read->second) : reader.stacks(process));
    }
    const std::vector<AttemptTimes> attempts = options.attempts(times.times());
    const Evidence evidence(run, options.diagnose);
    const auto [timing, slow] = slowness_of(run);

    Json json;
    json["schema"] = kPageSchema;
    json["version"] = options.version;
    json["run"] = run_json(run);
    json["document"] = document_json(run, advised_document(run, diagnosis, options.input));
    json["findings"] = findings_json(diagnosis);
    json["gaps"] = gaps_json(run, diagnosis, reader.problems());
    json["ranks"] = ranks_section(run);
    json["calls"] = calls_section(run);
    json["waits"] = waits_section(evidence);
    json["around"] = around_section(evidence, diagnosis.clocks, diagnosis.findings);
    json["lateness"] = lateness_section(timing, slow);
    json["durations"] = durations_section(summary);
    json["sizes"] = sizes_section(summary);
    json["steps"] = steps_section(run);
    json["metrics"] = metrics_section(metrics);
    json["stacks"] = stacks_section(stacks, symbols.problems());
    json["goodput"] = goodput_section(attempts);
    json["health"] = health_section(run);
    return json;
}

}  // namespace titan::analyzer
