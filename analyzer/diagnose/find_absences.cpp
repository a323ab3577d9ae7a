// Finds members that never came: ranks that hold up a wait without being held up by anything.
#include "finders.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "call_order.h"
#include "captures.h"
#include "expected.h"
#include "explain.h"
#include "host/words.h"
#include "host_threads.h"
#include "skipped_call.h"
#include "thread_position.h"
#include "uncertainty.h"
#include "unknowns.h"
#include "witnessed_ends.h"

namespace titan::analyzer {
namespace {

struct Cause {
    Absence absence;
    std::vector<uint32_t> nodes;
};

using Causes = std::map<CulpritKey, Cause>;

void note(const Evidence& evidence, const Absence& absence, uint32_t node, Causes& causes) {
    const bool named = absence.member.known() || absence.global_rank >= 0;
    const CulpritKey key{absence.member.process, absence.global_rank,
                         named ? kNoIndex : evidence.node(node).communicator, named ? -1 : absence.comm_rank};
    Cause& cause = causes[key];
    if (cause.nodes.empty()) {
        cause.absence = absence;
    }
    cause.nodes.push_back(node);
}

void note_dead_waiters(const Evidence& evidence, uint32_t index, Causes& causes) {
    if (waiting_ranks(evidence.run, evidence.node(index)).empty()) {
        return;  // nobody is left who waits
    }
    for (const Waiter& waiter : evidence.node(index).waiting) {
        if (evidence.run.process(waiter.member).is_gone()) {
            const Member& member = evidence.run.member(waiter.member);
            note(evidence, {waiter.member, member.rank, member.global_rank, AbsenceReason::kNotIssued, {}, false},
                 index, causes);
        }
    }
}

// A wait behind a mismatch needs no other cause; a missing record there is chance.
bool may_follow_a_mismatch(const Evidence& evidence, const ToldSoFar& told, uint32_t index) {
    const std::vector<bool> behind = may_be_behind(evidence.graph, index);
    for (uint32_t node = 0; node < behind.size(); ++node) {
        if (behind[node] && told.explained[node]) {
            return true;
        }
    }
    return false;
}

// A rank that left out a graph launch is missing in all its calls; where one of them met another call, that tells it
// all.
bool is_covered_by_mismatch(const Evidence& evidence, const WaitNode& node, const Absence& absence) {
    return std::ranges::any_of(evidence.mismatches, [&](const Mismatch& mismatch) {
        const bool same_rank = absence.member.known() && mismatch.names(absence.member.process);
        return same_rank && std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
                   const Process& process = evidence.run.process(waiter.member);
                   const Member* const member = member_in(process, mismatch.communicator);
                   const auto call = member == nullptr ? std::nullopt : process.recall(*member, mismatch.sequence);
                   return waiter.entry != nullptr && waiter.entry->replay != 0 && call &&
                          call->replay == waiter.entry->replay;
               });
    });
}

// Only ranks wait there that left a call out before, or made one too many, and so disagreed with the others: they are
// ahead of the others, who hang behind that.
bool only_culprits_wait(const Evidence& evidence, const WaitNode& node) {
    return !node.waiting.empty() && std::ranges::all_of(node.waiting, [&](const Waiter& waiter) {
        return std::ranges::any_of(evidence.mismatches, [&](const Mismatch& mismatch) {
            return mismatch.never_ends() && mismatch.names(waiter.member.process);
        });
    });
}

// A rank that waits in a call, or a group of calls, on whose arguments two sides differ would have gone on but for
// that: what its own past lets one expect yields to it.
bool is_held_by_a_mismatch(const Evidence& evidence, const ToldSoFar& told, const Absence& absence) {
    const auto is_explained = [&](uint32_t node) { return told.explained[node]; };
    return absence.by_prediction && std::ranges::any_of(absence.held_by, [&](uint32_t node) {
               const std::vector<uint32_t>& group = evidence.graph.together[node];
               return is_explained(node) || std::ranges::any_of(group, is_explained);
           });
}

bool is_death(const Evidence& evidence, const Cause& cause) {
    return cause.absence.member.known() && evidence.run.processes[cause.absence.member.process].died();
}

// Nodes that living members keep from ending, and whose waits a watchdog has called a hang, or nearly: nobody among
// those is merely late.
std::vector<uint32_t> nodes_of_the_living(const Evidence& evidence, const Causes& causes) {
    std::vector<uint32_t> nodes;
    for (const auto& [key, cause] : causes) {
        const bool lives = cause.absence.member.known() && cause.absence.reason != AbsenceReason::kUnknown &&
                           !is_death(evidence, cause);
        const bool hung = std::ranges::any_of(cause.nodes, [&](uint32_t index) {
            const WaitNode& node = evidence.node(index);
            return std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
                return called_a_hang(evidence.run.process(waiter.member)) ||
                       waited_for_its_timeout(evidence.run, node, waiter);
            });
        });
        if (lives && hung) {
            nodes.insert(nodes.end(), cause.nodes.begin(), cause.nodes.end());
        }
    }
    return nodes;
}

// A rank that died while it waited in a hang is not what the hang waits for.
void leave_out_deaths_in_a_hang(const Evidence& evidence, ToldSoFar& told, Causes& causes) {
    const std::vector<uint32_t> behind = nodes_behind(evidence.graph, nodes_of_the_living(evidence, causes));
    const std::set<uint32_t> hung(behind.begin(), behind.end());
    std::map<uint32_t, bool> all_hung;  // key: process; of the nodes that it waits in
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        for (const Waiter& waiter : evidence.node(index).waiting) {
            bool& all = all_hung.try_emplace(waiter.member.process, true).first->second;
            all = all && hung.contains(index);
        }
    }
    std::erase_if(causes, [&](const auto& one) {
        const uint32_t process = one.first.process;
        const auto waits = all_hung.find(process);
        const bool in_a_hang = is_death(evidence, one.second) && waits != all_hung.end() && waits->second;
        if (in_a_hang) {
            told.died_waiting.insert(process);
        }
        return in_a_hang;
    });
}

FindingKind kind_of(const Evidence& evidence, const Cause& cause) {
    if (is_death(evidence, cause)) {
        return FindingKind::kRankDead;
    }
    if (!cause.absence.member.known() && died_unrecorded(evidence.run, cause.absence.global_rank)) {
        return FindingKind::kRankDead;
    }
    if (cause.absence.reason == AbsenceReason::kClosed) {  // of all its calls, not of one half of a message
        return FindingKind::kRankNotArrived;
    }
    switch (evidence.node(cause.nodes.front()).kind) {
        case WaitKind::kCreation: return FindingKind::kCommInitStuck;
        case WaitKind::kPointToPoint: return FindingKind::kP2pUnmatched;
        case WaitKind::kCollective: break;
    }
    if (find_capture(evidence.run, evidence.node(cause.nodes.front()), cause.absence) != nullptr) {
        return FindingKind::kCaptureMismatch;
    }
    return FindingKind::kRankNotArrived;
}

// A rank is missing in several places at once; the one that it would have come to first is the cause of the others: by
// what it used to do next, else where the waits lead to, else the oldest.
void choose_missing_call(const Evidence& evidence, Cause& cause) {
    const Process* process =
        cause.absence.member.known() ? &evidence.run.processes[cause.absence.member.process] : nullptr;
    const CallSignature* next = process == nullptr ? nullptr : expected_next(*process);
    const bool prefers_absence = process != nullptr && !is_inside_a_call(*process);
    const auto arrived = [&](uint32_t node) {
        const auto& waiting = evidence.node(node).waiting;
        return prefers_absence && std::ranges::any_of(waiting, [&](const Waiter& waiter) {
                   return waiter.member.process == cause.absence.member.process;
               });
    };
    const auto expected = [&](uint32_t node) {
        const WaitNode& place = evidence.node(node);
        return next != nullptr && next->row != kNoIndex &&
               process->members[next->row].communicator == place.communicator &&
               (place.kind == WaitKind::kCollective) == format::is_collective(next->kind);
    };
    const auto leads_on = [&](uint32_t node) {
        return std::ranges::any_of(evidence.graph.edges_of[node], [&](uint32_t edge) {
            return std::ranges::find(cause.nodes, evidence.graph.edges[edge].to) != cause.nodes.end();
        });
    };
    // A rank that has run nothing yet is still setting up: it owes a creation before it owes a collective.
    const bool setting_up =
        process != nullptr && std::ranges::none_of(process->history.signatures, [](const CallSignature& signature) {
            return format::class_of(signature.kind) != format::OpClass::lifecycle;
        });
    const auto later = [&](uint32_t node) { return setting_up && evidence.node(node).kind != WaitKind::kCreation; };
    // PyTorch looks no more at the calls of a group that it has aborted: they seem to wait while later ones end.
    const auto overtaken = [&](uint32_t node) {
        constexpr size_t kLeastLater = 3;
        const auto& waiting = evidence.node(node).waiting;
        return std::ranges::all_of(waiting, [&](const Waiter& waiter) {
            const Process& owner = evidence.run.process(waiter.member);
            if (waiter.entry == nullptr || owner.sees.streams || waiter.entry->place == kNoIndex) {
                return false;
            }
            std::set<uint32_t> unfinished;
            for (const Entry& entry : owner.entries) {
                if (entry.state != CallState::kFinished) {
                    unfinished.insert(entry.place);
                }
            }
            size_t later = 0;
            for (uint32_t i = waiter.entry->place + 1; i < owner.history.size() && later < kLeastLater; ++i) {
                const CallSignature& call = owner.history[i];
                later += call.row != waiter.entry->row && call.thread == waiter.entry->thread &&
                                 format::is_collective(call.kind) && !unfinished.contains(i)
                             ? 1
                             : 0;
            }
            return later == kLeastLater;
        });
    };
    const auto deserted = [&](uint32_t node) { return waiting_ranks(evidence.run, evidence.node(node)).empty(); };
    const auto worth = [&](uint32_t node) {
        return std::tuple(later(node), deserted(node), overtaken(node), arrived(node), !expected(node), leads_on(node),
                          evidence.since(node));
    };
    const auto first =
        std::ranges::min_element(cause.nodes, [&](uint32_t a, uint32_t b) { return worth(a) < worth(b); });
    std::iter_swap(cause.nodes.begin(), first);
    const WaitNode& place = evidence.node(cause.nodes.front());
    for (const Waiter& waiter : place.waiting) {
        const Member& member = evidence.run.member(waiter.member);
        if (process != nullptr && waiter.member.process == cause.absence.member.process &&
            member.global_rank == cause.absence.global_rank) {
            cause.absence.member = waiter.member;
            cause.absence.comm_rank = member.rank;
            cause.absence.reason = AbsenceReason::kNotIssued;
            return;
        }
    }
    for (const Absence& absence : place.absent) {
        if (absence.member.process == cause.absence.member.process &&
            absence.global_rank == cause.absence.global_rank) {
            cause.absence = absence;
            return;
        }
    }
}

// Creations of communicators of one name (every tp group, every dp group) are one place in the program.
uint32_t place_of(const Evidence& evidence, uint32_t index) {
    const WaitNode& node = evidence.node(index);
    const std::string& name = evidence.run.communicators[node.communicator].name;
    if (node.kind != WaitKind::kCreation || name.empty()) {
        return index;
    }
    for (uint32_t other = 0; other < index; ++other) {
        if (evidence.node(other).kind == WaitKind::kCreation && evidence.hangs(other) &&
            evidence.run.communicators[evidence.node(other).communicator].name == name) {
            return other;
        }
    }
    return index;
}

// Flight Recorder has no entry for the creation of a communicator, new_group or a store barrier. Ranks that fell idle
// at one time, and are missing in unrelated places since, are most likely in one of those together.
bool are_idle_together(const Evidence& evidence, const Causes& causes) {
    constexpr size_t kLeastRanks = 3;
    constexpr int64_t kTogetherNs = 2'000'000'000;
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = 0;
    std::set<uint32_t> places;
    for (const auto& [key, cause] : causes) {
        const Absence& absence = cause.absence;
        if (!absence.member.known() || absence.reason != AbsenceReason::kNotIssued || absence.moved_on ||
            !absence.held_by.empty() || evidence.run.processes[absence.member.process].sees.host_calls) {
            return false;
        }
        const int64_t idle_since_ns = evidence.run.processes[absence.member.process].last_activity_ns();
        first_ns = std::min(first_ns, idle_since_ns);
        last_ns = std::max(last_ns, idle_since_ns);
        places.insert(cause.nodes.front());
    }
    return causes.size() >= kLeastRanks && places.size() > 1 && last_ns - first_ns < kTogetherNs;
}

void report_idle_together(const Evidence& evidence, ToldSoFar& told, const Causes& causes) {
    std::vector<uint32_t> nodes;
    std::vector<int> ranks;
    for (const auto& [key, cause] : causes) {
        ranks.push_back(cause.absence.global_rank);
        nodes.insert(nodes.end(), cause.nodes.begin(), cause.nodes.end());
    }
    std::ranges::sort(nodes, [&](uint32_t a, uint32_t b) { return evidence.since(a) < evidence.since(b); });
    Finding finding = evidence.finding_at(FindingKind::kRankNotArrived, nodes.front());
    finding.ranks = ranks;
    sort_unique(finding.ranks);
    finding.summary = phrase(
        "{} fell idle at the same time and are missing in several groups since: they are in something that is not "
        "recorded, such as the creation of a communicator, new_group or a store barrier, and one of them may not have "
        "come to it",
        ranks_fact(finding.ranks));
    evidence.show_waits(nodes, finding);
    depends_on<Unknown::kHostUnseen>(finding, ranks_fact(finding.ranks));
    told.add_cause(std::move(finding), nodes);
}

// Neither votes nor earlier steps tell whether one rank skipped a call or the other made one too many.
void name_both_sides(const Evidence& evidence, const std::vector<Absence>& absences, Finding& finding) {
    for (const Absence& absence : absences) {
        if (absence.skip.verdict != SkipVerdict::kUndecided || finding.kind == FindingKind::kCaptureMismatch) {
            continue;  // a call that was captured and never launched is the one that is missing
        }
        const int waiter = evidence.rank_of(absence.skip.waiter);
        finding.ranks.push_back(waiter);
        finding.confidence = Confidence::kPossible;
        finding.evidence.push_back(
            phrase("or {} made one call too many, or skipped another one: the record cannot show which of "
                   "the two is wrong",
                   rank_fact(waiter)));
    }
    sort_unique(finding.ranks);
}

// What ranks do that are missing, where all of them do the same, and mean to.
struct Instead {
    bool have_left = false;  // by themselves, with status 0
    std::string place;       // else where they wait outside NCCL, as in Gloo
    std::string_view wait;   // and what that is

    bool operator==(const Instead&) const = default;
};

std::optional<Instead> what_they_do(const Evidence& evidence, const std::vector<int>& ranks) {
    std::optional<Instead> all;
    for (const int rank : ranks) {
        const Process* const process = evidence.process_of_rank[rank];
        if (process == nullptr) {
            return std::nullopt;
        }
        Instead own{process->ending.exit_status == 0 && !process->ending.asked(), {}, {}};
        if (const ThreadPosition* const position = working_position(*process); position != nullptr && !own.have_left) {
            own.wait = wait_outside_nccl(*process, *position);
            own.place = place_in_program(*process, *position);
        }
        if ((!own.have_left && own.wait.empty()) || (all && *all != own)) {
            return std::nullopt;
        }
        all = own;
    }
    return all;
}

// The missing ranks may all have ended as they should, or wait outside NCCL for one of those who wait for them.
// Where these are fewer, they made a call too many, or left that wait out; where they are as many, the record does not
// show which side is wrong.
void name_the_fewer(const Evidence& evidence, const WaitNode& node, Finding& finding) {
    const std::vector<int>& waiting = finding.waiting;
    const bool are_all = std::ssize(finding.ranks) + std::ssize(waiting) == evidence.run.world_size;
    const std::optional<Instead> instead =
        waiting.empty() || !are_all || finding.skipped ? std::nullopt : what_they_do(evidence, finding.ranks);
    const bool are_fewer = waiting.size() < finding.ranks.size();
    if (!instead || waiting.size() > finding.ranks.size() || (instead->have_left && !are_fewer)) {
        return;
    }
    const Sentence others = ranks_fact(finding.ranks);
    if (instead->have_left) {
        finding.summary = phrase("{} [waits|wait] in {} alone: {} exited with status 0 without it", ranks_fact(waiting),
                                 node_fact(evidence.run, node), others);
        depends_on<Unknown::kEndedBefore>(finding, others);
    } else if (are_fewer) {
        finding.summary = phrase("{} [has|have] gone on to {}, while {} wait in {}: {}", ranks_fact(waiting),
                                 node_fact(evidence.run, node), others, instead->wait, instead->place);
        // A single one is all that they can wait for.
        doubt<Unknown::kGroupOutside>(finding, waiting.size() > 1, ranks_fact(waiting));
    } else {
        finding.evidence.push_back(
            phrase("{} [waits|wait] in {} for one of {}", others, instead->wait, ranks_fact(waiting)));
        depends_on<Unknown::kGroupOutside>(finding, ranks_fact(waiting));
    }
    if (are_fewer) {
        std::swap(finding.ranks, finding.waiting);
        finding.victims = finding.waiting;
    }
}

// Ranks that closed a communicator may be about to make another one, which the others do not know of.
void show_creations(const Evidence& evidence, Finding& finding) {
    sort_unique(finding.ranks);
    for (const WaitNode& node : evidence.graph.nodes) {
        const std::vector<int> waiting = waiting_ranks(evidence.run, node);
        if (node.kind == WaitKind::kCreation && !waiting.empty() && !node.absent.empty() &&
            std::ranges::includes(finding.ranks, waiting)) {
            finding.evidence.push_back(
                phrase("{}; missing: {}", waiting_fact(evidence.run, node), absent_fact(node.absent)));
        }
    }
}

void report_causes(const Evidence& evidence, ToldSoFar& told, Causes& causes) {
    if (are_idle_together(evidence, causes)) {
        report_idle_together(evidence, told, causes);
        return;
    }
    // A rank whose record proves that it is missing is the better suspect than one without a record.
    const bool proven = std::ranges::any_of(
        causes, [](const auto& entry) { return entry.second.absence.reason != AbsenceReason::kUnknown; });
    std::map<std::tuple<FindingKind, uint32_t, AbsenceReason, bool>, std::vector<const Cause*>> groups;
    std::optional<uint32_t> first_unknown;
    std::map<uint32_t, uint32_t> closed;  // communicator -> place
    for (auto& [key, cause] : causes) {
        choose_missing_call(evidence, cause);
        uint32_t place = place_of(evidence, cause.nodes.front());
        // Nothing shows which of several ranks without any record came first: they are suspects together.
        if (!cause.absence.member.known() && evidence.node(place).kind == WaitKind::kCollective) {
            place = first_unknown.value_or(place);
            first_unknown = place;
        }
        if (cause.absence.reason == AbsenceReason::kClosed) {
            place = closed.try_emplace(evidence.node(place).communicator, place).first->second;
        }
        groups[{kind_of(evidence, cause), place, cause.absence.reason, cause.absence.moved_on}].push_back(&cause);
    }
    for (const auto& [key, members] : groups) {
        const uint32_t primary = std::get<1>(key);
        Finding finding = evidence.finding_at(std::get<0>(key), primary);
        Culprits culprits;
        culprits.node = &evidence.node(primary);
        std::set<uint32_t> nodes;
        for (const Cause* cause : members) {
            culprits.absences.push_back(cause->absence);
            nodes.insert(cause->nodes.begin(), cause->nodes.end());
            if (cause->absence.global_rank >= 0) {
                finding.ranks.push_back(cause->absence.global_rank);
            }
        }
        finding.skipped = culprits.absences.front().moved_on;
        finding.waiting = waiting_ranks(evidence.run, *culprits.node);
        explain_absence(evidence.run, culprits, finding);
        if (finding.kind == FindingKind::kCaptureMismatch) {
            explain_capture(evidence.run, *culprits.node, culprits.absences, finding);
        }
        if (culprits.absences.front().reason == AbsenceReason::kClosed) {
            show_creations(evidence, finding);
        }
        for (const uint32_t node : nodes) {
            if (const Sentence waiting = waiting_fact(evidence.run, evidence.node(node));
                node != primary && !waiting.empty()) {
                finding.evidence.push_back(phrase("also: {}", waiting));
            }
        }
        doubt_absence(evidence.run, culprits, finding);
        name_both_sides(evidence, culprits.absences, finding);
        name_the_fewer(evidence, *culprits.node, finding);
        doubt_guesses(evidence.run, *culprits.node, finding);
        if (finding.ranks.empty()) {  // members whose global ranks no record names
            finding.ranks = ranks_outside(evidence.run, evidence.run.communicators[culprits.node->communicator]);
            finding.confidence = finding.ranks.empty() ? finding.confidence : Confidence::kPossible;
        }
        if (proven && culprits.absences.front().reason == AbsenceReason::kUnknown) {
            finding.confidence = Confidence::kPossible;
        }
        told.add_cause(std::move(finding), {nodes.begin(), nodes.end()});
    }
}

}  // namespace

void find_absences(const Evidence& evidence, ToldSoFar& told) {
    Causes causes;
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.node(index);
        if (!evidence.hangs(index) || told.explained[index] || only_culprits_wait(evidence, node)) {
            continue;
        }
        const size_t before = causes.size();
        bool any = false;
        for (const Absence& absence : node.absent) {
            if (evidence.is_free(index, absence) && !is_covered_by_mismatch(evidence, node, absence) &&
                !is_held_by_a_mismatch(evidence, told, absence)) {
                note(evidence, absence, index, causes);
                any = true;
                if (absence.moved_on && !absence.held_by.empty()) {
                    told.skipped_in.insert(evidence.components[index]);
                }
            }
        }
        note_dead_waiters(evidence, index, causes);
        any |= causes.size() != before;
        // Members without a record are suspects only where nobody else explains the wait.
        if (!any && evidence.graph.edges_of[index].empty() && node.blocked.empty() &&
            !may_follow_a_mismatch(evidence, told, index)) {
            for (const Absence& absence : node.absent) {
                note(evidence, absence, index, causes);
            }
        }
    }
    leave_out_deaths_in_a_hang(evidence, told, causes);
    report_causes(evidence, told, causes);
}

}  // namespace titan::analyzer
