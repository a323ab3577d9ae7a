// Lateness, slow collectives and what else makes steps long, as findings.
#include "steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "bandwidth.h"
#include "ended_well.h"
#include "host/words.h"
#include "late_ranks.h"
#include "long_steps.h"
#include "overcommitted_hosts.h"
#include "pair_calls.h"
#include "replays.h"
#include "run_text.h"
#include "slow_causes.h"
#include "timing.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMaxFindings = 8;
constexpr double kStandsOut = 3;  // times what others are late by
constexpr size_t kSureHits = 16;
constexpr double kSureTimes = 3;              // as long as usual, and times what is known of moments
constexpr double kLeastLongerNs = 1'000'000;  // of calls that are surely slow

std::string time(double ns) { return fine_duration_text(ns); }

// "every other", "every 3rd", "every 12th".
std::string every_text(size_t every) { return every == 2 ? "every other" : "every " + ordinal(every); }

std::string key_text(const TimeAxis& axis, int64_t key) {
    return axis.steps ? fmt::format("step {}", key) : fmt::format("call #{}", key);
}

std::string pattern_text(const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis) {
    const LateShape& shape = rank.shape;
    const std::optional<int64_t> since = since_of(slow, rank, axis);
    const std::string first = key_text(axis, since.value_or(axis.keys[shape.first]));
    const bool from_start = !since;
    const bool to_end = shape.last + 3 >= axis.keys.size();
    const std::string unit = axis.steps ? "step" : "sampled call";
    switch (shape.pattern) {
        case LatePattern::kPersistent:
            return fmt::format("in {} {}{}", to_end && from_start ? "every" : "each", unit,
                               from_start && to_end ? " seen"
                               : to_end             ? " since " + first
                                        : fmt::format(" from {} to {}", first, key_text(axis, axis.keys[shape.last])));
        case LatePattern::kPeriodic: return fmt::format("in {} {} since {}", every_text(shape.every), unit, first);
        case LatePattern::kIrregular:
            return fmt::format("in {} of {} {}s, without a pattern, first in {}", shape.hits, axis.keys.size(), unit,
                               first);
        default: return fmt::format("once, in {}", first);
    }
}

// Ranks of one host that are late in the same way since the same time have one cause, unless they were played as two.
bool same_cause(const Run& run, const SlowCauses& slow, const RankTiming& a, const RankTiming& b) {
    const auto near = [](size_t x, size_t y) { return (x > y ? x - y : y - x) <= 2; };
    return a.shape.pattern == b.shape.pattern && a.axis == b.axis && near(a.shape.first, b.shape.first) &&
           a.shape.every == b.shape.every && run.processes[a.process].host == run.processes[b.process].host &&
           cause_of(slow, {a.rank}) == cause_of(slow, {b.rank});
}

// A record without some of a communicator's members may blame whom they held.
bool any_missing(const Run& run, const RankTiming& rank) {
    const std::vector<Member>& members = run.processes[rank.process].members;
    return std::ranges::any_of(members, [&](const Member& member) {
        const int known = member.communicator == kNoIndex
                              ? 1
                              : static_cast<int>(run.communicators[member.communicator].members.size());
        return !member.arrivals.empty() && known < member.size;
    });
}

// Takes the confidence of the weakest in the group, because they are said to have one cause.
void set_confidence(const Run& run, const std::vector<const RankTiming*>& group, Finding& finding) {
    const RankTiming& head = *group.front();
    const auto any = [&](auto&& holds) {
        return std::ranges::find_if(group, [&](const RankTiming* rank) { return holds(*rank); });
    };
    const auto stands_out = [](double times) {
        return [times](const RankTiming& rank) { return rank.shape.typical_ns <= times * rank.others_ns; };
    };
    finding.confidence = Confidence::kPossible;
    if (any(stands_out(1)) != group.end()) {
        finding.would_confirm.emplace_back("more recorded steps: others are late by as much at times");
    } else if (any(stands_out(kStandsOut)) != group.end() && any_missing(run, head)) {
        finding.would_confirm.emplace_back("the files of all ranks: one that is missing may be what holds it");
    } else if (!head.by_device) {
        finding.confidence = Confidence::kLikely;
        finding.would_confirm.emplace_back(
            "TITANTRACE_GPU_PROGRESS=timing in the next run: it records when GPUs arrive, and this verdict uses the "
            "hosts' times alone");
    } else if (head.shape.pattern != LatePattern::kPersistent || head.shape.hits < kSureHits ||
               head.shape.typical_ns <= 6 * head.noise_ns || any(stands_out(kStandsOut)) != group.end()) {
        finding.confidence = Confidence::kLikely;
        finding.would_confirm.emplace_back(
            "more recorded steps: the lateness is not constant, or small beside the noise");
    } else {
        finding.confidence = Confidence::kCertain;
    }
}

// What it costs, by the number that titan-analyze stragglers has for it.
Sentence cost_words(const SlowCauses& slow, const SlowCause* cause, const RankTiming& rank, const TimeAxis& axis) {
    if (cause != nullptr) {
        return phrase("{} ({:.0f}% of the step)", counterfactual_text(*cause), 100 * cause->share());
    }
    if (rank.shape.pattern == LatePattern::kOneOff) {
        const double share = axis.seen_ns() > 0 ? 100 * rank.shape.cost_ns / axis.seen_ns() : 0;
        return phrase("the others wait {} ({:.0f}% of the time seen)", time(rank.shape.cost_ns), share);
    }
    return phrase("it costs {} of each {} in the mean ({:.0f}%)", time(cost_ns(slow, rank, axis)),
                  axis.steps ? "step" : "sampled call", 100 * share_of(slow, rank, axis));
}

// The span that it spends longest in, unless the cause is in spans of another kind.
const std::string& slow_part_of(const SlowCause* cause, const RankTiming& rank) {
    const bool is_span = rank.slow_part.starts_with(kSpanPart);
    const bool is_its_part = cause == nullptr || !cause->host_part ||
                             (is_span && part_of(rank.slow_part.substr(kSpanPart.size())) == cause->host_part);
    return is_its_part ? rank.slow_part : cause->slow_part;
}

Finding straggler(const Run& run, const Timing& timing, const SlowCauses& slow,
                  const std::vector<const RankTiming*>& group) {
    const RankTiming& head = *group.front();
    const TimeAxis& axis = timing.axes[head.axis];
    const Communicator& communicator = run.communicators[head.communicator];
    Finding finding;
    finding.kind = FindingKind::kStraggler;
    finding.hangs = false;
    finding.communicator = head.communicator;
    finding.op = op_text(head.op);
    finding.since_ns = static_cast<int64_t>(axis.when_ns[head.shape.first]);
    for (const RankTiming* rank : group) {
        finding.ranks.push_back(rank->rank);
    }
    std::ranges::sort(finding.ranks);
    const SlowCause* const cause = cause_of(slow, finding.ranks);
    if (cause != nullptr && cause->of_class == CauseClass::kSlowHost) {
        finding.ranks = cause->ranks;  // others of the host wait for the latest of them
    }
    for (const MemberRef ref : communicator.members) {
        const int rank = run.member(ref).global_rank;
        if (rank >= 0 && !std::ranges::binary_search(finding.ranks, rank)) {
            finding.victims.push_back(rank);
        }
    }
    set_confidence(run, group, finding);
    finding.next = cause == nullptr ? std::string_view() : next_step(*cause);
    finding.cost_share = share_of(slow, head, axis);
    finding.summary =
        phrase("{} {} {}: {}", ranks_fact(finding.ranks), finding.ranks.size() > 1 ? "are late" : "is late",
               pattern_text(slow, head, axis), cost_words(slow, cause, head, axis));
    if (const std::string& slow_part = slow_part_of(cause, head); !slow_part.empty()) {
        finding.summary += "; the slow part is " + slow_part;
    }
    const bool by_durations = !run.processes[head.process].sees.moments;
    finding.evidence.push_back(phrase("{} on {}: {} {} its peers; {} were compared", op_text(head.op),
                                      communicator_text(communicator), rank_fact(head.rank),
                                      by_durations ? "waits less than" : "comes after",
                                      by_durations ? counted(head.compared_calls, "stretch") + " of calls"
                                                   : counted(head.compared_calls, "sampled call")));
    if (cause != nullptr) {
        finding.evidence.push_back(what_text(*cause));
        finding.evidence.insert(finding.evidence.end(), cause->evidence.begin(), cause->evidence.end());
    } else if (!head.calls.empty()) {
        finding.evidence.emplace_back(head.calls);
    }
    finding.evidence.push_back("time that it was held in other collectives by other ranks is left out");
    finding.evidence.insert(finding.evidence.end(), head.why.begin(), head.why.end());
    if (finding.ranks.size() > 1) {
        finding.evidence.push_back(phrase("all of them are on host {}", run.processes[head.process].host));
    }
    finding.evidence.push_back(
        by_durations ? "how long each call took on each GPU is recorded: the rank that arrives last waits least"
        : head.by_device
            ? phrase("arrival is when the GPU comes to the collective, known to {}", time(head.noise_ns))
            : "arrival is when the host makes the call: GPU times are not recorded; with them this would be certain");
    weigh_processors(run, finding);
    if (const std::string clocks = timing.clocks.summary(); !clocks.empty()) {
        finding.evidence.push_back(clocks);
    }
    return finding;
}

std::string rate(double bytes_per_s) { return fmt::format("{:.1f} GB/s", bytes_per_s * 1e-9); }

std::string since_words(const SlowCauses& slow, const SlowCause& cause) {
    const std::string since = since_text(slow, cause);
    return since.empty() ? since : " " + since;
}

std::string size_text(uint64_t bytes) {
    return bytes >= 1U << 20   ? fmt::format("{} MiB", bytes >> 20)
           : bytes >= 1U << 10 ? fmt::format("{} KiB", bytes >> 10)
                               : fmt::format("{} bytes", bytes);
}

// It is sure if the calls take far longer than moments are known to.
void tell_slow_calls(const Run& run, const Timing& timing, const SlowCauses& slow, const SlowCause& cause,
                     Finding& finding) {
    const SlowCalls& calls = *cause.calls;
    finding.kind = FindingKind::kSlowCollective;
    finding.communicator = calls.communicators.front();
    finding.op = op_text(calls.op);
    const double longer_ns = calls.taken_ns - calls.usual_ns;
    const double known_ns = std::max(kLeastLongerNs, kSureTimes * timing.clocks.largest_bound_ns());
    if (calls.taken_ns > kSureTimes * calls.usual_ns && longer_ns > known_ns &&
        finding.confidence == Confidence::kLikely) {
        finding.confidence = Confidence::kCertain;
        finding.would_confirm.clear();
    }
    std::set<std::string> names;
    for (const uint32_t c : calls.communicators) {
        names.insert(communicator_text(run.communicators[c]));
    }
    std::string where;
    for (const std::string& name : names) {
        where += where.empty() ? name : names.size() > 4 ? "" : ", " + name;
    }
    where += names.size() > 4 ? " and others" : "";
    const double moved_bytes = bus_bytes(calls.op, calls.bytes, calls.members);
    finding.summary = phrase("{} of up to {} on {} ({}) takes {} instead of {}{}: {} of bus bandwidth instead of {}",
                             op_text(calls.op), size_text(calls.bytes), where, ranks_fact(finding.ranks),
                             time(calls.taken_ns), time(calls.usual_ns), since_words(slow, cause),
                             rate(moved_bytes / (calls.taken_ns * 1e-9)), rate(moved_bytes / (calls.usual_ns * 1e-9)));
    if (cause.hosts.size() == 1) {
        finding.summary += phrase("; host {} is in all of them", cause.hosts.front());
    } else if (cause.hosts.size() == 2) {
        finding.summary +=
            phrase("; suspect the link between hosts {} and {}", cause.hosts.front(), cause.hosts.back());
    } else if (cause.hosts.size() > 2) {
        finding.evidence.push_back(
            phrase("{} hosts are in all slow communicators, and in no fast one together", cause.hosts.size()));
    }
    finding.evidence.push_back(phrase("{} calls were compared; {}", calls.count, counterfactual_text(cause)));
}

// What the replay finds, and no rank that is late explains.
Finding slow_step(const Run& run, const Timing& timing, const SlowCauses& slow, const SlowCause& cause) {
    Finding finding;
    finding.kind = FindingKind::kSlowStep;
    finding.hangs = false;
    finding.ranks = cause.ranks;
    finding.next = next_step(cause);
    finding.cost_share = cause.share();
    finding.confidence = Confidence::kLikely;
    doubt<Unknown::kSlowRecords>(finding, !slow.missing.empty());
    if (finding.confidence == Confidence::kLikely) {
        finding.would_confirm.emplace_back("a run without that: this is a replay of what was recorded");
    }
    finding.summary = phrase("{}{}: {} ({:.0f}% of the step)", what_text(cause), since_words(slow, cause),
                             counterfactual_text(cause), 100 * cause.share());
    if (cause.calls) {
        tell_slow_calls(run, timing, slow, cause, finding);
    }
    finding.evidence.insert(finding.evidence.end(), cause.evidence.begin(), cause.evidence.end());
    for (const std::string& missing : slow.missing) {
        finding.evidence.emplace_back(missing);
    }
    weigh_processors(run, finding);
    if (const std::string clocks = timing.clocks.summary(); !clocks.empty()) {
        finding.evidence.push_back(clocks);
    }
    return finding;
}

bool costs_more(const Finding& a, const Finding& b) {
    const bool a_possible = a.confidence == Confidence::kPossible;
    const bool b_possible = b.confidence == Confidence::kPossible;
    return a_possible != b_possible ? b_possible : a.cost_share > b.cost_share;
}

bool is_told(const SlowCauses& slow, const SlowCause& cause, const std::vector<Finding>& findings) {
    return std::ranges::any_of(findings, [&](const Finding& finding) {
        return finding.kind == FindingKind::kStraggler && cause_of(slow, finding.ranks) == &cause;
    });
}

void add_slow_steps(const Run& run, const Timing& timing, const SlowCauses& slow, double least_share,
                    Diagnosis& diagnosis) {
    // A job that ended well, and whose waits are inferred, has nothing wrong: what was slow in it is told.
    const bool only_told = slow.by_spans && ended_well(run);
    for (const SlowCause& cause : slow.causes) {
        const double share = cause.share();
        const std::optional<std::string> processors = explained_by_processors(run, cause.ranks, share);
        if ((only_told || cause.others_idle) && share >= least_share) {
            diagnosis.slow += fmt::format("{}{} of each step: {}", diagnosis.slow.empty() ? "" : "; ",
                                          fine_duration_text(cause.cost_ns), what_text(cause));
        } else if (share >= least_share && !processors) {
            if (!is_told(slow, cause, diagnosis.findings)) {
                diagnosis.findings.push_back(slow_step(run, timing, slow, cause));
            }
        } else if (diagnosis.slow.empty()) {
            diagnosis.slow = fmt::format("{:.1f}% of a step: {}{}", 100 * share, what_text(cause),
                                         processors ? "; " + *processors : " (titan-analyze stragglers shows more)");
        }
    }
    if (!diagnosis.findings.empty()) {
        diagnosis.slow.clear();
    } else if (diagnosis.slow.empty()) {
        diagnosis.slow = long_steps_text(timing.axes.front());
        const PairCalls calls = count_pair_calls(run);
        if (diagnosis.slow.empty() && calls.nearly_alone()) {
            diagnosis.slow = unseen_in_pairs_text(calls);
        }
        if (diagnosis.slow.empty()) {
            diagnosis.slow = unseen_in_calls_text(slow);
        }
    }
}

}  // namespace

std::vector<Warning> add_timing_findings(const Run& run, Timing& timing, const DiagnoseOptions& options,
                                         Diagnosis& diagnosis) {
    std::vector<Finding>& findings = diagnosis.findings;
    const size_t before = findings.size();
    const bool hangs = any_hangs(findings);
    const SlowCauses slow = hangs && !any_late(timing) ? SlowCauses() : slow_causes(run, timing);
    diagnosis.step_ns = slow.step_ns;
    forget_lateness_without_cost(slow, timing);
    std::vector<const RankTiming*> late;
    for (const RankTiming& rank : timing.ranks) {
        if (rank.shape.pattern != LatePattern::kNone) {
            late.push_back(&rank);
        }
    }
    std::ranges::stable_sort(late, [](const auto* a, const auto* b) { return a->shape.cost_ns > b->shape.cost_ns; });
    std::vector<std::vector<const RankTiming*>> groups;
    for (const RankTiming* rank : late) {
        const auto found = std::ranges::find_if(
            groups, [&](const auto& group) { return same_cause(run, slow, *group.front(), *rank); });
        found == groups.end() ? groups.push_back({rank}) : found->push_back(rank);
    }
    std::erase_if(groups, [&](const auto& group) {
        const SlowCause* const cause = cause_of(slow, {group.front()->rank});
        return cause != nullptr && cause->others_idle;
    });
    std::vector<Warning> left_out;
    const size_t shown = std::min(groups.size(), kMaxFindings);
    if (shown < groups.size()) {
        std::vector<int> ranks;
        for (size_t i = shown; i < groups.size(); ++i) {
            for (const RankTiming* rank : groups[i]) {
                ranks.push_back(rank->rank);
            }
        }
        left_out.push_back(
            {WarningKind::kMoreFindings, ranks,
             fmt::format("stragglers that cost less are not listed: {} (titan-analyze stragglers has them)",
                         ranks_text(ranks))});
    }
    groups.resize(shown);
    for (const auto& group : groups) {
        findings.push_back(straggler(run, timing, slow, group));
    }
    if (!hangs) {
        add_slow_steps(run, timing, slow, options.slow_share, diagnosis);
    }
    std::stable_sort(findings.begin() + static_cast<std::ptrdiff_t>(before), findings.end(), costs_more);
    return left_out;
}

}  // namespace titan::analyzer
