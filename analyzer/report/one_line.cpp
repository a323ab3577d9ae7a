#include "report.h"

#include <fmt/format.h>

#include <set>

#include "evidence.h"
#include "host/words.h"
#include "report_parts.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostOfSummary = 400;
constexpr size_t kMostOfName = 80;
constexpr size_t kMostHosts = 4;

std::string run_name(const Run& run) {
    return run.id.empty() && run.processes.empty() ? std::string() : run_title(run, kMostOfName) + ": ";
}

// "; on node-3 (pid 4711)"; empty where the records do not tell.
std::string where_text(const Run& run, const std::vector<int>& ranks) {
    const RankIndex processes(run);
    std::set<std::string, NumbersByValue> hosts;
    const Process* only = nullptr;
    for (const int rank : ranks) {
        if (const Process* const process = processes[rank]) {
            only = ranks.size() == 1 ? process : nullptr;
            hosts.insert(process->host);
        }
    }
    hosts.erase("");
    if (hosts.empty()) {
        return {};
    }
    if (hosts.size() > kMostHosts) {
        return fmt::format("; on {} hosts", hosts.size());
    }
    std::string text;
    for (const std::string& host : hosts) {
        text += (text.empty() ? "; on " : ", ") + shortened(host, kMostOfName);
    }
    return text + (only != nullptr && only->pid != 0 ? fmt::format(" (pid {})", only->pid) : std::string());
}

std::string more_text(size_t all, std::string_view what) {
    return all > 1 ? fmt::format("; and {}", counted(all - 1, what)) : std::string();
}

std::string finding_text(const Run& run, const Diagnosis& diagnosis) {
    const Finding& head = diagnosis.findings.front();
    return fmt::format("{} ({}): {}{}{}{}", name_of(head.kind), name_of(head.confidence),
                       shortened(head.summary.text(), kMostOfSummary), where_text(run, head.ranks),
                       head.since_known() ? "; since " + date_text(head.since_ns) : std::string(),
                       more_text(diagnosis.findings.size(), "more finding"));
}

std::string healthy_text(const Run& run, const Diagnosis& diagnosis) {
    const std::string& slow = diagnosis.slow;
    if (!diagnosis.ended.empty()) {
        return diagnosis.ended + (slow.empty() ? "" : "; " + slow);
    }
    const int64_t step = newest_step(run);
    return fmt::format("nothing wrong: {} on record{}{}{}", recorded_ranks_text(run),
                       step < 0 ? std::string() : fmt::format(", newest step {}", step),
                       diagnosis.metrics.empty() ? std::string() : "; " + diagnosis.metrics,
                       slow.empty() ? std::string() : "; " + slow);
}

}  // namespace

std::string line_without_run(const Run& run, const Diagnosis& diagnosis) {
    std::string text;
    switch (outcome_of(diagnosis)) {
        case Outcome::kVerdict: text = finding_text(run, diagnosis); break;
        case Outcome::kCannotTell:
            text = "cannot tell: " + shortened(diagnosis.cannot_tell, kMostOfSummary) +
                   (diagnosis.slow.empty() ? "" : "; " + diagnosis.slow);
            break;
        case Outcome::kWaiting:
            text = "waiting, nothing is overdue yet: " +
                   shortened(diagnosis.waiting.front().summary.text(), kMostOfSummary) +
                   more_text(diagnosis.waiting.size(), "more wait");
            break;
        case Outcome::kNothingWrong: text = healthy_text(run, diagnosis); break;
    }
    return printable(text);
}

std::string one_line(const Run& run, const Diagnosis& diagnosis) {
    return printable(run_name(run)) + line_without_run(run, diagnosis);
}

}  // namespace titan::analyzer
