// Diagnosis without any record, by witnesses alone; and what they say against findings of records.
#include "steps.h"

#include "host/words.h"
#include "torch_watchdog.h"
#include "unknowns.h"
#include "witnessed_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace titan::analyzer {
namespace {

using Ranks = std::set<int>;

std::vector<int> sorted(const Ranks& ranks) { return {ranks.begin(), ranks.end()}; }

// What the ranks say of one group.
struct GroupView {
    std::string group;
    std::map<int, const WatchdogReport*> of_rank;
    int64_t began_s = 0;  // when the first call that timed out was made, 0 unknown
    size_t timeouts = 0;
};

// Where the members of a group stand.
struct Standing {
    int64_t number = -1;  // of the newest call in which some wait; -1 where no log tells numbers
    std::string call;     // "BROADCAST #78 on default_pg"
    Ranks waiting;        // there
    Ranks behind;         // made no such call, as they say, or wait in an earlier one
    Ranks beyond;         // have it behind them
    Ranks silent;         // log no timeout
    std::map<std::string, Ranks> by_op;
};

Ranks known_ranks(const Run& run) {
    Ranks known;
    for (const Testimony& said : run.testimony) {
        if (said.rank >= 0) {
            known.insert(said.rank);
        }
    }
    return known;
}

// The group that a statement is about. Where the line that names it is cut off or was not written, the one in which the
// same call timed out elsewhere.
std::string group_of(const Run& run, const WatchdogReport& report) {
    if (!report.group.empty() || report.number < 0) {
        return report.group;
    }
    const auto same = std::ranges::find_if(run.testimony, [&](const Testimony& other) {
        return other.watchdog && !other.watchdog->group.empty() && other.watchdog->timed_out &&
               other.watchdog->number == report.number && other.watchdog->op == report.op;
    });
    return same == run.testimony.end() ? report.group : same->watchdog->group;
}

// The group of the call that has waited for longest: the others wait behind it.
std::optional<GroupView> first_group(const Run& run) {
    std::map<std::string, GroupView> groups;
    for (const Testimony& said : run.testimony) {
        if (said.rank < 0 || !said.watchdog) {
            continue;
        }
        const WatchdogReport& report = *said.watchdog;
        GroupView& view = groups[group_of(run, report)];
        view.group = group_of(run, report);
        const WatchdogReport*& known = view.of_rank[said.rank];
        known = known == nullptr || !known->timed_out ? &report : known;
        view.timeouts += report.timed_out ? 1 : 0;
        if (report.timed_out && said.wall_s != 0) {
            const int64_t began_s = said.wall_s - report.ran_ms / 1000;
            view.began_s = view.began_s == 0 ? began_s : std::min(view.began_s, began_s);
        }
    }
    constexpr int64_t kTogetherS = 2;
    const GroupView* best = nullptr;
    for (const auto& [name, view] : groups) {
        const bool earlier = best != nullptr && view.began_s + kTogetherS < best->began_s;
        const bool together = best != nullptr && view.began_s <= best->began_s + kTogetherS;
        if (view.timeouts != 0 && (best == nullptr || earlier || (together && view.timeouts > best->timeouts))) {
            best = &view;
        }
    }
    return best == nullptr ? std::nullopt : std::optional(*best);
}

Standing standing_in(const GroupView& view, const Ranks& known) {
    Standing standing;
    for (const auto& [rank, report] : view.of_rank) {
        if (report->timed_out && report->number > standing.number) {
            standing.number = report->number;
        }
    }
    for (const auto& [rank, report] : view.of_rank) {
        if (report->timed_out && report->number == standing.number) {
            standing.waiting.insert(rank);
            standing.by_op[report->op].insert(rank);
        } else if (report->timed_out || (report->counted && report->enqueued < standing.number)) {
            standing.behind.insert(rank);
        } else if (report->counted && report->completed >= standing.number) {
            standing.beyond.insert(rank);
        }
    }
    // Only ranks that mention another group are known to be its members.
    const int last = known.empty() ? -1 : *known.rbegin();
    for (int rank = 0; is_default_group(view.group) && rank <= last; ++rank) {
        if (!view.of_rank.contains(rank) || !(view.of_rank.at(rank)->timed_out || view.of_rank.at(rank)->counted)) {
            standing.silent.insert(rank);
        }
    }
    const std::string on = view.group.empty() ? "" : " on " + group_name(view.group);
    standing.call = standing.number < 0 ? "a call" + on
                                        : fmt::format("{} #{}{}", standing.by_op.begin()->first, standing.number, on);
    return standing;
}

// Operations that differ at one number: who is in the minority.
Finding disagreement(const Standing& standing) {
    Finding finding;
    finding.kind = FindingKind::kOpMismatch;
    size_t most = 0;
    Sentence calls;
    for (const auto& [op, ranks] : standing.by_op) {
        most = std::max(most, ranks.size());
        calls += phrase("{}{} in {} #{}", calls.empty() ? "" : ", ", ranks_fact(sorted(ranks)), op, standing.number);
    }
    for (const auto& [op, ranks] : standing.by_op) {
        if (ranks.size() < most) {
            finding.ranks.insert(finding.ranks.end(), ranks.begin(), ranks.end());
        }
    }
    finding.confidence = finding.ranks.empty() ? Confidence::kPossible : Confidence::kLikely;
    if (finding.ranks.empty()) {
        finding.ranks = sorted(standing.waiting);
    }
    std::ranges::sort(finding.ranks);
    finding.summary = phrase("the calls that timed out differ at one place: {}", calls);
    return finding;
}

// What the log of a rank that did not come says instead.
Sentence what_they_say(const GroupView& view, const Standing& standing, const Ranks& ranks) {
    for (const int rank : ranks) {
        const auto said = view.of_rank.find(rank);
        if (said != view.of_rank.end() && said->second->timed_out && ranks.size() == 1) {
            return phrase("{} waits in {} #{} and never called {}", rank_fact(rank), said->second->op,
                          said->second->number, standing.call);
        }
    }
    return phrase("{} never called {}", ranks_fact(sorted(ranks)), standing.call);
}

std::optional<Finding> absence(const GroupView& view, const Standing& standing, const Ranks& known) {
    Finding finding;
    finding.kind = FindingKind::kRankNotArrived;
    const Sentence waiting = ranks_fact(sorted(standing.waiting));
    const char* const wait = verb_form(standing.waiting.size(), "waits", "wait");
    if (!standing.behind.empty()) {
        finding.ranks = sorted(standing.behind);
        finding.confidence = standing.behind.size() <= standing.waiting.size() && standing.waiting.size() > 1
                                 ? Confidence::kLikely
                                 : Confidence::kPossible;
        finding.summary = phrase("{}, in which {} {}", what_they_say(view, standing, standing.behind), waiting, wait);
    } else if (!standing.silent.empty()) {
        const bool all_speak = std::ranges::includes(known, standing.silent);
        finding.ranks = sorted(standing.silent);
        finding.confidence =
            all_speak && standing.silent.size() < standing.waiting.size() ? Confidence::kLikely : Confidence::kPossible;
        finding.summary = phrase("{} [is the only rank that logs|are the only ranks that log] no timeout: {} {} in {}",
                                 ranks_fact(finding.ranks), waiting, wait, standing.call);
    } else if (!standing.beyond.empty()) {
        finding.ranks = sorted(standing.waiting);
        finding.confidence = Confidence::kPossible;
        finding.summary = phrase("{} {} in {}, which {} [has|have] behind them", waiting, wait, standing.call,
                                 ranks_fact(sorted(standing.beyond)));
    } else {
        return std::nullopt;
    }
    return finding;
}

// Nobody's call timed out: the watchdogs themselves, or some of them, stood still.
std::optional<Finding> stuck_watchdogs(const Run& run, const Ranks& known) {
    Ranks stuck;
    for (const Testimony& said : run.testimony) {
        if (said.rank >= 0 && said.watchdog && said.watchdog->stuck_s != 0) {
            stuck.insert(said.rank);
        }
    }
    if (stuck.empty() || stuck.size() == known.size()) {
        return std::nullopt;
    }
    Finding finding;
    finding.kind = FindingKind::kRankNotArrived;
    finding.ranks = sorted(stuck);
    finding.confidence = Confidence::kPossible;
    finding.summary = phrase(
        "the watchdog of {} got stuck: a call of CUDA or NCCL does not return there, or another "
        "thread holds the GIL",
        ranks_fact(finding.ranks));
    return finding;
}

void add_statements(const Run& run, const GroupView* view, Finding& finding) {
    constexpr size_t kShown = 12;
    size_t statements = 0;
    for (const bool of_culprits : {true, false}) {
        for (const Testimony& said : run.testimony) {
            const bool culprit = std::ranges::binary_search(finding.ranks, said.rank);
            const bool of_group = said.watchdog && view != nullptr && group_of(run, *said.watchdog) == view->group;
            if (said.rank >= 0 && culprit == of_culprits && (culprit || of_group) && statements++ < kShown) {
                finding.evidence.push_back(quoted(said));
            }
        }
    }
    if (statements > kShown) {
        finding.evidence.push_back(counted(statements - kShown, "more statement") + " of this kind");
    }
}

// The ranks that did not come to the call in which the others wait, as the logs of PyTorch's watchdogs have it. None:
// they tell of no such call, or all wait.
std::optional<Finding> find_by_watchdogs(const Run& run) {
    const Ranks known = known_ranks(run);
    const std::optional<GroupView> view = first_group(run);
    std::optional<Finding> finding;
    if (view) {
        const Standing standing = standing_in(*view, known);
        finding = standing.by_op.size() > 1 ? disagreement(standing) : absence(*view, standing, known);
        if (finding) {
            finding->victims = sorted(standing.waiting);
            std::erase_if(finding->victims, [&](int rank) { return std::ranges::binary_search(finding->ranks, rank); });
            finding->waiting = finding->victims;
        }
    } else {
        finding = stuck_watchdogs(run, known);
    }
    if (finding) {
        add_statements(run, view ? &*view : nullptr, *finding);
    }
    return finding;
}

constexpr size_t kShownStatements = 16;

template <typename Holds>
std::set<int> ranks_with(const Run& run, Holds&& holds) {
    std::set<int> ranks;
    for (const Testimony& said : run.testimony) {
        if (said.rank >= 0 && holds(said)) {
            ranks.insert(said.rank);
        }
    }
    return ranks;
}

// If all but one of the ranks that logged lost a peer: that one, or the one that never logged.
std::set<int> left_by_others(const Run& run) {
    const std::set<int> losers = ranks_with(run, [](const Testimony& said) { return said.lost_a_peer; });
    std::set<int> rest;
    for (int rank = 0; rank < run.world_size && rest.size() < 2; ++rank) {
        if (!losers.contains(rank)) {
            rest.insert(rank);
        }
    }
    return losers.empty() || rest.size() != 1 ? std::set<int>() : rest;
}

struct Suspects {
    std::set<int> ranks;
    std::string why;
    bool acted = false;  // `why` is a clause with a verb
    Confidence confidence = Confidence::kPossible;
};

// The best of what witnesses name.
Suspects suspects_of(const Run& run) {
    Suspects found;
    found.ranks = ranks_with(run, [](const Testimony& said) { return said.order == EndOrder::kFirst; });
    if (!found.ranks.empty()) {
        found.why = "ended first";
        found.acted = true;
        found.confidence = Confidence::kLikely;
        return found;
    }
    found.ranks = ranks_with(run, [](const Testimony& said) { return said.considered_dead; });
    if (!found.ranks.empty()) {
        found.why = "considered dead by NCCL's RAS";
        found.confidence = Confidence::kLikely;
        return found;
    }
    found.ranks = ranks_with(run, [](const Testimony& said) { return said.claim == Claim::kSilent; });
    if (!found.ranks.empty()) {
        found.why = "silent, as a witness says: dead, stopped or cut off";
        return found;
    }
    found.ranks = left_by_others(run);
    found.why = "perhaps dead: all other ranks log that a peer closed its connection";
    return found;
}

void add_without_records(Finding finding, Diagnosis& diagnosis) {
    finding.summary = phrase("{}; no dump and no ring is there to confirm it", finding.summary);
    finding.would_confirm.emplace_back(
        "dumps, or the rings of the ranks' nodes: what they did last, and who waits for whom");
    for (const auto* ranks : {&finding.ranks, &finding.victims}) {
        for (const int rank : *ranks) {
            finding.note_no_record(rank);
        }
    }
    diagnosis.findings.push_back(std::move(finding));
}

// One that left no record waited itself, as its log says.
void doubt_those_who_waited(const Run& run, std::vector<Finding>& findings) {
    for (const Testimony& said : run.testimony) {
        const bool waited =
            said.watchdog && said.watchdog->timed_out && std::ranges::binary_search(run.missing_ranks, said.rank);
        for (Finding& finding : findings) {
            if (waited && std::ranges::binary_search(finding.ranks, said.rank)) {
                depends_on<Unknown::kWaitedByItsLog>(finding, rank_fact(said.rank), said.text);
            }
        }
    }
}

}  // namespace

Diagnosis diagnose_by_witnesses(const Run& run) {
    Diagnosis diagnosis;
    diagnosis.warnings = run.warnings;
    const Suspects suspects = suspects_of(run);
    if (!suspects.acted) {
        if (std::optional<Finding> finding = find_by_watchdogs(run)) {
            add_without_records(std::move(*finding), diagnosis);
            return diagnosis;
        }
    }
    if (suspects.ranks.empty()) {
        diagnosis.cannot_tell = "no dump and no ring is there, and what witnesses say names no rank as the cause";
        for (size_t i = 0; i < std::min(kShownStatements, run.testimony.size()); ++i) {
            diagnosis.cannot_tell += "; " + quoted(run.testimony[i]);
        }
        if (run.testimony.size() > kShownStatements) {
            diagnosis.cannot_tell += "; " + counted(run.testimony.size() - kShownStatements, "more statement");
        }
        return diagnosis;
    }
    Finding finding;
    finding.kind = FindingKind::kRankDead;
    finding.ranks.assign(suspects.ranks.begin(), suspects.ranks.end());
    finding.confidence = suspects.confidence;
    finding.summary = phrase("{} {}{}", ranks_fact(finding.ranks),
                             suspects.acted ? "" : verb_form(finding.ranks.size(), "is ", "are "), suspects.why);
    size_t statements = 0;
    for (const Testimony& said : run.testimony) {
        const bool names_one = suspects.ranks.contains(said.rank);
        if ((names_one || said.lost_a_peer) && statements++ < kShownStatements) {
            finding.evidence.push_back(quoted(said));
        }
    }
    if (statements > kShownStatements) {
        finding.evidence.push_back(counted(statements - kShownStatements, "more statement") + " of this kind");
    }
    add_without_records(std::move(finding), diagnosis);
    return diagnosis;
}

void doubt_by_witnesses(const Run& run, std::vector<Finding>& findings) {
    doubt_those_who_waited(run, findings);
    for (const Testimony& said : run.testimony) {
        const auto process =
            std::ranges::find_if(run.processes, [&](const Process& one) { return one.rank == said.rank; });
        const bool seen = process != run.processes.end() && process->liveness == Liveness::kAlive;
        const bool named = std::ranges::any_of(findings, [&](const Finding& finding) {
            return std::ranges::find(finding.ranks, said.rank) != finding.ranks.end();
        });
        if (!said.considered_dead || said.rank < 0 || seen || named) {
            continue;
        }
        for (Finding& finding : findings) {
            if (finding.hangs) {
                finding.evidence.push_back(quoted(said));
                depends_on<Unknown::kDeadForRas>(finding, rank_fact(said.rank));
            }
        }
        return;
    }
}

}  // namespace titan::analyzer
