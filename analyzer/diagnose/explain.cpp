#include "explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "choose_role.h"
#include "host/words.h"
#include "later_step.h"
#include "layout.h"
#include "match.h"
#include "rank_state.h"
#include "replays.h"
#include "run_text.h"
#include "skipped_call.h"
#include "uncertainty.h"
#include "waiters.h"
#include "witnessed_ends.h"

namespace titan::analyzer {
namespace {

Sentence member_fact(const Run& run, const WaitNode& node, int comm_rank) {
    const Communicator& communicator = run.communicators[node.communicator];
    const int global = run.global_rank(communicator, comm_rank);
    return global >= 0 ? rank_fact(global) : phrase("member {} (global rank unknown)", comm_rank);
}

// A send and its receive are one node; `kind` says which half is meant. PyTorch counts them for each rank, we for each
// pair.
Sentence half_fact(const Run& run, const WaitNode& node, OpKind kind) {
    const auto numbered = std::ranges::find_if(node.waiting, [&](const Waiter& waiter) {
        return waiter.entry != nullptr && waiter.entry->kind == kind && waiter.entry->recorder_number >= 0;
    });
    const Sentence path = phrase("from {} to {} on {}", member_fact(run, node, node.source),
                                 member_fact(run, node, node.target), communicator_fact(run, node.communicator));
    return numbered == node.waiting.end()
               ? phrase("{} {}",
                        Sentence(fmt::format("{} #{}", op_text(kind), node.sequence),
                                 CallFact{node.communicator, op_text(kind), node.sequence}),
                        path)
               : phrase("{} {} (p2p_seq_id {})", op_text(kind), path, numbered->entry->recorder_number);
}

// The half that somebody waits in.
OpKind waiting_half(const WaitNode& node) {
    const auto in = [&](OpKind kind) {
        return std::ranges::any_of(
            node.waiting, [&](const Waiter& waiter) { return waiter.entry != nullptr && waiter.entry->kind == kind; });
    };
    return in(node.op) ? node.op : in(OpKind::kRecv) ? OpKind::kRecv : in(OpKind::kSend) ? OpKind::kSend : node.op;
}

// The call that a member itself waits in: after a mismatch it is not the one that the others wait in.
Sentence call_of_waiter(const Run& run, const WaitNode& node, const Waiter& waiter) {
    if (waiter.entry == nullptr || node.kind == WaitKind::kCreation) {
        return node_fact(run, node);
    }
    return node.kind == WaitKind::kPointToPoint ? half_fact(run, node, waiter.entry->kind)
                                                : call_fact(run, node.communicator, waiter.entry->kind, node.sequence);
}

// Ranks that wait in equal calls.
struct WaitingSide {
    Sentence call;
    std::string arguments;
    std::string site;
    std::vector<int> ranks;
};

std::vector<WaitingSide> waiting_sides(const Run& run, const WaitNode& node) {
    std::vector<WaitingSide> sides;
    std::vector<int> unseen;  // members whose own entry is lost
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
        const Sentence call = call_of_waiter(run, node, waiter);
        const std::string arguments = arguments_text(*waiter.entry);
        auto side = std::ranges::find_if(sides, [&](const WaitingSide& known) {
            return known.call.text() == call.text() && (waiter.entry->arguments_lost || known.arguments == arguments);
        });
        if (side == sides.end()) {
            side = sides.insert(side, {call, arguments, site_text(process, *waiter.entry), {}});
        }
        side->ranks.push_back(rank);
    }
    if (sides.empty() && !unseen.empty()) {
        const bool is_lost = node.kind != WaitKind::kCreation;
        sides.push_back({node_fact(run, node), is_lost ? "its entry is overwritten" : "", "", {}});
    }
    if (!sides.empty()) {
        sides.front().ranks.insert(sides.front().ranks.end(), unseen.begin(), unseen.end());
    }
    return sides;
}

Sentence waiters_clause(const Run& run, const WaitNode& node) {
    const std::vector<int> ranks = waiting_ranks(run, node);
    const Sentence length = wait_length(run, node);
    return ranks.empty() ? Sentence()
                         : phrase("; {} [waits|wait]{}{}", ranks_fact(run, ranks), length.empty() ? "" : " ", length);
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
    const std::string asked =
        process.ending.asked() ? fmt::format("told to end by {}", signal_text(process.ending.signal)) : std::string();
    if (process.liveness == Liveness::kExited) {
        return fmt::format("dead ({}exited with status {})", asked.empty() ? asked : asked + ", ",
                           process.ending.exit_status);
    }
    if (process.liveness != Liveness::kCrashed) {
        return asked.empty() ? "dead" : fmt::format("dead ({})", asked);
    }
    return process.fatal_signal != 0 ? "dead (crashed with " + signal_text(process.fatal_signal) + ")"
                                     : "dead (crashed)";
}

// "replay 12 of graph 2, which holds all_reduce #48 on world (3rd of 6 collectives in it)", where graph launches ran
// it.
Sentence replay_of(const Run& run, const WaitNode& node) {
    for (const Waiter& waiter : node.waiting) {
        if (waiter.entry != nullptr) {
            return replay_that_holds(run.process(waiter.member), *waiter.entry, node_fact(run, node));
        }
    }
    return {};
}

bool has_called(const Process& process, const Absence& absence, const WaitNode& node) {
    return node.kind == WaitKind::kCollective && absence.member.row != kNoIndex &&
           process.call_at(process.members[absence.member.row], node.sequence) != nullptr;
}

// "never called all_reduce #41 on dp:0", after the name of the ranks.
Sentence what_is_missing(const Run& run, const WaitNode& node, const Absence& absence, size_t count) {
    // For a pair, names the missing half, not the half that the other side waits in.
    const Sentence call = node.kind != WaitKind::kPointToPoint ? node_fact(run, node)
                                                               : half_fact(run, node, node.half_of(absence.comm_rank));
    const Sentence replay = replay_of(run, node);
    const Sentence what = replay.empty() ? call : phrase("{},", replay);
    const Process* process = absence.member.known() ? &run.processes[absence.member.process] : nullptr;
    switch (absence.moved_on && absence.reason == AbsenceReason::kQueued ? AbsenceReason::kNotIssued : absence.reason) {
        case AbsenceReason::kGrouped:
            return phrase("called {} inside ncclGroupStart and never called ncclGroupEnd", call);
        case AbsenceReason::kQueued:
            return phrase("called {}, but {} GPU never reached it", call, verb_form(count, "its", "their"));
        case AbsenceReason::kFailed: return phrase("got an error from {}", call);
        case AbsenceReason::kClosed:
            return has_called(*process, absence, node) ? phrase("aborted the communicator before {} had ended", call)
                                                       : phrase("closed the communicator without {}", call);
        case AbsenceReason::kLeft:
            return phrase("called {}, but {} file was written {} before the others': {} may have left since", call,
                          verb_form(count, "its", "their"), duration_fact(latest_end_ns(node) - process->now_ns),
                          verb_form(count, "it", "they"));
        default: break;
    }
    const bool arrived =
        std::ranges::any_of(node.waiting, [&](const Waiter& waiter) { return waiter.member == absence.member; });
    if (arrived) {
        return phrase("ended while {} was in flight", call);
    }
    if (process != nullptr && process->liveness == Liveness::kExited && !process->died()) {
        const int32_t status = process->ending.exit_status;
        return phrase("exited{} without calling {}", status < 0 ? "" : fmt::format(" with status {}", status), call);
    }
    if (absence.restarted) {
        return phrase("{} started again alone, and {} creating the communicator that {} uses",
                      verb_form(count, "was", "were"), verb_form(count, "is", "are"), call);
    }
    if (absence.moved_on) {
        const Entry* made = newest_call_beside(*process, absence.member.row);
        const Entry& last = made == nullptr ? process->entries.back() : *made;
        const bool same_step = std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
            return waiter.entry != nullptr && waiter.entry->step >= last.step;
        });
        const uint32_t communicator = last.row == kNoIndex ? kNoIndex : process->members[last.row].communicator;
        if (communicator == node.communicator && last.sequence == node.sequence && last.row == absence.member.row) {
            return phrase("skipped {} and went on to the next one, which took its number", what);
        }
        return same_step && communicator != kNoIndex ? phrase("skipped {} and went on to {}", what,
                                                              call_fact(run, communicator, last.kind, last.sequence))
                                                     : phrase("skipped {} and went on to step {}", what, last.step);
    }
    if (node.kind == WaitKind::kCreation) {
        return phrase("never entered {}", call);
    }
    if (!replay.empty()) {
        return phrase("never launched {}", replay);
    }
    if (node.kind == WaitKind::kPointToPoint) {
        const int other = absence.comm_rank == node.target ? node.source : node.target;
        return phrase("never called the {} for {}", op_text(node.half_of(absence.comm_rank)),
                      half_fact(run, node, node.half_of(other)));
    }
    return phrase("never called {}", call);
}

// " (pid 4711 on node-3)": where to look for it.
std::string process_text(const Process& process) {
    return process.pid == 0 || process.host.empty() ? std::string()
                                                    : fmt::format(" (pid {} on {})", process.pid, process.host);
}

// That it is dead is reason enough: whether it had left the call out before is another, and less sure.
Sentence dead_summary(const Run& run, const Culprits& culprits) {
    Absence first = culprits.absences.front();
    first.moved_on = false;
    const size_t count = culprits.absences.size();
    const Sentence who =
        phrase("{} {} {}{}", absent_fact(culprits.absences),
               run.processes[first.member.process].ending.unchecked ? "may be" : verb_form(count, "is", "are"),
               death_text(run, first), count == 1 ? process_text(run.processes[first.member.process]) : std::string());
    const bool arrived = std::ranges::any_of(culprits.node->waiting,
                                             [&](const Waiter& waiter) { return waiter.member == first.member; });
    return arrived ? phrase("{}: {} process ended inside {}", who, verb_form(count, "its", "their"),
                            node_fact(run, *culprits.node))
                   : phrase("{} and {}", who, what_is_missing(run, *culprits.node, first, count));
}

// "rank 0 of server (pid 12)", of a member that is of another world of the run; empty where none there is.
std::string in_another_world(const Run& run, const Culprits& culprits) {
    std::string text;
    for (const Run& world : run.beside) {
        for (const Process& process : world.processes) {
            for (const Member& member : process.members) {
                for (const Absence& absence : culprits.absences) {
                    if (member.id == run.communicators[culprits.node->communicator].id &&
                        member.rank == absence.comm_rank) {
                        text += fmt::format("{}rank {} of {} (pid {})", text.empty() ? "" : ", ", process.rank,
                                            world_name(world), process.pid);
                    }
                }
            }
        }
    }
    return text;
}

Sentence unknown_summary(const Run& run, const Culprits& culprits) {
    const size_t count = culprits.absences.size();
    if (const Absence& first = culprits.absences.front(); first.member.known()) {
        return phrase("{} had not called {} when {} record ended, {} before the others', and may have left since",
                      absent_fact(culprits.absences), node_fact(run, *culprits.node), verb_form(count, "its", "their"),
                      duration_fact(latest_end_ns(*culprits.node) - run.processes[first.member.process].now_ns));
    }
    if (const int rank = culprits.absences.front().global_rank; count == 1 && died_unrecorded(run, rank)) {
        return phrase("{} is dead ({}) and left no record: in {} all other members arrived", rank_fact(rank),
                      witnessed_end_text(run, rank), node_fact(run, *culprits.node));
    }
    const bool unnamed = culprits.absences.front().global_rank < 0;
    if (const std::string there = unnamed ? in_another_world(run, culprits) : std::string(); !there.empty()) {
        return phrase("{} has not come to {}: all other members did", there, node_fact(run, *culprits.node));
    }
    const std::vector<int> others =
        unnamed ? ranks_outside(run, run.communicators[culprits.node->communicator]) : std::vector<int>();
    const Sentence choice = phrase("{} {}", count == 1 ? "it is one of" : "they are among", ranks_fact(others));
    if (!others.empty() && run.missing_ranks.empty()) {
        return phrase("{} never came to {}: all ranks of the job are on record, so {}", absent_fact(culprits.absences),
                      node_fact(run, *culprits.node), choice);
    }
    return phrase("{} left no dump and may be missing in {}: all other members arrived; {}{} may be dead",
                  absent_fact(culprits.absences), node_fact(run, *culprits.node),
                  others.empty() ? Sentence() : phrase("{}, and ", choice), verb_form(count, "it", "they"));
}

void add_position_evidence(const Run& run, const WaitNode& node, const Absence& absence, Finding& finding) {
    if (absence.member.row == kNoIndex || !absence.member.known() || node.kind != WaitKind::kCollective) {
        return;
    }
    const Process& process = run.processes[absence.member.process];
    const Member& member = process.members[absence.member.row];
    if (absence.reason == AbsenceReason::kFailed) {
        const Entry* entry = process.call_at(member, node.sequence);
        finding.evidence.push_back(phrase("{}: the call returned ncclResult_t {}", rank_fact(absence.global_rank),
                                          entry != nullptr ? entry->result : -1));
        return;
    }
    Sentence text = phrase("{} has called {} collectives on {}", rank_fact(absence.global_rank),
                           grouped_digits(member.issued - std::min<uint64_t>(member.issued, process.sees.first_number)),
                           communicator_fact(run, node.communicator));
    if (!member.calls.empty()) {
        const Entry& last = process.entries[member.calls.back()];
        text += phrase(", the last is {} #{}{}{}", op_text(last.kind), last.sequence,
                       process.moment == Moment::kRecorded
                           ? phrase(", {} before its dump", duration_fact(process.now_ns - last.entered_ns))
                           : Sentence(),
                       site_text(process, last));
    }
    if (member.issued <= node.sequence) {
        const uint64_t behind = node.sequence + 1 - member.issued;
        text +=
            behind == 1 ? ": it is one call behind" : fmt::format(": it is {} calls behind", grouped_digits(behind));
    }
    finding.evidence.push_back(text);
    const Sentence shift = shift_by_step_text(run, node.communicator, absence.member);
    if (!shift.empty()) {
        finding.evidence.push_back(shift);
    }
}

// When it ended, against the others; the end of one that hung is no more than a note.
void add_end_evidence(const Run& run, const Absence& absence, Finding& finding) {
    const Process* process = absence.member.known() ? &run.processes[absence.member.process] : nullptr;
    if (process == nullptr || !process->has_ended()) {
        return;
    }
    if (process->is_gone()) {
        if (const std::string text = end_order_text(run, *process); !text.empty()) {
            finding.evidence.push_back(text);
        }
        doubt_end(*process, finding);
    } else if (const std::string text = end_text(*process); !text.empty()) {
        finding.evidence.push_back(phrase("{} hung before it ended: it {}", rank_fact(process->rank), text));
    }
}

// The step to which the others' calls of that number belong, as far as they tell and agree; -1: they do not.
int32_t step_of_others(const Run& run, const Communicator& communicator, MemberRef suspect, uint64_t sequence) {
    constexpr size_t kAsked = 64;
    const size_t stride = std::max<size_t>(1, communicator.members.size() / kAsked);  // spread over a large one
    int32_t agreed = -1;
    for (size_t i = 0; i < communicator.members.size(); i += stride) {
        const MemberRef ref = communicator.members[i];
        const int32_t step = ref == suspect ? -1 : step_at(run.process(ref), run.member(ref), sequence);
        if (step >= 0 && agreed >= 0 && step != agreed) {
            return -1;
        }
        agreed = std::max(agreed, step);
    }
    return agreed;
}

}  // namespace

std::string_view words_of(AbsenceReason reason, size_t members) {
    const bool one = members == 1;
    switch (reason) {
        case AbsenceReason::kNotIssued: return one ? "has not called it" : "have not called it";
        case AbsenceReason::kGrouped: return "called it in a group that is not ended";
        case AbsenceReason::kQueued:
            return one ? "called it, but its stream is held by earlier work"
                       : "called it, but their streams are held by earlier work";
        case AbsenceReason::kFailed: return one ? "called it and got an error" : "called it and got errors";
        case AbsenceReason::kClosed: return "destroyed or aborted the communicator";
        case AbsenceReason::kLeft:
            return one ? "has a record that ends before most of the wait"
                       : "have records that end before most of the wait";
        case AbsenceReason::kUnknown: return one ? "has no record of that time" : "have no record of that time";
    }
    return {};
}

Sentence absent_fact(const std::vector<Absence>& absences) {
    std::vector<int> global;
    std::vector<int> comm_ranks;
    for (const Absence& absence : absences) {
        (absence.global_rank >= 0 ? global : comm_ranks)
            .push_back(absence.global_rank >= 0 ? absence.global_rank : absence.comm_rank);
    }
    Sentence text = global.empty() ? Sentence() : ranks_fact(global);
    if (!comm_ranks.empty()) {
        text += phrase("{}{} {} (global {} unknown)", text.empty() ? "" : " and ", plural(comm_ranks.size(), "member"),
                       rank_list(comm_ranks), plural(comm_ranks.size(), "rank"));
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

std::vector<int> absent_ranks(const WaitNode& node) {
    std::vector<int> ranks;
    for (const Absence& absence : node.absent) {
        if (absence.global_rank >= 0) {
            ranks.push_back(absence.global_rank);
        }
    }
    sort_unique(ranks);
    return ranks;
}

Sentence node_fact(const Run& run, const WaitNode& node) {
    const Communicator& communicator = run.communicators[node.communicator];
    switch (node.kind) {
        case WaitKind::kCollective: return call_fact(run, node.communicator, node.op, node.sequence);
        case WaitKind::kPointToPoint: return half_fact(run, node, waiting_half(node));
        case WaitKind::kCreation: break;
    }
    const std::string name = communicator_text(communicator);
    return {node.sequence == kNoSequence ? fmt::format("the creation of {} ({} ranks)", name, communicator.size)
                                         : fmt::format("{} number {} of {}", op_text(node.op), node.sequence, name),
            CallFact{node.communicator, op_text(node.op), kNoSequence}};
}

Sentence wait_length(const Run& run, const WaitNode& node) {
    constexpr int64_t kWorthTellingNs = 1'000'000'000;
    int64_t least_ns = 0;
    for (const Waiter& waiter : node.waiting) {
        const Process& process = run.process(waiter.member);
        if (process.moment == Moment::kRecorded) {
            return phrase("for {}", duration_fact(longest_wait_ns(node)));
        }
        for (const Entry* later = waiter.entry; later != nullptr && later <= &process.entries.back(); ++later) {
            least_ns = std::max(least_ns, later->entered_ns - waiter.since_ns);
        }
    }
    return least_ns < kWorthTellingNs ? Sentence() : phrase("for at least {}", duration_fact(least_ns));
}

Sentence own_call_fact(const Run& run, const WaitNode& node, int rank) {
    const Communicator& communicator = run.communicators[node.communicator];
    const bool is_pair = node.kind == WaitKind::kPointToPoint;
    for (const int side : {node.target, node.source}) {
        if (is_pair && run.global_rank(communicator, side) == rank) {
            return half_fact(run, node, node.half_of(side));
        }
    }
    return node_fact(run, node);
}

Sentence waiting_fact(const Run& run, const WaitNode& node) {
    const std::vector<int> ranks = waiting_ranks(run, node);
    if (ranks.empty()) {
        return {};
    }
    Sentence text;
    for (const WaitingSide& side : waiting_sides(run, node)) {
        text += phrase("{}{} [waits|wait] in {}{}", text.empty() ? "" : ", ", ranks_fact(run, side.ranks), side.call,
                       side.arguments.empty() ? std::string() : " (" + side.arguments + side.site + ")");
    }
    const Sentence length = wait_length(run, node);
    return length.empty() ? text : phrase("{}, {}{}", text, verb_form(ranks.size(), "", "the longest "), length);
}

Sentence shift_by_step_text(const Run& run, uint32_t index, MemberRef suspect) {
    // Shifted by one call, steps differ only around the step's ends: at every one of them, and always the same way.
    std::string text;
    bool ahead = false;
    size_t differences = 0;
    size_t ends = 0;
    int32_t previous = -1;
    const CallLog& log = run.member(suspect).call_log;
    for (size_t i = 0; i < log.size(); ++i) {
        const uint64_t sequence = log.sequence(i);
        const int32_t own = step_at(run.process(suspect), run.member(suspect), sequence);
        const int32_t others = own < 0 ? -1 : step_of_others(run, run.communicators[index], suspect, sequence);
        if (others < 0) {
            continue;
        }
        ends += !text.empty() && others != previous ? 1 : 0;
        previous = others;
        if (own == others) {
            continue;
        }
        ++differences;
        if (!text.empty() && ahead != (own > others)) {
            return {};
        }
        if (text.empty()) {
            ahead = own > others;
            text = fmt::format(
                "from #{} on its calls belong to {} steps than the others' (step {} against {}): it {} in step {}",
                sequence, ahead ? "later" : "earlier", own, others, ahead ? "skipped a call" : "made an extra call",
                std::min(own, others));
        }
    }
    return text.empty() || differences < ends ? Sentence()
                                              : phrase("{}: {}", rank_fact(run.member(suspect).global_rank), text);
}

void explain_absence(const Run& run, const Culprits& culprits, Finding& finding) {
    const WaitNode& node = *culprits.node;
    const Absence& first = culprits.absences.front();
    const bool unknown = first.reason == AbsenceReason::kUnknown;
    if (is_dead(run, first)) {
        finding.summary = dead_summary(run, culprits);
    } else if (unknown) {
        finding.summary = unknown_summary(run, culprits);
    } else {
        finding.summary = phrase("{} {}", absent_fact(culprits.absences),
                                 what_is_missing(run, node, first, culprits.absences.size()));
    }
    finding.summary += waiters_clause(run, node);
    if (const Sentence waiting = waiting_fact(run, node); !waiting.empty()) {
        const bool told = node.kind == WaitKind::kCollective && !unknown;
        finding.evidence.push_back(told ? phrase("{}; missing: {}", waiting, absent_fact(node.absent)) : waiting);
    }
    constexpr size_t kShown = 4;
    for (size_t i = 0; i < std::min(kShown, culprits.absences.size()); ++i) {
        add_end_evidence(run, culprits.absences[i], finding);
        add_position_evidence(run, node, culprits.absences[i], finding);
        add_replay_evidence(run, node, culprits.absences[i], finding);
    }
    const bool named = first.global_rank >= 0 || !run.missing_ranks.empty() ||
                       ranks_outside(run, run.communicators[node.communicator]).empty();
    if (unknown && !first.member.known() && named && run.beside.empty()) {
        finding.evidence.push_back(phrase("no dump and no ring of {}", absent_fact(culprits.absences)));
        for (const Absence& absence : culprits.absences) {
            if (const std::string host = likely_host_text(run, absence.global_rank); !host.empty()) {
                finding.evidence.push_back(host);
            }
        }
    }
}

const Waiter* waiter_with_lost_arguments(const WaitNode& node) {
    const auto found = std::ranges::find_if(
        node.waiting, [](const Waiter& waiter) { return waiter.entry != nullptr && waiter.entry->arguments_lost; });
    return found == node.waiting.end() ? nullptr : &*found;
}

void explain_stuck(const Run& run, const WaitNode& node, Finding& finding) {
    const std::vector<int> waiting = waiting_ranks(run, node);
    const Sentence what = node_fact(run, node);
    const char* const equal =
        waiter_with_lost_arguments(node) != nullptr ? "arguments that are equal as far as recorded" : "equal arguments";
    if (node.kind == WaitKind::kCreation) {
        finding.summary = node.finished.empty()
                              ? phrase("{}, all members, are inside {}, which does not end", ranks_fact(waiting), what)
                              : phrase("{} [is|are] inside {}, which does not end there; {} came out of it",
                                       ranks_fact(waiting), what, ranks_fact(node.finished));
    } else if (node.finished.empty() && !node.lost && members_started(node, node.waiting.size())) {
        finding.summary =
            phrase("{}, all members, have started {} on the GPU with {}, and it does not finish: fabric or GPU",
                   ranks_fact(waiting), what, equal);
    } else if (node.finished.empty()) {
        const bool all_wait = waiting.size() == run.communicators[node.communicator].members.size() ||
                              node.kind == WaitKind::kPointToPoint;
        finding.summary = phrase("{}{} called {} with {}, and it does not finish", ranks_fact(waiting),
                                 all_wait ? ", all members," : " and all other members", what, equal);
    } else {
        finding.summary = phrase("{} does not finish on {}; it finished on {}", what, ranks_fact(run, waiting),
                                 ranks_fact(run, node.finished));
    }
    if (const Sentence text = waiting_fact(run, node); !text.empty()) {
        finding.evidence.push_back(text);
    }
    add_device_evidence(run, node, finding);
}

}  // namespace titan::analyzer
