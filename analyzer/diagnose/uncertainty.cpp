#include "uncertainty.h"

#include <fmt/format.h>

#include <algorithm>

#include "causes.h"
#include "expected.h"
#include "explain.h"
#include "host/words.h"
#include "host_threads.h"
#include "long_waits.h"
#include "overcommitted_hosts.h"
#include "rank_state.h"
#include "skipped_call.h"
#include "unknowns.h"
#include "waiters.h"
#include "witnessed_ends.h"

namespace titan::analyzer {
namespace {

// A wait that no timeout has confirmed is not called certain before this.
constexpr int64_t kCertainAfterNs = 10'000'000'000;
// No kernel of a healthy job is known to take this long.
constexpr int64_t kSlowWorkNs = 30'000'000'000;

constexpr auto kLossSentences = std::to_array<std::string_view>({
#define TITAN_LOSS_SENTENCE(number, id, name, sentence) sentence,
    TITAN_LOSSES(TITAN_LOSS_SENTENCE)
#undef TITAN_LOSS_SENTENCE
});

// Members without a record.
void doubt_missing(const std::vector<Absence>& absences, Finding& finding) {
    const bool one = absences.size() == 1 && absences.front().global_rank >= 0;
    doubt<Unknown::kMissing>(finding, !absences.empty(), one ? "a dump" : "dumps", absent_fact(absences));
}

bool is_confirmed(const Run& run, const WaitNode& node) {
    return std::ranges::any_of(node.waiting,
                               [&](const Waiter& waiter) { return called_a_hang(run.process(waiter.member)); });
}

// A slow rank may still come as long as nobody who waits has waited for nearly its whole timeout.
int64_t certain_after_ns(const Run& run, const WaitNode& node) {
    int64_t after_ns = kCertainAfterNs;
    for (const Waiter& waiter : node.waiting) {
        after_ns = std::max(after_ns, nearly_its_timeout_ns(run.process(waiter.member)));
    }
    return after_ns;
}

// One kernel carries all calls of an NCCL group, so which of its peers it waits for is not recorded. A rank sends to
// itself in a group only; of the oldest group the ring may have lost a part.
bool may_wait_for_another_peer(const Process& process, const Member& member, const Entry& call) {
    if (call.peer == member.rank) {
        return true;
    }
    const auto is_with_another = [&](const Entry& other) {
        return other.group == call.group && (other.row != call.row || other.peer != call.peer);
    };
    const bool is_cut = process.overwritten != 0 && process.entries.front().group == call.group;
    return call.group != 0 && (is_cut || std::ranges::any_of(process.entries, is_with_another));
}

}  // namespace

std::string progress_advice(const Process& process) {
    const bool by_events = process.gpu_method == format::GpuProgressMethod::kEvents;
    const bool by_budget = process.observing.budget != 0 && process.observing.full_of != 1;
    return std::string("TITANTRACE_GPU_PROGRESS=writes") +
           (by_budget   ? ", which TITANTRACE_BUDGET allows only in some steps"
            : by_events ? ", and rings in memory (/dev/shm) rather than on a disk"
                        : "");
}

std::string missing_dumps_text(const std::vector<int>& ranks, const std::string& what) {
    const std::string who = ranks.empty() ? what : ranks_text(ranks) + (what.empty() ? "" : " and " + what);
    return settled_by<Unknown::kMissing>(ranks.size() == 1 && what.empty() ? "a dump" : "dumps", who).text();
}

std::string larger_ring_text(const Process& process) {
    const char* const setting = process.source.is_flight_recorder ? "TORCH_FR_BUFFER_SIZE" : "TITANTRACE_COLLECTIVES";
    return settled_by<Unknown::kLostEntries>(setting, grouped_digits(process.overwritten), process.rank).text();
}

// A stopped process shows no sign of life either. If all were killed in the end, and nobody told one of them to end,
// the rings are the same as those of a rank that had been stopped until then.
bool may_have_been_stopped(const Run& run, const Process& process) {
    const auto left_a_ring_alone = [](const Process& other) {
        return (other.source.is_ring || other.source.reason == format::DumpReason::kCollected) && !other.ending.asked();
    };
    return process.liveness == Liveness::kKilled && run.processes.size() > 1 &&
           witnessed_end(run, process.rank) == nullptr && std::ranges::all_of(run.processes, left_a_ring_alone);
}

namespace {

// Nothing on record holds it, and yet a thread of it has waited for its timeout, or calls that had not ended are
// overwritten: the rest of the rank may wait for these.
void doubt_free_host(const Run& run, const Absence& absence, Finding& finding) {
    const Process& process = run.process(absence.member);
    if (absence.held_by.empty() && process.overwritten != 0) {
        const int64_t waited_ns = hangs_for_ns(run, process);
        doubt<Unknown::kLostWait>(finding, waited_ns > 0, rank_fact(process.rank), duration_fact(waited_ns));
        doubt<Unknown::kLostUnfinished>(finding, waited_ns <= 0 && has_lost_unfinished_calls(process),
                                        larger_ring_text(process));
    }
}

bool awaits_signals(const Process& process) {
    const auto newest = std::find_if(process.entries.rbegin(), process.entries.rend(), [](const Entry& entry) {
        return entry.kind == OpKind::kWaitSignal && !entry.captured;
    });
    return newest != process.entries.rend() && newest->state != CallState::kFinished;
}

// That somebody waits in it is known by counters alone.
void doubt_lost_wait(const Run& run, const WaitNode& node, Finding& finding) {
    const auto is_lost = [](const Waiter& waiter) { return waiter.entry == nullptr; };
    const auto found = std::ranges::find_if(node.waiting, is_lost);
    if (node.kind != WaitKind::kCreation && found != node.waiting.end()) {
        depends_on<Unknown::kLostWait>(finding, rank_fact(run.process(found->member).rank),
                                       duration_fact(found->age_ns));
    }
}

// The first of the culprits that would make its first call there, and whose threads were ready to run and got no
// processor for longer than anybody waits: it may only be slow to start. Null: none.
const Process* may_be_starting(const Run& run, const Culprits& culprits) {
    const WaitNode& node = *culprits.node;
    if (node.kind != WaitKind::kCreation && node.sequence != 0) {
        return nullptr;
    }
    for (const Absence& absence : culprits.absences) {
        if (absence.member.known() && absence.reason == AbsenceReason::kNotIssued && !absence.moved_on &&
            lacked_processors_ns(run.process(absence.member)) > longest_wait_ns(node)) {
            return &run.process(absence.member);
        }
    }
    return nullptr;
}

}  // namespace

void doubt_absence(const Run& run, const Culprits& culprits, Finding& finding) {
    const WaitNode& node = *culprits.node;
    const Absence& first = culprits.absences.front();
    std::vector<Absence> unknown;
    std::ranges::copy_if(node.absent, std::back_inserter(unknown),
                         [](const Absence& absence) { return absence.reason == AbsenceReason::kUnknown; });
    if (first.reason == AbsenceReason::kLeft || (first.reason == AbsenceReason::kUnknown && first.member.known())) {
        depends_on<Unknown::kBehindItsRecord>(finding, rank_fact(first.global_rank));
        return;
    }
    if (first.reason == AbsenceReason::kUnknown) {
        doubt_missing(unknown, finding);
        doubt<Unknown::kSecondWaiter>(finding, node.waiting.size() < 2);
        if (run.partial_recording && finding.confidence != Confidence::kPossible) {
            depends_on(finding, Unknown::kKeptFromRecording);
        }
        return;
    }
    const Process& process = run.processes[first.member.process];
    if (process.died() || first.reason == AbsenceReason::kFailed) {
        doubt<Unknown::kStoppedThenKilled>(finding, may_have_been_stopped(run, process), rank_fact(process.rank));
        return;
    }
    doubt<Unknown::kStillRan>(finding, is_unchecked(process) && process.now_ns + kCertainAfterNs < latest_end_ns(node),
                              rank_fact(process.rank), duration_fact(latest_end_ns(node) - process.now_ns));
    const auto lost = [&](format::Loss loss) {
        const auto index = static_cast<size_t>(loss);
        doubt<Unknown::kNothingLost>(finding, process.losses[index] != 0, process.rank,
                                     grouped_digits(process.losses[index]), kLossSentences[index]);
    };
    doubt<Unknown::kTorn>(finding, process.torn > 1, rank_fact(process.rank), grouped_digits(process.torn));
    lost(format::Loss::kUnknownCommunicators);
    lost(format::Loss::kCommunicatorsUntracked);
    doubt_free_host(run, first, finding);
    doubt_lost_wait(run, node, finding);
    const Process& waiter = node.op == OpKind::kWaitSignal ? run.process(node.waiting.front().member) : process;
    doubt<Unknown::kWhichSignal>(finding, awaits_signals(waiter), rank_fact(waiter.rank));
    if (node.kind == WaitKind::kPointToPoint) {
        lost(format::Loss::kP2pUncounted);
        // In an exchange each pair counts for itself: no vote decides whether one side skipped it or the other made one
        // too many.
        const Entry* waiting = node.waiting.front().entry;
        const MemberRef waiter = node.waiting.front().member;
        doubt<Unknown::kExtraExchange>(finding,
                                       first.moved_on && waiting != nullptr &&
                                           may_wait_for_another_peer(run.process(waiter), run.member(waiter), *waiting),
                                       rank_fact(run.member(waiter).global_rank));
        if (node.lost) {
            finding.depends_on(larger_ring_text(process),
                               run.member(first.member).p2p_counted ? Confidence::kLikely : Confidence::kPossible);
        }
    }
    if (const Process* const starting = may_be_starting(run, culprits)) {
        depends_on<Unknown::kSlowToStart>(finding, rank_fact(starting->rank),
                                          duration_fact(lacked_processors_ns(*starting)));
    }
    // The first call ever on a communicator, made by as many as go on without it: no vote tells who is the odd one.
    const auto went_on = std::ranges::count_if(node.absent, [](const Absence& absence) { return absence.moved_on; });
    doubt<Unknown::kFirstCallEver>(finding,
                                   node.kind == WaitKind::kCollective && node.sequence == 0 && first.moved_on &&
                                       node.waiting.size() <= static_cast<size_t>(went_on),
                                   ranks_fact(waiting_ranks(run, node)));
    doubt<Unknown::kByOwnPast>(finding, first.by_prediction, rank_fact(first.global_rank), "skipped the call");
    for (const Waiter& waiter : node.waiting) {
        const Process& sender = run.process(waiter.member);
        const bool is_unusual =
            node.kind == WaitKind::kPointToPoint && waiter.entry != nullptr && own_edit(sender, waiter.entry->place);
        doubt<Unknown::kMessageTooMany>(finding, is_unusual, rank_fact(sender.rank));
    }
    doubt_missing(unknown, finding);
    // A rank that needs another's unique id waits for it in the program, where nothing is recorded.
    doubt<Unknown::kWaitsForId>(finding, node.kind == WaitKind::kCreation && finding.ranks.size() > 1,
                                ranks_fact(finding.ranks));
    if (!process.sees.host_calls) {
        // Calls outside process groups and inside CUDA graphs leave no entry; that PyTorch itself gave up tells that it
        // hangs.
        const bool never_seen = first.member.row != kNoIndex && process.members[first.member.row].call_log.empty();
        const bool held =
            std::ranges::any_of(culprits.absences, [](const Absence& absence) { return !absence.held_by.empty(); });
        doubt<Unknown::kHostOfFile>(finding, !is_confirmed(run, node) || held, rank_fact(first.global_rank));
        doubt<Unknown::kLostRecords>(finding, never_seen && process.overwritten != 0);
    }
    const bool brief = longest_wait_ns(node) < certain_after_ns(run, node) && !is_confirmed(run, node) &&
                       process.liveness != Liveness::kExited;
    if (brief && is_over(run, node)) {
        depends_on<Unknown::kEndedIntoWait>(finding, duration_fact(longest_wait_ns(node)));
        return;
    }
    // A file of PyTorch's does not even say whether that rank stands still.
    const bool by_file = process.source.is_flight_recorder;
    doubt<Unknown::kBriefWaitOfFile>(finding, brief && by_file, duration_fact(longest_wait_ns(node)));
    doubt<Unknown::kBriefWait>(finding, brief && !by_file, duration_fact(longest_wait_ns(node)));
}

void explain_doubt(const Run& run, const Mismatch& mismatch, Finding& finding) {
    if (mismatch.most_deviate) {
        std::vector<int> others;
        for (const MemberRef ref : mismatch.others) {
            others.push_back(run.member(ref).global_rank);
        }
        depends_on<Unknown::kMostDeviate>(finding, ranks_fact(finding.ranks), ranks_fact(others));
    }
    if (finding.confidence == Confidence::kCertain) {
        return;
    }
    const Communicator& communicator = run.communicators[mismatch.communicator];
    if (mismatch.edit.or_extra) {
        depends_on(finding, Unknown::kSkippedOrExtra);
    }
    if (mismatch.edit.kind == EditKind::kExtra && mismatch.several_threads) {
        depends_on(finding, Unknown::kNextOfThread);
        return;
    }
    if (mismatch.edit.or_extra && mismatch.others.size() * 2 > communicator.by_rank.size()) {
        return;
    }
    std::vector<int> missing;
    std::vector<int> comm_ranks;
    std::vector<int> not_there;
    for (size_t rank = 0; rank < communicator.by_rank.size(); ++rank) {
        const MemberRef ref = communicator.by_rank[rank];
        const auto comm_rank = static_cast<int>(rank);
        if (!ref.known()) {
            const int global = run.global_rank(communicator, comm_rank);
            (global >= 0 ? missing : comm_ranks).push_back(global >= 0 ? global : comm_rank);
        } else if (run.member(ref).issued <= mismatch.sequence) {
            not_there.push_back(run.member(ref).global_rank);
        }
    }
    if (!missing.empty() || !comm_ranks.empty()) {
        finding.depends_on(missing_dumps_text(
            missing, comm_ranks.empty() ? std::string() : "communicator ranks " + rank_list(comm_ranks)));
    }
    if (!not_there.empty()) {
        depends_on<Unknown::kNotThereYet>(finding, ranks_fact(not_there));
    }
    const size_t compared = mismatch.culprits.size() + mismatch.others.size();
    const auto forgot =
        std::ranges::find_if(mismatch.culprits, [&](MemberRef ref) { return run.process(ref).overwritten != 0; });
    if (mismatch.undecidable && forgot != mismatch.culprits.end()) {
        depends_on<Unknown::kLostHabit>(finding, larger_ring_text(run.process(*forgot)));
    }
    doubt<Unknown::kAsManyMembers>(finding, mismatch.undecidable);
    doubt<Unknown::kFewMembers>(finding, !mismatch.undecidable, compared, verb_form(compared, "is", "are"));
}

void doubt_short_wait(const Run& run, const WaitNode& node, Finding& finding) {
    const int64_t waited_ns = longest_wait_ns(node);
    if (waited_ns < kSlowWorkNs && std::ranges::none_of(run.processes, called_a_hang)) {
        depends_on<Unknown::kSlowWork>(finding, duration_fact(waited_ns));
    }
}

void doubt_stuck(const Run& run, const WaitNode& node, Finding& finding) {
    const Communicator& communicator = run.communicators[node.communicator];
    doubt<Unknown::kGpusUnseen>(finding, node.device_unknown,
                                progress_advice(run.process(node.waiting.front().member)));
    const bool by_watchdog = std::ranges::all_of(
        node.waiting, [&](const Waiter& waiter) { return run.process(waiter.member).sees.by_watchdog; });
    doubt<Unknown::kStartsUnseen>(finding, by_watchdog && !members_started(node, node.waiting.size()));
    doubt<Unknown::kIdentityGuessed>(finding, communicator.identity_guessed);
    for (const Waiter& waiter : node.waiting) {
        if (const Process& process = run.process(waiter.member); has_lost_unfinished_calls(process)) {
            finding.depends_on(settled_by<Unknown::kLostUnfinished>(larger_ring_text(process)), Confidence::kPossible);
            break;
        }
    }
    if (const Waiter* const waiter = waiter_with_lost_arguments(node)) {
        depends_on<Unknown::kLostArguments>(finding, run.process(waiter->member).rank);
    }
    doubt_short_wait(run, node, finding);
    for (const Waiter& waiter : node.waiting) {
        if (node.kind == WaitKind::kPointToPoint && waiter.entry != nullptr &&
            may_wait_for_another_peer(run.process(waiter.member), run.member(waiter.member), *waiter.entry)) {
            depends_on<Unknown::kPeerOfGroup>(finding, run.process(waiter.member).rank);
            break;
        }
    }
    if (node.kind == WaitKind::kCreation) {
        depends_on(finding, Unknown::kInitUnseen);
    } else if (node.lost) {
        for (const MemberRef ref : communicator.members) {
            const Process& process = run.process(ref);
            if (process.call_at(run.member(ref), node.sequence) == nullptr && process.overwritten != 0) {
                finding.depends_on(larger_ring_text(process));
                break;
            }
        }
        doubt<Unknown::kEntriesOfAll>(finding, finding.would_confirm.empty());
    }
    // PyTorch's recorder learns of an end only when its watchdog or its dump looks: the record may merely be older.
    for (const Waiter& waiter : node.waiting) {
        const Process& process = run.process(waiter.member);
        if (process.sees.by_watchdog && !node.finished.empty()) {
            const int64_t later_ns = process.now_ns - node.last_finished_ns;
            const std::string when =
                node.last_finished_ns == 0 ? std::string()
                : later_ns < 0             ? "; its file is older than that end"
                               : fmt::format("; its file is {} younger than that end", duration_text(later_ns));
            depends_on<Unknown::kEndUnchecked>(finding, run.member(waiter.member).global_rank, when);
            break;
        }
    }
    // Some started; of the others nobody knows whether their streams came to it.
    doubt<Unknown::kSomeStartsUnseen>(finding, finding.confidence == Confidence::kCertain && members_started(node, 1) &&
                                                   !members_started(node, node.waiting.size()));
}

void doubt_guesses(const Run& run, const WaitNode& node, Finding& finding) {
    const auto any = [&](auto&& is_guessed) { return std::ranges::any_of(node.waiting, is_guessed); };
    doubt<Unknown::kTimesOfFiles>(finding, any([&](const Waiter& waiter) {
                                      return run.process(waiter.member).moment == Moment::kGuessed &&
                                             !is_confirmed(run, node);
                                  }));
    doubt<Unknown::kNumbersGuessed>(
        finding, any([](const Waiter& waiter) { return waiter.entry != nullptr && waiter.entry->number_guessed; }));
}

void doubt_end(const Process& process, Finding& finding) {
    doubt<Unknown::kEndGuessed>(finding, process.ending.guessed && !process.ending.unchecked);
    doubt<Unknown::kNotLookedUp>(finding, process.ending.unchecked, rank_fact(process.rank));
    doubt<Unknown::kHungBeforeEnd>(finding, process.ending.waited_ns != 0, duration_fact(process.ending.waited_ns));
}

void doubt_culprits_of_cycle(const Run& run, const std::vector<int>& ranks, bool by_prediction, Finding& finding) {
    for (const int rank : ranks) {
        const Process* process = process_of_rank(run, rank);
        if (!by_prediction && process != nullptr && process->overwritten != 0) {
            depends_on<Unknown::kLostOrder>(finding, larger_ring_text(*process));
            break;
        }
    }
    depends_on(finding, by_prediction ? Unknown::kOrderByPast : Unknown::kOrderMeant);
}

}  // namespace titan::analyzer
