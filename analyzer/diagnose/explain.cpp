#include "explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ends.h"
#include "host/words.h"
#include "hosts.h"
#include "layout.h"
#include "match.h"
#include "rank_state.h"
#include "replays.h"
#include "run_text.h"
#include "skipped_call.h"
#include "uncertainty.h"
#include "witnessed.h"

namespace titan::analyzer {
namespace {

const char* verb(size_t count, const char* one, const char* many) { return count == 1 ? one : many; }

std::string member_text(const Run& run, const WaitNode& node, int comm_rank) {
    const Communicator& communicator = run.communicators[node.communicator];
    const int global = run.global_rank(communicator, comm_rank);
    return global >= 0 ? fmt::format("rank {}", global) : fmt::format("member {} (global rank unknown)", comm_rank);
}

// A send and its receive are one node; `kind` says which half is meant. PyTorch counts them for each rank, we for each
// pair.
std::string half_text(const Run& run, const WaitNode& node, OpKind kind) {
    const auto numbered = std::find_if(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
        return waiter.entry != nullptr && waiter.entry->kind == kind && waiter.entry->recorder_number >= 0;
    });
    const std::string path =
        fmt::format("from {} to {} on {}", member_text(run, node, node.source), member_text(run, node, node.target),
                    communicator_text(run.communicators[node.communicator]));
    return numbered == node.waiting.end()
               ? fmt::format("{} #{} {}", op_text(kind), node.sequence, path)
               : fmt::format("{} {} (p2p_seq_id {})", op_text(kind), path, numbered->entry->recorder_number);
}

// The half that somebody waits in.
OpKind waiting_half(const WaitNode& node) {
    const auto in = [&](OpKind kind) {
        return std::any_of(node.waiting.begin(), node.waiting.end(),
                           [&](const Waiter& waiter) { return waiter.entry != nullptr && waiter.entry->kind == kind; });
    };
    return in(node.op) ? node.op : in(OpKind::kRecv) ? OpKind::kRecv : in(OpKind::kSend) ? OpKind::kSend : node.op;
}

// The call that a member itself waits in: after a mismatch it is not the one that the others wait in.
std::string call_of_waiter(const Run& run, const WaitNode& node, const Waiter& waiter) {
    if (waiter.entry == nullptr || node.kind == WaitKind::kCreation) {
        return node_text(run, node);
    }
    return node.kind == WaitKind::kPointToPoint
               ? half_text(run, node, waiter.entry->kind)
               : call_text(run.communicators[node.communicator], waiter.entry->kind, node.sequence);
}

// Members may rightly pass different counts.
bool has_own_sizes(OpKind kind) { return kind == OpKind::kAllToAll || kind == OpKind::kOtherCollective; }

// Ranks that wait in equal calls.
struct WaitingSide {
    std::string call;
    std::string arguments;
    std::string site;
    std::vector<int> ranks;
};

std::vector<WaitingSide> waiting_sides(const Run& run, const WaitNode& node) {
    std::vector<WaitingSide> sides;
    std::vector<int> unseen;  // whose own entry is lost
    for (const Waiter& waiter : node.waiting) {
        const Process& process = run.process(waiter.member);
        const int rank = run.member(waiter.member).global_rank;
        if (process.is_gone()) {
            continue;
        }
        if (waiter.entry == nullptr) {
            unseen.push_back(rank);
            continue;
        }
        const std::string call = call_of_waiter(run, node, waiter);
        const std::string arguments = arguments_text(*waiter.entry);
        const bool may_differ = waiter.entry->arguments_lost || has_own_sizes(waiter.entry->kind);
        auto side = std::find_if(sides.begin(), sides.end(), [&](const WaitingSide& known) {
            return known.call == call && (may_differ || known.arguments == arguments);
        });
        if (side == sides.end()) {
            side = sides.insert(side, {call, arguments, site_text(process, *waiter.entry), {}});
        }
        side->ranks.push_back(rank);
    }
    if (sides.empty() && !unseen.empty()) {
        sides.push_back({node_text(run, node), "", "", {}});
    }
    if (!sides.empty()) {
        sides.front().ranks.insert(sides.front().ranks.end(), unseen.begin(), unseen.end());
    }
    return sides;
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
    const std::string witnessed = witnessed_end_text(run, process.rank);
    if (!witnessed.empty() && process.liveness != Liveness::kCrashed) {
        return "dead (" + witnessed + ")";
    }
    if (process.liveness == Liveness::kExited) {
        return fmt::format("dead (exited with status {})", process.ending.exit_status);
    }
    if (process.liveness != Liveness::kCrashed) {
        return "dead";
    }
    return process.fatal_signal != 0 ? "dead (crashed with " + signal_text(process.fatal_signal) + ")"
                                     : "dead (crashed)";
}

// "replay 12 of graph 2, which holds all_reduce #48 on world (3rd of 6 collectives in it)", where graph launches ran
// it.
std::string replay_of(const Run& run, const WaitNode& node) {
    for (const Waiter& waiter : node.waiting) {
        if (waiter.entry != nullptr) {
            return replay_that_holds(run.process(waiter.member), *waiter.entry, node_text(run, node));
        }
    }
    return {};
}

// "never called all_reduce #41 on dp:0", after the name of the ranks.
std::string what_is_missing(const Run& run, const WaitNode& node, const Absence& absence, size_t count) {
    // Of a pair, its own half, not the one that the other waits in.
    const std::string call =
        node.kind != WaitKind::kPointToPoint
            ? node_text(run, node)
            : half_text(run, node, absence.comm_rank == node.target ? OpKind::kRecv : OpKind::kSend);
    const std::string replay = replay_of(run, node);
    const std::string what = replay.empty() ? call : replay + ",";
    const Process* process = absence.member.known() ? &run.processes[absence.member.process] : nullptr;
    switch (absence.moved_on && absence.reason == AbsenceReason::kQueued ? AbsenceReason::kNotIssued : absence.reason) {
        case AbsenceReason::kGrouped:
            return fmt::format("called {} inside ncclGroupStart and never called ncclGroupEnd", call);
        case AbsenceReason::kQueued:
            return fmt::format("called {}, but {} GPU never reached it", call, verb(count, "its", "their"));
        case AbsenceReason::kFailed: return fmt::format("got an error from {}", call);
        case AbsenceReason::kClosed: return fmt::format("closed the communicator without {}", call);
        case AbsenceReason::kLeft:
            return fmt::format("called {}, but {} file was written {} before the others': {} may have left since", call,
                               verb(count, "its", "their"), duration_text(latest_end_ns(node) - process->now_ns),
                               verb(count, "it", "they"));
        default: break;
    }
    const bool arrived = std::any_of(node.waiting.begin(), node.waiting.end(),
                                     [&](const Waiter& waiter) { return waiter.member == absence.member; });
    if (arrived) {
        return fmt::format("ended while {} was in flight", call);
    }
    if (process != nullptr && process->liveness == Liveness::kExited && !process->died()) {
        return fmt::format("exited without calling {}", call);
    }
    if (absence.moved_on) {
        const auto made = std::find_if(process->entries.rbegin(), process->entries.rend(),
                                       [](const Entry& entry) { return format::moves_data(entry.kind); });
        const Entry& last = made == process->entries.rend() ? process->entries.back() : *made;
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
        return absence.comm_rank == node.target
                   ? fmt::format("never called the recv for {}", half_text(run, node, OpKind::kSend))
                   : fmt::format("never called the send for {}", half_text(run, node, OpKind::kRecv));
    }
    return fmt::format("never called {}", call);
}

// " (pid 4711 on node-3)": where to look for it.
std::string process_text(const Process& process) {
    return process.pid == 0 || process.host.empty() ? std::string()
                                                    : fmt::format(" (pid {} on {})", process.pid, process.host);
}

std::string dead_summary(const Run& run, const Culprits& culprits) {
    const Absence& first = culprits.absences.front();
    const size_t count = culprits.absences.size();
    const std::string who = absent_text(culprits.absences) + " " + verb(count, "is ", "are ") + death_text(run, first) +
                            (count == 1 ? process_text(run.processes[first.member.process]) : std::string());
    const bool arrived = std::any_of(culprits.node->waiting.begin(), culprits.node->waiting.end(),
                                     [&](const Waiter& waiter) { return waiter.member == first.member; });
    return arrived ? fmt::format("{}: {} process ended inside {}", who, verb(count, "its", "their"),
                                 node_text(run, *culprits.node))
                   : fmt::format("{} and {}", who, what_is_missing(run, *culprits.node, first, count));
}

std::string unknown_summary(const Run& run, const Culprits& culprits) {
    const size_t count = culprits.absences.size();
    if (const Absence& first = culprits.absences.front(); first.member.known()) {
        return fmt::format("{} had not called {} when {} record ended, {} before the others', and may have left since",
                           absent_text(culprits.absences), node_text(run, *culprits.node), verb(count, "its", "their"),
                           duration_text(latest_end_ns(*culprits.node) - run.processes[first.member.process].now_ns));
    }
    if (const int rank = culprits.absences.front().global_rank; count == 1 && died_unrecorded(run, rank)) {
        return fmt::format("rank {} is dead ({}) and left no record: in {} all other members arrived", rank,
                           witnessed_end_text(run, rank), node_text(run, *culprits.node));
    }
    return fmt::format("{} left no dump and may be missing in {}: all other members arrived; {} may be dead",
                       absent_text(culprits.absences), node_text(run, *culprits.node), count == 1 ? "it" : "they");
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
    std::string text =
        fmt::format("rank {} has called {} collectives on {}", absence.global_rank,
                    grouped_digits(member.issued - std::min<uint64_t>(member.issued, process.sees.first_number)),
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

// When it ended, against the others; the end of one that hung is no more than a note.
void add_end_evidence(const Run& run, const Absence& absence, Finding& finding) {
    const Process* process = absence.member.known() ? &run.processes[absence.member.process] : nullptr;
    if (process == nullptr || (!process->is_gone() && process->liveness != Liveness::kEnded)) {
        return;
    }
    if (process->is_gone()) {
        if (const std::string text = end_order_text(run, *process); !text.empty()) {
            finding.evidence.push_back(text);
        }
        doubt_end(*process, finding);
    } else if (const std::string text = end_text(*process); !text.empty()) {
        finding.evidence.push_back(fmt::format("rank {} hung before it ended: it {}", process->rank, text));
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
        text += (text.empty() ? "" : " and ") + fmt::format("member{0} {1} (global rank{0} unknown)",
                                                            comm_ranks.size() == 1 ? "" : "s", rank_ranges(comm_ranks));
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

std::string node_text(const Run& run, const WaitNode& node) {
    const Communicator& communicator = run.communicators[node.communicator];
    switch (node.kind) {
        case WaitKind::kCollective: return call_text(communicator, node.op, node.sequence);
        case WaitKind::kPointToPoint: return half_text(run, node, waiting_half(node));
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
    std::string text;
    for (const WaitingSide& side : waiting_sides(run, node)) {
        text += fmt::format("{}{} {} in {}{}", text.empty() ? "" : ", ", ranks_text(run, side.ranks),
                            verb(side.ranks.size(), "waits", "wait"), side.call,
                            side.arguments.empty() ? std::string() : " (" + side.arguments + side.site + ")");
    }
    return fmt::format("{}, {}{}", text, ranks.size() == 1 ? "for " : "the longest for ",
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
    const CallLog& log = run.member(suspect).call_log;
    for (size_t i = 0; i < log.size(); ++i) {
        const uint64_t sequence = log.sequence(i);
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
        const bool told = node.kind == WaitKind::kCollective && !unknown;
        finding.evidence.push_back(waiting + (told ? "; missing: " + absent_text(node.absent) : std::string()));
    }
    constexpr size_t kShown = 4;
    for (size_t i = 0; i < std::min(kShown, culprits.absences.size()); ++i) {
        add_end_evidence(run, culprits.absences[i], finding);
        add_position_evidence(run, node, culprits.absences[i], finding);
        add_replay_evidence(run, node, culprits.absences[i], finding);
    }
    if (unknown && !first.member.known()) {
        finding.evidence.emplace_back("no dump and no ring of " + absent_text(culprits.absences));
        for (const Absence& absence : culprits.absences) {
            if (const std::string host = likely_host_text(run, absence.global_rank); !host.empty()) {
                finding.evidence.push_back(host);
            }
        }
    }
}

const Waiter* waiter_with_lost_arguments(const WaitNode& node) {
    const auto found = std::find_if(node.waiting.begin(), node.waiting.end(), [](const Waiter& waiter) {
        return waiter.entry != nullptr && waiter.entry->arguments_lost;
    });
    return found == node.waiting.end() ? nullptr : &*found;
}

void explain_stuck(const Run& run, const WaitNode& node, Finding& finding) {
    const std::vector<int> waiting = waiting_ranks(run, node);
    const std::string what = node_text(run, node);
    const char* const equal =
        waiter_with_lost_arguments(node) != nullptr ? "arguments that are equal as far as recorded" : "equal arguments";
    if (node.kind == WaitKind::kCreation) {
        finding.summary = fmt::format("{}, all members, are inside {}, which does not end", ranks_text(waiting), what);
    } else if (node.finished.empty() && !node.lost && members_started(node, node.waiting.size())) {
        finding.summary =
            fmt::format("{}, all members, have started {} on the GPU with {}, and it does not finish: fabric or GPU",
                        ranks_text(waiting), what, equal);
    } else if (node.finished.empty()) {
        finding.summary =
            fmt::format("{}, all members, called {} with {}, and it does not finish", ranks_text(waiting), what, equal);
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
            "how far the GPUs are was not recorded on all members: that it is unfinished is inferred from the hosts");
    }
}

}  // namespace titan::analyzer
