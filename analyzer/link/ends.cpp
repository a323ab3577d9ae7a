#include "ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <set>

#include "causes.h"
#include "host/words.h"
#include "host_threads.h"
#include "match.h"
#include "wait_graph.h"
#include "waiters.h"
#include "witnessed_ends.h"

namespace titan::analyzer {
namespace {

// A heartbeat comes each second: a process that shows life this much later than another was alive when that one was
// not.
constexpr int64_t kHeartbeatNs = 1'500'000'000;
// Machines do not fall silent together as their processes do, and their clocks differ.
constexpr int64_t kOtherHostNs = 3'000'000'000;
// Time from the moment a launcher begins to end processes until the first of them has noted it.
constexpr int64_t kNoteNs = 50'000'000;
// Dumps of processes that are told to end are made within this time.
constexpr int64_t kEndingNs = 1'000'000'000;
// A program that goes on for this long after a signal was not ended by it.
constexpr int64_t kOutlivedNs = 120'000'000'000;
// A wait that is this many times as long as usual, and at least this long, is one for a process that had ended.
constexpr int64_t kLongWaitFactor = 20;
constexpr int64_t kLongWaitNs = 100'000'000;

// A process that is gone is saved with the next dump of its host, and one that runs shows a sign of life each second.
constexpr int64_t kSilentNs = 5'000'000'000;

class EndJudge {
  public:
    explicit EndJudge(Run& run) : run_(run) {}

    void judge() {
        find_asked();
        find_own();
        leave_out_those_who_were_there();
        if (!unasked_.empty() || !outlived_.empty()) {
            find_hang();
            end_those_nobody_waits_for();
        }
        if (unasked_.empty()) {
            warn_of_ended();
            admit_missing();
            judge_unchecked();
            return;
        }
        end_those_in_a_hang();
        end_those_after_the_first();
        const bool nobody_asked = asked_.empty();
        apply_logs();
        if (nobody_asked) {
            judge_common_death();
        } else {
            doubt_several();
        }
        warn_of_ended();
    }

  private:
    Process& process(uint32_t index) { return run_.processes[index]; }
    void end(uint32_t index) {
        Process& one = process(index);
        one.liveness = Liveness::kEnded;
        // A wait while the job was being ended is no hang.
        if (one.ending.asked() && one.now_ns > one.ending.asked_ns + kEndingNs) {
            one.now_ns = one.ending.asked_ns;
        }
        unasked_.erase(index);
        asked_.insert(index);
    }

    static bool is_over(const Process& process) {
        return process.has_ended() || process.liveness == Liveness::kUnknown;
    }

    // When its own end came, as far as that is known exactly; else its last sign of life.
    static int64_t ended_ns(const Process& process) {
        return process.ending.left_ns != 0 ? process.ending.left_ns : process.ending.seen_ns;
    }

    void find_asked() {
        std::map<std::pair<std::string, int32_t>, std::vector<uint32_t>> by_sender;
        for (uint32_t i = 0; i < run_.processes.size(); ++i) {
            const Process& one = process(i);
            const Ending& ending = one.ending;
            const bool outlived = ending.seen_ns > ending.asked_ns + kOutlivedNs;
            const bool left_before = ending.left_ns != 0 && ending.left_ns < ending.asked_ns;
            if (ending.asked() && is_over(one) && !outlived && !left_before) {
                by_sender[{one.host, ending.sender}].push_back(i);
            }
        }
        for (const auto& [key, asked] : by_sender) {
            if (!asked_first_by_another(key, by_sender)) {
                std::for_each(asked.begin(), asked.end(),
                              [&](uint32_t i) { is_outlived(process(i)) ? void(outlived_.insert(i)) : end(i); });
            }
        }
    }

    // Others live on, and nobody ended by itself: whoever told this one to end did not end the job.
    bool is_outlived(const Process& one) const {
        const auto ended_unasked = [](const Process& other) { return other.died() && !other.ending.asked(); };
        return run_.missing_ranks.empty() && std::ranges::none_of(run_.processes, ended_unasked) &&
               std::ranges::any_of(run_.processes, [&](const Process& other) {
                   const int64_t margin_ns = other.host == one.host ? kHeartbeatNs : kOtherHostNs;
                   return !is_over(other) && other.now_ns > ended_ns(one) + margin_ns;
               });
    }

    void end_those_nobody_waits_for() {
        for (const uint32_t i : outlived_) {
            bool is_awaited = false;
            for (size_t node = 0; node < graph_.nodes.size(); ++node) {
                is_awaited |= hangs_[node] == Hang::kByTime &&
                              std::ranges::any_of(graph_.nodes[node].absent, [&](const Absence& absence) {
                                  return absence.member.known() && absence.member.process == i;
                              });
            }
            if (!is_awaited) {
                end(i);
            }
        }
    }

    // Somebody ended a few processes of a host by hand, and then the launcher the rest.
    template <typename Groups>
    bool asked_first_by_another(const std::pair<std::string, int32_t>& key, const Groups& groups) {
        size_t others = 0;
        int64_t earliest_other = INT64_MAX;
        int64_t latest = 0;
        for (const auto& [other, asked] : groups) {
            for (const uint32_t i : asked) {
                const int64_t asked_ns = process(i).ending.asked_ns;
                if (other == key) {
                    latest = std::max(latest, asked_ns);
                } else if (other.first == key.first) {
                    ++others;
                    earliest_other = std::min(earliest_other, asked_ns);
                }
            }
        }
        return others > groups.at(key).size() && latest < earliest_other;
    }

    // Finds processes that ended without being told to. One whose fate nobody could look up counts if others were told
    // to end.
    void find_own() {
        for (uint32_t i = 0; i < run_.processes.size(); ++i) {
            Process& one = process(i);
            const Testimony* said = witnessed_end(run_, one.rank);
            const bool witnessed = said != nullptr && said->order != EndOrder::kAfterOthers;
            if (one.liveness == Liveness::kUnknown && (!asked_.empty() || witnessed)) {
                one.liveness = Liveness::kKilled;
            }
            if (one.died()) {
                unasked_.insert(i);
            }
        }
    }

    // Killed in the end, and silent long before; but not gone by then.
    void leave_out_those_who_were_there() {
        for (const uint32_t i : std::set<uint32_t>(unasked_)) {
            Process& one = process(i);
            if (one.liveness == Liveness::kKilled && dumped_beside(run_, one) != nullptr &&
                witnessed_end(run_, one.rank) == nullptr) {
                one.ending.halt = Halt::kSilent;
                one.liveness = Liveness::kEnded;
                unasked_.erase(i);
            }
        }
    }

    // Finds what would hang if nobody were dead: it is older than any end.
    void find_hang() {
        std::map<uint32_t, Liveness> before;
        for (const uint32_t i : unasked_) {
            before[i] = process(i).liveness;
            process(i).liveness = Liveness::kEnded;
        }
        graph_ = build_wait_graph(run_, SiblingEdits(run_), find_mismatches(run_));
        hangs_ = find_hangs(run_, graph_, {});
        for (const auto& [i, liveness] : before) {
            process(i).liveness = liveness;
        }
    }

    // Members that are missing for other reasons than a wait for others. A call for which all have come holds nobody:
    // the record ended in it.
    std::vector<uint32_t> awaited_in(const WaitNode& node) const {
        std::vector<uint32_t> awaited;
        for (const Absence& absence : node.absent) {
            const bool held = std::any_of(absence.held_by.begin(), absence.held_by.end(),
                                          [&](uint32_t index) { return waits_for_others(graph_.nodes[index]); });
            if (absence.reason != AbsenceReason::kUnknown && !held && absence.member.known()) {
                awaited.push_back(absence.member.process);
            }
        }
        return awaited;
    }

    // A watchdog has called it a hang, or would have by now: its dump may have been followed by a later record.
    bool is_confirmed(const Waiter& waiter) {
        const Process& waiting = run_.process(waiter.member);
        return called_a_hang(waiting) || (waiting.timeout_ns != 0 && waiter.age_ns >= waiting.watchdog_ns());
    }

    // When a watchdog called it a hang, or would have: one that wrote no dump then lived on. A ring that is newer than
    // its dump goes on.
    int64_t confirmed_ns(const Waiter& waiter) {
        const Process& waiting = run_.process(waiter.member);
        if (!called_a_hang(waiting)) {
            return waiting.now_ns - (waiter.age_ns - waiting.watchdog_ns());
        }
        return waiting.source.replaced_ns != 0 ? waiting.source.replaced_ns : waiting.now_ns;
    }

    // A watchdog had called it a hang when this process still lived, so its end is not what the others wait for.
    bool outlived_hang(uint32_t index, const WaitNode& node) {
        const Process& one = process(index);
        return std::any_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
            const int64_t margin_ns = run_.process(waiter.member).host == one.host ? 0 : kOtherHostNs;
            return is_confirmed(waiter) && ended_ns(one) > confirmed_ns(waiter) + margin_ns;
        });
    }

    // Nobody ended with it: the others live, or were told to end only after its last sign of life.
    bool ended_alone(uint32_t index) {
        for (uint32_t other = 0; other < run_.processes.size(); ++other) {
            const Process& one = process(other);
            const bool later =
                asked_.contains(other) && one.ending.asked() && one.ending.asked_ns > ended_ns(process(index));
            if (other != index && is_over(one) && !later) {
                return false;
            }
        }
        return true;
    }

    // A thread that does not work for the program ended the process: PyTorch's watchdog and heartbeat monitor do so
    // after a hang.
    static bool ended_by_monitor(const Process& one) {
        return one.liveness == Liveness::kCrashed && one.fatal_signal == SIGABRT && one.fatal_thread != 0 &&
               static_cast<int32_t>(one.fatal_thread) != working_thread(one);
    }

    // It aborted the communicator, whose call had not ended.
    bool gave_up_a_wait(const Waiter& waiter) const {
        return waiter.member.row != kNoIndex && run_.member(waiter.member).state == format::CommState::kAborted;
    }

    // One of several that were killed, none of them asked, after it had itself waited for longer than this run ever
    // waits: the others' waits merely lasted until they were killed, too.
    bool killed_one_by_one(const WaitNode& node, const Waiter& waiter) {
        const uint32_t index = waiter.member.process;
        return process(index).liveness == Liveness::kKilled && asked_.empty() && !ended_alone(index) &&
               waiter.age_ns > hang_after_ns(run_, node, {});
    }

    // A watchdog that aborts a waiting rank is not the cause of the wait. A rank that is killed alone may be: the
    // others wait for it once the late member has come. Only a wait that a watchdog has called a hang was one before. A
    // rank that aborted its communicator first had given up a wait, for whatever reason.
    void add_hung(const WaitNode& node, std::set<uint32_t>& hung) {
        // One that ended soon after it had come was not ended because of the wait.
        const int64_t longest_ns = longest_wait_ns(node);
        const bool confirmed = std::any_of(node.waiting.begin(), node.waiting.end(),
                                           [&](const Waiter& waiter) { return is_confirmed(waiter); });
        const bool for_others = waits_for_others(node);
        for (const Waiter& waiter : node.waiting) {
            const uint32_t index = waiter.member.process;
            const bool gave_up = gave_up_a_wait(waiter);
            const bool by_monitor = confirmed && ended_by_monitor(process(index));
            const bool one_by_one = killed_one_by_one(node, waiter);
            const bool to_the_end = waiter.age_ns > longest_ns / 2 || one_by_one;
            if (!to_the_end || !(for_others || gave_up || by_monitor || one_by_one)) {
                continue;
            }
            if (!confirmed && process(index).liveness == Liveness::kKilled && ended_alone(index)) {
                process(index).ending.waited_ns = std::max(process(index).ending.waited_ns, waiter.age_ns);
            } else {
                hung.insert(index);
            }
        }
        for (const uint32_t index : awaited_in(node)) {
            if (process(index).liveness == Liveness::kKilled && outlived_hang(index, node)) {
                hung.insert(index);
            }
        }
    }

    // Their monitors gave up a wait, aborted the communicators and ended them. An abort may end the calls that would
    // tell what they waited for.
    void add_ended_after_an_abort(std::set<uint32_t>& hung) {
        std::vector<int> ranks;
        for (const uint32_t i : unasked_) {
            if (gave_up_ns(process(i)) != 0 && ended_by_monitor(process(i))) {
                hung.insert(i);
                ranks.push_back(process(i).rank);
            }
        }
        if (!ranks.empty()) {
            sort_unique(ranks);
            run_.end_unclear = fmt::format(
                "a monitor such as PyTorch's watchdog aborted the communicators of {} and ended {}: dumps from before "
                "the abort would show the wait that it gave up (TITANTRACE_KEEP keeps so many of a rank)",
                ranks_text(ranks), verb_form(ranks.size(), "it", "them"));
        }
    }

    void end_those_in_a_hang() {
        std::set<uint32_t> hung;
        for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
            if (hangs_[node] == Hang::kByTime) {
                add_hung(graph_.nodes[node], hung);
            }
        }
        add_ended_after_an_abort(hung);
        for (const uint32_t i : hung) {
            if (unasked_.contains(i)) {
                int64_t& of_host = hung_until_[process(i).host];
                of_host = std::max(of_host, ended_ns(process(i)));
                end(i);
            }
        }
    }

    // Compares by the clock of the process's own host, if one of the ranks that hung ran there.
    bool ended_with_the_hang(const Process& one) const {
        if (const auto own = hung_until_.find(one.host); own != hung_until_.end()) {
            return ended_ns(one) + kHeartbeatNs > own->second;
        }
        return std::any_of(hung_until_.begin(), hung_until_.end(),
                           [&](const auto& other) { return ended_ns(one) + kOtherHostNs > other.second; });
    }

    // A process that shows life when the others were already being ended did not end first.
    void end_those_after_the_first() {
        for (const uint32_t i : asked_) {
            if (const Ending& ending = process(i).ending; ending.asked()) {
                int64_t& first = first_asked_.try_emplace(process(i).host, INT64_MAX).first->second;
                first = std::min(first, ending.asked_ns);
            }
        }
        for (const uint32_t i : std::set<uint32_t>(unasked_)) {
            const Process& one = process(i);
            const auto asked = first_asked_.find(one.host);
            const bool after_asked = asked != first_asked_.end() && ended_ns(one) > asked->second + kNoteNs;
            if (after_asked || (first_asked_.empty() && ended_with_the_hang(one))) {
                end(i);
            }
        }
    }

    // A launcher says whom it saw fail before it ended the others.
    void apply_logs() {
        const int first = witnessed_first(run_);
        const bool in_own =
            std::any_of(unasked_.begin(), unasked_.end(), [&](uint32_t i) { return process(i).rank == first; });
        if (!in_own && !died_unrecorded(run_, first)) {
            return;
        }
        witnessed_first_ = first;
        for (const uint32_t i : std::set<uint32_t>(unasked_)) {
            const Testimony* said = witnessed_end(run_, process(i).rank);
            if (said != nullptr && said->order == EndOrder::kAfterOthers) {
                end(i);
            }
        }
    }

    // A process that is killed right after it was told to end has no time to note that, and one that was just starting
    // no means. So where several ended without a note or left no record at all, and none of them long before, each may
    // be one of those.
    void doubt_several() {
        std::vector<uint32_t> close;
        for (const uint32_t i : unasked_) {
            const auto asked = first_asked_.find(process(i).host);
            if (process(i).liveness == Liveness::kKilled && process(i).rank != witnessed_first_ &&
                asked != first_asked_.end() && process(i).ending.seen_ns + kHeartbeatNs > asked->second) {
                close.push_back(i);
            }
        }
        const size_t unrecorded = run_.partial_recording || witnessed_first_ >= 0 ? 0 : run_.missing_ranks.size();
        if (close.size() + unrecorded > 1) {
            std::for_each(close.begin(), close.end(), [&](uint32_t i) { process(i).ending.guessed = true; });
        }
    }

    bool all_over() const {
        return std::all_of(run_.processes.begin(), run_.processes.end(),
                           [](const Process& one) { return is_over(one); });
    }

    // Nobody was told to end, and nobody is left.
    void judge_common_death() {
        if (!all_over()) {
            return;
        }
        std::set<uint32_t> killed;
        for (const uint32_t i : unasked_) {
            if (process(i).liveness == Liveness::kKilled) {
                killed.insert(i);
            }
        }
        if (!killed.empty()) {
            for (const uint32_t i : std::set<uint32_t>(unasked_)) {
                if (failed_for_a_peer(process(i))) {
                    end(i);
                }
            }
        }
        const std::set<uint32_t> silent = silent_before_others(killed);
        const bool others_failed = killed.size() < unasked_.size();
        if (witnessed_first_ >= 0) {
            for (const uint32_t i : killed) {
                if (process(i).rank != witnessed_first_ && !silent.contains(i)) {
                    end(i);
                }
            }
            return;
        }
        if (silent.empty() && !others_failed && killed.size() > 1) {
            judge_by_waits(killed);
            return;
        }
        if (killed.size() == 1 && !others_failed && run_.missing_ranks.size() > run_.processes.size()) {
            run_.end_unclear =
                "its process is gone, and nothing shows whether it ended before those that left no record";
            end(*killed.begin());
            return;
        }
        for (const uint32_t i : killed) {
            if (!silent.contains(i) && (others_failed || !silent.empty())) {
                end(i);
            }
        }
    }

    std::set<uint32_t> silent_before_others(const std::set<uint32_t>& killed) {
        std::map<std::string, int64_t> latest_of_host;
        int64_t latest = 0;
        for (const Process& one : run_.processes) {
            int64_t& of_host = latest_of_host[one.host];
            of_host = std::max(of_host, one.ending.seen_ns);
            latest = std::max(latest, one.ending.seen_ns);
        }
        std::set<uint32_t> silent;
        for (const uint32_t i : killed) {
            const Process& one = process(i);
            if (one.ending.seen_ns + kHeartbeatNs < latest_of_host[one.host] ||
                one.ending.seen_ns + kOtherHostNs < latest) {
                silent.insert(i);
            }
        }
        return silent;
    }

    // The process for whom all the others had been waiting for much longer than they ever do: it ended first, most
    // likely. None where a wait is long enough to be a hang, or several are waited for.
    std::optional<uint32_t> awaited_by_all() {
        std::set<uint32_t> awaited;
        bool long_wait = false;
        for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
            const WaitNode& node = graph_.nodes[index];
            if (hangs_[index] != Hang::kNone) {
                return std::nullopt;
            }
            for (const uint32_t missing : awaited_in(node)) {
                awaited.insert(missing);
                long_wait |= std::any_of(node.waiting.begin(), node.waiting.end(),
                                         [&](const Waiter& waiter) { return is_long(waiter, missing); });
            }
        }
        return awaited.size() == 1 && long_wait ? std::optional(*awaited.begin()) : std::nullopt;
    }

    // All were killed within a second or so: which was first, only the waits may tell.
    void judge_by_waits(const std::set<uint32_t>& killed) {
        const std::optional<uint32_t> first = awaited_by_all();
        for (const uint32_t i : killed) {
            if (first != i) {
                end(i);
            }
        }
        if (first && killed.contains(*first)) {
            process(*first).ending.guessed = true;
        } else if (std::none_of(hangs_.begin(), hangs_.end(), [](Hang hang) { return hang != Hang::kNone; })) {
            run_.end_unclear = fmt::format(
                "all {} processes were killed within {} of each other, none was waited for longer than usual, and "
                "nothing shows "
                "which was first",
                run_.processes.size(), duration_text(kHeartbeatNs));
        }
    }

    // The waiter was seen alive that much later, in the same wait.
    bool is_long(const Waiter& waiter, uint32_t missing) {
        const int64_t typical_ns = std::min(run_.member(waiter.member).typical_ns, INT64_MAX / kLongWaitFactor);
        const int64_t waited_ns = run_.process(waiter.member).ending.seen_ns - waiter.since_ns;
        return waited_ns > std::max(kLongWaitNs, typical_ns * kLongWaitFactor) &&
               process(missing).ending.seen_ns < run_.process(waiter.member).ending.seen_ns;
    }

    void warn_of_ended() {
        std::map<int32_t, std::vector<int>> by_signal;
        for (const uint32_t i : asked_) {
            by_signal[process(i).ending.signal].push_back(process(i).rank);
        }
        for (const auto& [signal, ranks] : by_signal) {
            const size_t count = ranks.size();
            const std::string how =
                signal == 0 ? "ended with the job"
                            : fmt::format("{} told to end by {}", verb_form(count, "was", "were"), signal_text(signal));
            run_.warnings.push_back(
                {WarningKind::kJobEnded, ranks,
                 fmt::format("{} {}: the report shows {} as {} before that", ranks_text(ranks), how,
                             verb_form(count, "it", "them"), verb_form(count, "it was", "they were"))});
        }
    }

    // Everybody of whom there is a record was told to end. That can be because of one of whom there is none.
    void admit_missing() {
        const auto& missing = run_.missing_ranks;
        const bool witnessed =
            std::any_of(missing.begin(), missing.end(), [&](int rank) { return died_unrecorded(run_, rank); });
        if (!asked_.empty() && all_over() && !missing.empty() && !run_.partial_recording && !witnessed) {
            run_.end_unclear =
                fmt::format("{} {} told to end; {} left no record, and nothing shows whether {} ended first",
                            ranks_text(run_.ranks), verb_form(run_.ranks.size(), "was", "were"),
                            ranks_text(run_.missing_ranks), verb_form(run_.missing_ranks.size(), "it", "one of them"));
        }
    }

    // Rings that were copied from a machine, or outlived its start: their processes cannot be looked up.
    void judge_unchecked() {
        if (!run_.end_unclear.empty() || !std::all_of(run_.processes.begin(), run_.processes.end(), is_unchecked)) {
            return;
        }
        find_hang();
        if (const std::optional<uint32_t> first = awaited_by_all()) {
            process(*first).liveness = Liveness::kKilled;
            process(*first).ending.guessed = true;
            process(*first).ending.unchecked = true;
        } else {
            run_.end_unclear =
                "no call waited for long in these rings, and their processes were on another machine, or before its "
                "last start: nothing shows whether they ended or ran on";
        }
    }

    Run& run_;
    WaitGraph graph_;
    std::vector<Hang> hangs_;
    std::set<uint32_t> unasked_;                  // ended, and were not told to
    std::set<uint32_t> asked_;                    // Liveness::kEnded
    std::set<uint32_t> outlived_;                 // were told to end, and others were not, or did not
    std::map<std::string, int64_t> first_asked_;  // key: host
    std::map<std::string, int64_t> hung_until_;   // key: host
    int witnessed_first_ = -1;
};

}  // namespace

void judge_ends(Run& run) {
    run.end_unclear.clear();
    EndJudge(run).judge();
}

const Process* dumped_beside(const Run& run, const Process& silent) {
    if (!silent.source.is_ring || silent.ending.seen_ns == 0) {
        return nullptr;
    }
    const Process* first = nullptr;
    for (const Process& other : run.processes) {
        using format::DumpReason;
        const bool by_itself = !other.source.is_ring && other.source.reason != DumpReason{} &&
                               other.source.reason != DumpReason::kCollected &&
                               other.source.reason != DumpReason::kCrash;  // a crash leaves the dead to the living
        if (by_itself && other.host == silent.host && other.now_ns > silent.ending.seen_ns + kSilentNs &&
            (first == nullptr || other.now_ns < first->now_ns)) {
            first = &other;
        }
    }
    return first;
}

}  // namespace titan::analyzer
