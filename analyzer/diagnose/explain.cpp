#include "analyzer/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/graph_calls.h"
#include "analyzer/layout.h"
#include "analyzer/match.h"
#include "analyzer/rank_state.h"
#include "analyzer/text.h"

namespace titan::analyzer {
namespace {

const char* verb(size_t count, const char* one, const char* many) { return count == 1 ? one : many; }

std::string member_text(const Run& run, const WaitNode& node, int comm_rank) {
    const Communicator& communicator = run.communicators[node.communicator];
    const int global = run.global_rank(communicator, comm_rank);
    return global >= 0 ? fmt::format("rank {}", global) : fmt::format("communicator rank {}", comm_rank);
}

std::string waiters_clause(const Run& run, const WaitNode& node) {
    const std::vector<int> ranks = waiting_ranks(run, node);
    return ranks.empty() ? std::string()
                         : fmt::format("; {} {} for {}", ranks_text(run, ranks), verb(ranks.size(), "waits", "wait"),
                                       duration_text(longest_wait_ns(node)));
}

bool is_dead(const Run& run, const Absence& absence) {
    return absence.member.known() && run.processes[absence.member.process].died();
}

std::string death_text(const Run& run, const Absence& absence) {
    const Process& process = run.processes[absence.member.process];
    if (process.liveness != Liveness::kCrashed) {
        return "dead";
    }
    return process.fatal_signal != 0 ? "dead (crashed with " + signal_text(process.fatal_signal) + ")"
                                     : "dead (crashed)";
}

// "replay 12 of graph 2, which holds all_reduce #48 on world (3rd of 6 collectives in it)", where graph launches ran it.
std::string replay_of(const Run& run, const WaitNode& node) {
    for (const Waiter& waiter : node.waiting) {
        if (waiter.entry != nullptr) {
            return replay_that_holds(run.process(waiter.member), *waiter.entry, node_text(run, node));
        }
    }
    return {};
}

// When the newest record of those who wait ends.
int64_t latest_end_ns(const WaitNode& node) {
    int64_t latest_ns = 0;
    for (const Waiter& waiter : node.waiting) {
        latest_ns = std::max(latest_ns, waiter.since_ns + waiter.age_ns);
    }
    return latest_ns;
}

// "never issued all_reduce #41 on dp:0", after the name of the ranks.
std::string what_is_missing(const Run& run, const WaitNode& node, const Absence& absence, size_t count) {
    const std::string call = node_text(run, node);
    const std::string replay = replay_of(run, node);
    const std::string what = replay.empty() ? call : replay + ",";
    const Process* process = absence.member.known() ? &run.processes[absence.member.process] : nullptr;
    switch (absence.moved_on && absence.reason == AbsenceReason::kQueued ? AbsenceReason::kNotIssued : absence.reason) {
        case AbsenceReason::kGrouped:
            return fmt::format("called {} inside a group that {} never ended", call, verb(count, "it", "they"));
        case AbsenceReason::kQueued:
            return fmt::format("issued {}, but {} GPU never came to it", call, verb(count, "its", "their"));
        case AbsenceReason::kFailed: return fmt::format("got an error from {}", call);
        case AbsenceReason::kClosed: return fmt::format("closed the communicator without {}", call);
        case AbsenceReason::kLeft:
            return fmt::format("issued {}, but {} file was written {} before the others': {} may have left since", call,
                               verb(count, "its", "their"), duration_text(latest_end_ns(node) - process->now_ns),
                               verb(count, "it", "they"));
        default: break;
    }
    const bool arrived = std::any_of(node.waiting.begin(), node.waiting.end(),
                                     [&](const Waiter& waiter) { return waiter.member == absence.member; });
    if (arrived) {
        return fmt::format("ended while {} was in flight", call);
    }
    if (process != nullptr && process->liveness == Liveness::kExited) {
        return fmt::format("exited without issuing {}: {} has ended", call,
                           verb(count, "its process", "their processes"));
    }
    if (absence.moved_on) {
        const Entry& last = process->entries.back();
        const bool same_step = std::any_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
            return waiter.entry != nullptr && waiter.entry->step >= last.step;
        });
        const uint32_t communicator = last.row == kNoIndex ? kNoIndex : process->members[last.row].communicator;
        return same_step && communicator != kNoIndex
                   ? fmt::format("skipped {} and went on to {}", what,
                                 call_text(run.communicators[communicator], last.kind, last.sequence))
                   : fmt::format("skipped {} and went on to step {}", what, last.step);
    }
    if (node.kind == WaitKind::kCreation) {
        return fmt::format("never entered {}", call);
    }
    if (!replay.empty()) {
        return fmt::format("never launched {}", replay);
    }
    if (node.kind == WaitKind::kPointToPoint) {
        const bool misses_receive = absence.comm_rank == node.target;
        return misses_receive ? fmt::format("never posted the receive for {}", call)
                              : fmt::format("never posted the send for {}", call);
    }
    return fmt::format("never issued {}", call);
}

std::string dead_summary(const Run& run, const Culprits& culprits) {
    const Absence& first = culprits.absences.front();
    const size_t count = culprits.absences.size();
    const std::string who = absent_text(culprits.absences) + " " + verb(count, "is ", "are ") + death_text(run, first);
    const bool arrived = std::any_of(culprits.node->waiting.begin(), culprits.node->waiting.end(),
                                     [&](const Waiter& waiter) { return waiter.member == first.member; });
    return arrived ? fmt::format("{}: {} process ended inside {}", who, verb(count, "its", "their"),
                                 node_text(run, *culprits.node))
                   : fmt::format("{} and {}", who, what_is_missing(run, *culprits.node, first, count));
}

std::string unknown_summary(const Run& run, const Culprits& culprits) {
    const size_t count = culprits.absences.size();
    if (const Absence& first = culprits.absences.front(); first.member.known()) {
        return fmt::format("{} had not issued {} when {} record ended, {} before the others', and may have left since",
                           absent_text(culprits.absences), node_text(run, *culprits.node), verb(count, "its", "their"),
                           duration_text(latest_end_ns(*culprits.node) - run.processes[first.member.process].now_ns));
    }
    return fmt::format("{} left no dump and may be missing in {}: all the other members arrived",
                       absent_text(culprits.absences), node_text(run, *culprits.node)) +
           (count == 1 ? "; it may be dead" : "; they may be dead");
}

void add_position_evidence(const Run& run, const WaitNode& node, const Absence& absence, Finding& finding) {
    if (absence.member.row == kNoIndex || !absence.member.known() || node.kind != WaitKind::kCollective) {
        return;
    }
    const Process& process = run.processes[absence.member.process];
    const Member& member = process.members[absence.member.row];
    if (absence.reason == AbsenceReason::kFailed) {
        const Entry* entry = process.call_at(member, node.sequence);
        finding.evidence.push_back(fmt::format("rank {}: the call returned ncclResult_t {}", absence.global_rank,
                                               entry != nullptr ? entry->result : -1));
        return;
    }
    std::string text = fmt::format("rank {} has issued {} collectives on {}", absence.global_rank,
                                   grouped_digits(member.issued - (process.only_calls && member.issued != 0 ? 1 : 0)),
                                   communicator_text(run.communicators[node.communicator]));
    if (!member.calls.empty()) {
        const Entry& last = process.entries[member.calls.back()];
        text += fmt::format(", the last is {} #{}, {} before its dump{}", op_text(last.kind), last.sequence,
                            duration_text(process.now_ns - last.entered_ns), site_text(process, last));
    }
    if (member.issued <= node.sequence) {
        const uint64_t behind = node.sequence + 1 - member.issued;
        text +=
            behind == 1 ? ": it is one call behind" : fmt::format(": it is {} calls behind", grouped_digits(behind));
    }
    finding.evidence.push_back(text);
    const std::string shift = shift_by_step_text(run, node.communicator, absence.member);
    if (!shift.empty()) {
        finding.evidence.push_back(shift);
    }
}

// The step that most members see at one sequence number, and whether all of them but `suspect` agree.
struct StepVote {
    int32_t others = -1;
    int32_t suspect = -1;
};

StepVote steps_at(const Run& run, const std::vector<MemberRef>& others, MemberRef suspect, uint64_t sequence) {
    StepVote vote;
    vote.suspect = step_at(run.process(suspect), run.member(suspect), sequence);
    for (const MemberRef ref : others) {
        const int32_t step = step_at(run.process(ref), run.member(ref), sequence);
        if (step >= 0 && vote.others != -1 && vote.others != step) {
            vote.others = -2;  // the others do not agree: steps say nothing here
            break;
        }
        vote.others = step >= 0 ? step : vote.others;
    }
    return vote;
}

// Members that are asked for their steps: all, or as many spread over a large communicator.
std::vector<MemberRef> step_voters(const Communicator& communicator, MemberRef suspect) {
    constexpr size_t kVoters = 64;
    std::vector<MemberRef> voters;
    const size_t stride = std::max<size_t>(1, communicator.members.size() / kVoters);
    for (size_t i = 0; i < communicator.members.size(); i += stride) {
        if (!(communicator.members[i] == suspect)) {
            voters.push_back(communicator.members[i]);
        }
    }
    return voters;
}

}  // namespace

std::string absent_text(const std::vector<Absence>& absences) {
    std::vector<int> global;
    std::vector<int> comm_ranks;
    for (const Absence& absence : absences) {
        (absence.global_rank >= 0 ? global : comm_ranks)
            .push_back(absence.global_rank >= 0 ? absence.global_rank : absence.comm_rank);
    }
    std::string text = global.empty() ? "" : ranks_text(global);
    if (!comm_ranks.empty()) {
        text += (text.empty() ? "" : " and ") +
                fmt::format("communicator rank{} {}", comm_ranks.size() == 1 ? "" : "s", rank_ranges(comm_ranks));
    }
    return text;
}

std::vector<int> waiting_ranks(const Run& run, const WaitNode& node) {
    std::vector<int> ranks;
    for (const Waiter& waiter : node.waiting) {
        if (!run.process(waiter.member).is_gone()) {
            ranks.push_back(run.member(waiter.member).global_rank);
        }
    }
    sort_unique(ranks);
    return ranks;
}

int64_t longest_wait_ns(const WaitNode& node) {
    int64_t longest = 0;
    for (const Waiter& waiter : node.waiting) {
        longest = std::max(longest, waiter.age_ns);
    }
    return longest;
}

std::string node_text(const Run& run, const WaitNode& node) {
    const Communicator& communicator = run.communicators[node.communicator];
    switch (node.kind) {
        case WaitKind::kCollective: return call_text(communicator, node.op, node.sequence);
        case WaitKind::kPointToPoint:
            return fmt::format("{} #{} from {} to {} on {}", op_text(node.op), node.sequence,
                               member_text(run, node, node.source), member_text(run, node, node.target),
                               communicator_text(communicator));
        case WaitKind::kCreation: break;
    }
    return node.sequence == kNoSequence
               ? fmt::format("the creation of {} ({} ranks)", communicator_text(communicator), communicator.size)
               : fmt::format("{} number {} of {}", op_text(node.op), node.sequence, communicator_text(communicator));
}

std::string waiting_text(const Run& run, const WaitNode& node) {
    const std::vector<int> ranks = waiting_ranks(run, node);
    if (ranks.empty()) {
        return {};
    }
    const auto alive = std::find_if(node.waiting.begin(), node.waiting.end(),
                                    [&](const Waiter& waiter) { return waiter.entry != nullptr; });
    const Entry* entry = alive == node.waiting.end() ? nullptr : alive->entry;
    const std::string arguments =
        entry == nullptr ? std::string()
                         : " (" + arguments_text(*entry) + site_text(run.process(alive->member), *entry) + ")";
    return fmt::format("{} {} in {}{}, {}{}", ranks_text(run, ranks), verb(ranks.size(), "waits", "wait"),
                       node_text(run, node), arguments, ranks.size() == 1 ? "for " : "the longest for ",
                       duration_text(longest_wait_ns(node)));
}

std::string shift_by_step_text(const Run& run, uint32_t index, MemberRef suspect) {
    const std::vector<MemberRef> voters = step_voters(run.communicators[index], suspect);
    // Shifted by one call, steps differ only around the step's ends: at every one of them, and always the same way.
    std::string text;
    bool ahead = false;
    size_t differences = 0;
    size_t ends = 0;
    int32_t previous = -1;
    const Past& past = run.member(suspect).past;
    for (size_t i = 0; i < past.size(); ++i) {
        const uint64_t sequence = past.sequence(i);
        const StepVote vote = steps_at(run, voters, suspect, sequence);
        if (vote.suspect < 0 || vote.others < 0) {
            continue;
        }
        ends += !text.empty() && vote.others != previous ? 1 : 0;
        previous = vote.others;
        if (vote.suspect == vote.others) {
            continue;
        }
        ++differences;
        if (!text.empty() && ahead != (vote.suspect > vote.others)) {
            return {};
        }
        if (text.empty()) {
            ahead = vote.suspect > vote.others;
            text = fmt::format(
                "from #{} on its calls belong to {} steps than the others' (step {} against {}): it {} in step {}",
                sequence, ahead ? "later" : "earlier", vote.suspect, vote.others,
                ahead ? "skipped a call" : "made an extra call", std::min(vote.suspect, vote.others));
        }
    }
    return text.empty() || differences < ends ? std::string()
                                              : fmt::format("rank {}: {}", run.member(suspect).global_rank, text);
}

void explain_absence(const Run& run, const Culprits& culprits, Finding& finding) {
    const WaitNode& node = *culprits.node;
    const Absence& first = culprits.absences.front();
    const bool unknown = first.reason == AbsenceReason::kUnknown;
    if (is_dead(run, first)) {
        finding.summary = dead_summary(run, culprits) + waiters_clause(run, node);
    } else if (unknown) {
        finding.summary = unknown_summary(run, culprits) + waiters_clause(run, node);
    } else {
        finding.summary = fmt::format("{} {}", absent_text(culprits.absences),
                                      what_is_missing(run, node, first, culprits.absences.size())) +
                          waiters_clause(run, node);
    }
    if (const std::string waiting = waiting_text(run, node); !waiting.empty()) {
        finding.evidence.push_back(waiting);
    }
    constexpr size_t kShown = 4;
    for (size_t i = 0; i < std::min(kShown, culprits.absences.size()); ++i) {
        add_position_evidence(run, node, culprits.absences[i], finding);
        add_replay_evidence(run, node, culprits.absences[i], finding);
    }
    if (unknown && !first.member.known()) {
        finding.evidence.emplace_back("nothing was recorded that could be read for " + absent_text(culprits.absences) +
                                      ": a dump of it, or its ring, would make this sure");
    }
}

void explain_stuck(const Run& run, const WaitNode& node, Finding& finding) {
    const std::vector<int> waiting = waiting_ranks(run, node);
    const std::string what = node_text(run, node);
    if (node.kind == WaitKind::kCreation) {
        finding.summary = fmt::format("all members are inside {} and it does not end", what);
    } else if (node.finished.empty() && !node.lost && members_started(node, node.waiting.size())) {
        finding.summary = fmt::format(
            "all members have started {} on the GPU with equal arguments, and it does not finish: fabric or GPU", what);
    } else if (node.finished.empty()) {
        finding.summary = fmt::format("all members issued {} with equal arguments, and it does not finish", what);
    } else {
        finding.summary = fmt::format("{} does not finish on {}; it finished on {}", what, ranks_text(run, waiting),
                                      ranks_text(run, node.finished));
    }
    if (const std::string text = waiting_text(run, node); !text.empty()) {
        finding.evidence.push_back(text);
    }
    add_device_evidence(run, node, finding);
    if (node.device_unknown) {
        finding.evidence.emplace_back(
            "the progress on the GPU was not watched on all members: that it is unfinished is inferred from the hosts");
    }
}

}  // namespace titan::analyzer
