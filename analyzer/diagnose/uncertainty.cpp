#include "uncertainty.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "came_and_left.h"
#include "causes.h"
#include "explain.h"
#include "host/words.h"
#include "host_threads.h"
#include "long_waits.h"
#include "overcommitted_hosts.h"
#include "rank_state.h"
#include "skipped_call.h"
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

std::string nothing_lost_text(const Process& process, format::Loss loss) {
    const auto index = static_cast<size_t>(loss);
    return fmt::format("nothing lost on rank {}: {} {}", process.rank, grouped_digits(process.losses[index]),
                       kLossSentences[index]);
}

std::string missing_members_text(const std::vector<Absence>& absences) {
    const bool one = absences.size() == 1 && absences.front().global_rank >= 0;
    return fmt::format("{} of {} (missing)", one ? "a dump" : "dumps", absent_fact(absences));
}

bool is_confirmed(const Run& run, const WaitNode& node) {
    return std::any_of(node.waiting.begin(), node.waiting.end(),
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
    return call.group != 0 && (is_cut || std::any_of(process.entries.begin(), process.entries.end(), is_with_another));
}

}  // namespace

std::string progress_advice(const Process& process) {
    const bool by_events = process.gpu_method == format::GpuProgressMethod::kEvents;
    return std::string("TITANTRACE_GPU_PROGRESS=writes") +
           (by_events ? ", the default, and rings in memory (/dev/shm) rather than on a disk" : "");
}

std::string missing_dumps_text(const std::vector<int>& ranks, const std::string& what) {
    const std::string who = ranks.empty() ? what : ranks_text(ranks) + (what.empty() ? "" : " and " + what);
    return fmt::format("{} of {} (missing)", ranks.size() == 1 && what.empty() ? "a dump" : "dumps", who);
}

std::string larger_ring_text(const Process& process) {
    return fmt::format("a larger {}: {} entries of rank {} were overwritten",
                       process.source.is_flight_recorder ? "TORCH_FR_BUFFER_SIZE" : "TITANTRACE_COLLECTIVES",
                       grouped_digits(process.overwritten), process.rank);
}

// A stopped process shows no sign of life either. If all were killed in the end, and nobody told one of them to end,
// the rings are the same as those of a rank that had been stopped until then.
bool may_have_been_stopped(const Run& run, const Process& process) {
    const auto left_a_ring_alone = [](const Process& other) {
        return (other.source.is_ring || other.source.reason == format::DumpReason::kCollected) && !other.ending.asked();
    };
    return process.liveness == Liveness::kKilled && run.processes.size() > 1 &&
           witnessed_end(run, process.rank) == nullptr &&
           std::all_of(run.processes.begin(), run.processes.end(), left_a_ring_alone);
}

namespace {

std::string lost_unfinished_text(const Process& process) {
    return larger_ring_text(process) + ", unfinished ones among them, and it may hang in one of those";
}

Sentence lost_call_text(const Process& process, int64_t waited_ns) {
    return phrase(
        "a larger TITANTRACE_COLLECTIVES: a thread of {} waits for {}, and the entry of its call may be overwritten",
        rank_fact(process.rank), duration_fact(waited_ns));
}

// Nothing on record holds it, and yet a thread of it has waited for its timeout, or calls that had not ended are
// overwritten: the rest of the rank may wait for these.
void doubt_free_host(const Run& run, const Absence& absence, Finding& finding) {
    const Process& process = run.process(absence.member);
    if (absence.held_by.empty() && process.overwritten != 0) {
        const int64_t waited_ns = hangs_for_ns(run, process);
        finding.doubt(waited_ns > 0, lost_call_text(process, waited_ns));
        finding.doubt(waited_ns <= 0 && has_lost_unfinished_calls(process), lost_unfinished_text(process));
    }
}

// That somebody waits in it is known by counters alone.
void doubt_lost_wait(const Run& run, const WaitNode& node, Finding& finding) {
    const auto is_lost = [](const Waiter& waiter) { return waiter.entry == nullptr; };
    const auto found = std::find_if(node.waiting.begin(), node.waiting.end(), is_lost);
    if (node.kind != WaitKind::kCreation && found != node.waiting.end()) {
        finding.depends_on(lost_call_text(run.process(found->member), found->age_ns));
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
    std::copy_if(node.absent.begin(), node.absent.end(), std::back_inserter(unknown),
                 [](const Absence& absence) { return absence.reason == AbsenceReason::kUnknown; });
    if (first.reason == AbsenceReason::kLeft || (first.reason == AbsenceReason::kUnknown && first.member.known())) {
        finding.doubt(
            true, phrase("what {} did after its record ended: a later dump, or its log", rank_fact(first.global_rank)));
        return;
    }
    if (first.reason == AbsenceReason::kUnknown) {
        finding.doubt(true, missing_members_text(unknown));
        finding.doubt(node.waiting.size() < 2, "a second member that waits there: one may be the odd one itself",
                      Confidence::kPossible);
        if (run.partial_recording && finding.confidence != Confidence::kPossible) {
            finding.doubt(true, "a run without TITANTRACE_RANKS: it kept some ranks from recording");
        }
        return;
    }
    const Process& process = run.processes[first.member.process];
    if (process.died() || first.reason == AbsenceReason::kFailed) {
        finding.doubt(may_have_been_stopped(run, process),
                      phrase("the log of the launcher or of the kernel: {} may have been stopped, and killed with the "
                             "others",
                             rank_fact(process.rank)));
        return;
    }
    finding.doubt(is_unchecked(process) && process.now_ns + kCertainAfterNs < latest_end_ns(node),
                  phrase("whether {} still ran: its ring shows no sign of life in the last {} of the others', and "
                         "nobody could look it up",
                         rank_fact(process.rank), duration_fact(latest_end_ns(node) - process.now_ns)));
    const auto lost = [&](format::Loss loss) {
        finding.doubt(process.losses[static_cast<size_t>(loss)] != 0, nothing_lost_text(process, loss));
    };
    finding.doubt(process.torn > 1, phrase("another dump of {}: {} of its entries are damaged or were being "
                                           "written",
                                           rank_fact(process.rank), grouped_digits(process.torn)));
    lost(format::Loss::kUnknownCommunicators);
    lost(format::Loss::kCommunicatorsUntracked);
    doubt_free_host(run, first, finding);
    doubt_lost_wait(run, node, finding);
    if (node.kind == WaitKind::kPointToPoint) {
        lost(format::Loss::kP2pUncounted);
        // In an exchange each pair counts for itself: no vote decides whether one side skipped it or the other made one
        // too many.
        const Entry* waiting = node.waiting.front().entry;
        const MemberRef waiter = node.waiting.front().member;
        finding.doubt(first.moved_on && waiting != nullptr &&
                          may_wait_for_another_peer(run.process(waiter), run.member(waiter), *waiting),
                      phrase("the program, or step markers (titan_step): {} may have made one exchange too "
                             "many, or skipped another one",
                             rank_fact(run.member(waiter).global_rank)));
        finding.doubt(node.lost, larger_ring_text(process),
                      run.member(first.member).p2p_counted ? Confidence::kLikely : Confidence::kPossible);
    }
    if (const Process* const starting = may_be_starting(run, culprits)) {
        finding.doubt(true,
                      phrase("a later dump: {} may only be slow to start, for its threads were ready to run and got no "
                             "processor for {}",
                             rank_fact(starting->rank), duration_fact(lacked_processors_ns(*starting))));
    }
    // The first call ever on a communicator, made by as many as go on without it: no vote tells who is the odd one.
    const auto went_on =
        std::count_if(node.absent.begin(), node.absent.end(), [](const Absence& absence) { return absence.moved_on; });
    finding.doubt(node.kind == WaitKind::kCollective && node.sequence == 0 && first.moved_on &&
                      node.waiting.size() <= static_cast<size_t>(went_on),
                  phrase("the program: nothing was called on that communicator before, so {} may have made a call "
                         "too many",
                         ranks_fact(waiting_ranks(run, node))));
    finding.doubt(first.by_prediction,
                  phrase("the program: that {} skipped the call is only inferred from the order of its earlier calls",
                         rank_fact(first.global_rank)));
    finding.doubt(!unknown.empty(), missing_members_text(unknown));
    // A rank that needs another's unique id waits for it in the program, where nothing is recorded.
    finding.doubt(node.kind == WaitKind::kCreation && finding.ranks.size() > 1,
                  phrase("stacks of {}: one of them may wait for another outside NCCL, for example for a unique id",
                         ranks_fact(finding.ranks)));
    if (!process.sees.host_calls) {
        // Calls outside process groups and inside CUDA graphs leave no entry; that PyTorch itself gave up tells that it
        // hangs.
        const bool never_seen = first.member.row != kNoIndex && process.members[first.member.row].call_log.empty();
        const bool held = std::any_of(culprits.absences.begin(), culprits.absences.end(),
                                      [](const Absence& absence) { return !absence.held_by.empty(); });
        finding.doubt(
            !is_confirmed(run, node) || held,
            phrase("the stack of {} (py-spy dump): a Flight Recorder dump does not say what a rank does on its "
                   "host",
                   rank_fact(first.global_rank)));
        finding.doubt(never_seen && process.overwritten != 0,
                      "a larger TORCH_FR_BUFFER_SIZE: its older entries were overwritten");
    }
    const bool brief = longest_wait_ns(node) < certain_after_ns(run, node) && !is_confirmed(run, node) &&
                       process.liveness != Liveness::kExited;
    if (brief && is_over(run, node)) {
        finding.doubt(true, phrase("the log of the launcher: the job ended {} into the wait, before a watchdog called "
                                   "it a hang",
                                   duration_fact(longest_wait_ns(node))));
        return;
    }
    // A file of PyTorch's does not even say whether that rank stands still.
    const bool by_file = process.source.is_flight_recorder;
    finding.doubt(brief,
                  phrase("a later dump: the wait lasts only {} so far{}", duration_fact(longest_wait_ns(node)),
                         by_file ? ", and PyTorch's watchdog has not ended it"
                                 : ", and the watchdog (TITANTRACE_TIMEOUT_S) has not called it a hang"),
                  by_file ? Confidence::kPossible : Confidence::kLikely);
}

void explain_doubt(const Run& run, const Mismatch& mismatch, Finding& finding) {
    if (finding.confidence == Confidence::kCertain) {
        return;
    }
    const Communicator& communicator = run.communicators[mismatch.communicator];
    if (mismatch.skipped_or_extra) {
        finding.depends_on(
            "step markers (titan_step), or the program: a skipped call and an extra one leave the same sequence where "
            "a "
            "step repeats");
    }
    if (mismatch.shift == Shift::kExtra && mismatch.several_threads) {
        finding.depends_on(
            "the program: whether the others' thread was to make that call next; then it came too early there, else it "
            "is one too many");
        return;
    }
    if (mismatch.skipped_or_extra && mismatch.others.size() * 2 > communicator.by_rank.size()) {
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
        finding.depends_on(phrase("a later dump of {}: {} not made that call yet", ranks_fact(not_there),
                                  verb_form(not_there.size(), "it has", "they have")));
    }
    std::set<uint32_t> told;
    const size_t compared = mismatch.culprits.size() + mismatch.others.size();
    for (const auto* side : {&mismatch.culprits, &mismatch.others}) {
        for (const MemberRef ref : *side) {
            const Process& process = run.process(ref);
            if (mismatch.undecidable && process.overwritten != 0 && told.empty() && told.insert(ref.process).second) {
                finding.depends_on(larger_ring_text(process) +
                                   "; what was always done there would show which side is right");
            }
        }
    }
    finding.depends_on(
        mismatch.undecidable
            ? "the program: each side has as many members, and the record does not show which is right"
            : phrase("more members to compare: only {} {} recorded there; which of them is wrong is inferred "
                     "from earlier "
                     "calls",
                     compared, verb_form(compared, "is", "are")));
}

void doubt_short_wait(const Run& run, const WaitNode& node, Finding& finding) {
    const int64_t waited_ns = longest_wait_ns(node);
    if (waited_ns < kSlowWorkNs && std::none_of(run.processes.begin(), run.processes.end(), called_a_hang)) {
        finding.depends_on(
            phrase("a later dump: slow work looks the same for {}, and no watchdog has called this a hang",
                   duration_fact(waited_ns)));
    }
}

void doubt_stuck(const Run& run, const WaitNode& node, Finding& finding) {
    const Communicator& communicator = run.communicators[node.communicator];
    finding.doubt(node.device_unknown,
                  progress_advice(run.process(node.waiting.front().member)) +
                      ": how far the GPUs are is not recorded on all members",
                  Confidence::kPossible);
    const bool by_watchdog = std::all_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
        return run.process(waiter.member).sees.by_watchdog;
    });
    finding.doubt(by_watchdog && !members_started(node, node.waiting.size()),
                  "TORCH_NCCL_ENABLE_TIMING=1: whether the GPUs came to the call is not recorded; a kernel ahead of it "
                  "on one of them looks the same");
    finding.doubt(communicator.identity_guessed,
                  "the creation of the communicator: it is not recorded, so which ranks belong to it is guessed",
                  Confidence::kPossible);
    for (const Waiter& waiter : node.waiting) {
        if (const Process& process = run.process(waiter.member); has_lost_unfinished_calls(process)) {
            finding.depends_on(lost_unfinished_text(process), Confidence::kPossible);
            break;
        }
    }
    if (const Waiter* const waiter = waiter_with_lost_arguments(node)) {
        finding.depends_on(fmt::format("the arguments of rank {}'s call, which are overwritten and may differ",
                                       run.process(waiter->member).rank));
    }
    doubt_short_wait(run, node, finding);
    for (const Waiter& waiter : node.waiting) {
        if (node.kind == WaitKind::kPointToPoint && waiter.entry != nullptr &&
            may_wait_for_another_peer(run.process(waiter.member), run.member(waiter.member), *waiter.entry)) {
            finding.depends_on(
                fmt::format("which peer the group of rank {} waits for: one kernel carries its sends and receives",
                            run.process(waiter.member).rank));
            break;
        }
    }
    if (node.kind == WaitKind::kCreation) {
        finding.depends_on("NCCL_DEBUG=INFO on the ranks named: how far each is in the creation is not recorded");
    } else if (node.lost) {
        for (const MemberRef ref : communicator.members) {
            const Process& process = run.process(ref);
            if (process.call_at(run.member(ref), node.sequence) == nullptr && process.overwritten != 0) {
                finding.depends_on(larger_ring_text(process));
                break;
            }
        }
        finding.doubt(finding.would_confirm.empty(), "the entries of all members: one of them is lost");
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
            finding.depends_on(
                fmt::format("a later dump of rank {}: PyTorch may not have checked yet whether the call ended there{}",
                            run.member(waiter.member).global_rank, when));
            break;
        }
    }
    // Some started; of the others nobody knows whether their streams came to it.
    finding.doubt(finding.confidence == Confidence::kCertain && members_started(node, 1) &&
                      !members_started(node, node.waiting.size()),
                  "TITANTRACE_GPU_PROGRESS=writes on all ranks: of some it is not known whether their GPU started it");
}

void doubt_guesses(const Run& run, const WaitNode& node, Finding& finding) {
    const auto any = [&](auto&& is_guessed) {
        return std::any_of(node.waiting.begin(), node.waiting.end(), is_guessed);
    };
    finding.doubt(
        any([&](const Waiter& waiter) {
            return run.process(waiter.member).moment == Moment::kGuessed && !is_confirmed(run, node);
        }),
        "the files with their own times (cp -p): when they were written, and so how long anything waits, is not known",
        Confidence::kPossible);
    finding.doubt(
        any([](const Waiter& waiter) { return waiter.entry != nullptr && waiter.entry->number_guessed; }),
        "a larger TORCH_FR_BUFFER_SIZE: which send belongs to which receive is counted from a beginning that is lost",
        Confidence::kPossible);
}

void doubt_end(const Process& process, Finding& finding) {
    finding.doubt(
        process.ending.guessed,
        "what the launcher says: which of the processes ended first, all within about a second, is not recorded");
    finding.doubt(
        process.ending.waited_ns != 0,
        phrase("a watchdog's dump from before its end: it had waited for {} when it was killed, so the job may have "
               "hung already",
               duration_fact(process.ending.waited_ns)));
}

void doubt_culprits_of_cycle(const Run& run, const std::vector<int>& ranks, bool by_prediction, Finding& finding) {
    for (const int rank : ranks) {
        const Process* process = process_of_rank(run, rank);
        if (!by_prediction && process != nullptr && process->overwritten != 0) {
            finding.depends_on(larger_ring_text(*process) + ", and with them its earlier order");
            break;
        }
    }
    finding.depends_on(by_prediction
                           ? "more ranks to compare: each order has as many ranks; which is wrong is inferred from "
                             "earlier calls"
                           : "the order that the program intends: the record does not show which of them is wrong");
}

}  // namespace titan::analyzer
