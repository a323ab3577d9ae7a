// Runs whose records are too few to tell what is wrong, or that nothing is.
#include "steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "ended_well.h"
#include "host/words.h"
#include "long_waits.h"
#include "refused_calls.h"

namespace titan::analyzer {
namespace {

// Nothing is known of most ranks, although they were to be recorded.
bool mostly_missing(const Run& run) { return !run.partial_recording && run.missing_ranks.size() > run.ranks.size(); }

// The only evidence against these ranks is that they left no record.
bool only_blames_the_missing(const Run& run, const Finding& finding) {
    return finding.confidence != Confidence::kCertain && !finding.ranks.empty() &&
           std::ranges::all_of(finding.ranks,
                               [&](int rank) { return std::ranges::binary_search(run.missing_ranks, rank); });
}

std::string too_few_text(const Run& run, const std::vector<Finding>& left_out) {
    std::string text = fmt::format("{} of {} ranks", run.ranks.size(), run.world_size);
    if (left_out.empty()) {
        return text + ": the records that exist show nothing wrong; about the other ranks nothing is known";
    }
    const std::vector<Sentence>& evidence = left_out.front().evidence;
    return text + (evidence.empty() ? std::string() : ": " + evidence.front().text()) +
           "; only the dumps of the others can show who is missing there";
}

template <typename Is>
std::vector<int> ranks_that(const Run& run, const Is& is) {
    std::vector<int> ranks;
    for (const Process& process : run.processes) {
        if (is(process)) {
            ranks.push_back(process.rank);
        }
    }
    sort_unique(ranks);
    return ranks;
}

// A watchdog called it a hang, and no call on record is the one that these ranks wait for.
std::string unknown_waits_text(const Run& run) {
    std::vector<int> ranks;
    int64_t longest_ns = 0;
    uint64_t overwritten = 0;
    for (const Process& process : run.processes) {
        const int64_t waited_ns = hangs_for_ns(run, process);
        if (waited_ns > 0) {
            ranks.push_back(process.rank);
            longest_ns = std::max(longest_ns, waited_ns);
            overwritten += process.overwritten;
        }
    }
    sort_unique(ranks);
    return ranks.empty() ? std::string()
                         : fmt::format("{} {} for the GPU for {}, and no call on record is what {} for{}",
                                       ranks_text(ranks), verb_form(ranks.size(), "waits", "wait"),
                                       duration_text(longest_ns), verb_form(ranks.size(), "it waits", "they wait"),
                                       overwritten == 0 ? "" : ": its entry may be overwritten");
}

// A watchdog called it a hang, and the ring has lost the call that did not end.
std::string lost_calls_text(const Run& run) {
    const std::vector<int> ranks = ranks_that(run, [](const Process& process) {
        return process.source.reason == format::DumpReason::kTimeout && process.overwritten != 0;
    });
    return ranks.empty() ? std::string()
                         : fmt::format(
                               "the watchdog of {} saw a call that did not end, and all calls on record have "
                               "ended: its entry may be overwritten (raise TITANTRACE_COLLECTIVES)",
                               ranks_text(ranks));
}

// Calls wait in files that seem to be older than what they hold: for how long, nothing tells.
std::string unknown_moments_text(const Run& run) {
    const std::vector<int> ranks = ranks_that(run, [](const Process& process) {
        return process.moment == Moment::kUnknown && std::ranges::any_of(process.entries, [](const Entry& entry) {
                   return entry.state == CallState::kPending || entry.state == CallState::kStarted;
               });
    });
    return ranks.empty() ? std::string()
                         : fmt::format(
                               "{} {} in calls, and for how long is unknown: by their times the files are older "
                               "than what they hold, so that a clock was set back, or the times are not theirs",
                               ranks_text(ranks), verb_form(ranks.size(), "waits", "wait"));
}

}  // namespace

void set_cannot_tell(const Run& run, Diagnosis& diagnosis) {
    std::vector<Finding>& findings = diagnosis.findings;
    if (mostly_missing(run)) {
        const auto rest = std::stable_partition(findings.begin(), findings.end(), [&](const Finding& finding) {
            return !only_blames_the_missing(run, finding);
        });
        const std::vector<Finding> left_out(rest, findings.end());
        findings.erase(rest, findings.end());
        diagnosis.cannot_tell = findings.empty() ? too_few_text(run, left_out) : std::string();
    }
    if (findings.empty() && diagnosis.cannot_tell.empty()) {
        diagnosis.cannot_tell = unknown_waits_text(run);
    }
    for (const auto text_of : {lost_calls_text, unknown_moments_text, unknown_ends_text}) {
        if (findings.empty() && diagnosis.waiting.empty() && diagnosis.cannot_tell.empty()) {
            diagnosis.cannot_tell = text_of(run);
        }
    }
    if (findings.empty() && diagnosis.waiting.empty() && diagnosis.cannot_tell.empty()) {
        for (const Refusal& refusal : refusals_of(run)) {
            diagnosis.cannot_tell +=
                fmt::format("{}{}, and {} {} nothing since: what came of it is not on record",
                            diagnosis.cannot_tell.empty() ? "" : "; ", refusal_fact(refusal).text(),
                            verb_form(refusal.ranks.size(), "it", "they"),
                            verb_form(refusal.ranks.size(), "has called", "have called"));
        }
    }
    if (findings.empty() && !run.end_unclear.empty()) {
        diagnosis.cannot_tell += (diagnosis.cannot_tell.empty() ? "" : "; ") + run.end_unclear;
    }
}

}  // namespace titan::analyzer
