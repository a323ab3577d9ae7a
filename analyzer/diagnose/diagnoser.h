// The state of one diagnosis: what each kind of cause has already explained. The kinds are tried in the order of diagnose(),
// surest first, each in a file of its own.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "call_order.h"
#include "causes.h"
#include "diagnose.h"
#include "explain.h"
#include "finding.h"
#include "habit.h"
#include "match.h"
#include "run.h"
#include "wait_graph.h"

namespace titan::analyzer {

struct StackNode;

class Diagnoser {
  public:
    Diagnoser(const Run& run, const DiagnoseOptions& options)
        : run_(run),
          mismatches_(find_mismatches(run)),
          graph_(build_wait_graph(run, mismatches_)),
          options_(options),
          hangs_(find_hangs(run, graph_, options)),
          components_(find_components(graph_)),
          explained_(graph_.nodes.size(), false),
          is_cause_(graph_.nodes.size(), false) {}

    Diagnosis diagnose();

  private:
    struct CulpritKey {
        uint32_t process;
        int global_rank;
        uint32_t communicator;  // only where nothing else tells the member
        int comm_rank;
        auto operator<=>(const CulpritKey&) const = default;
    };
    struct Cause {
        Absence absence;
        std::vector<uint32_t> nodes;
    };
    struct RankIndex {
        explicit RankIndex(const Run& run) {
            for (const Process& process : run.processes) {
                by_rank.try_emplace(process.rank, &process);
                for (const Member& member : process.members) {
                    by_rank.try_emplace(member.global_rank, &process);
                }
            }
        }
        const Process* operator[](int rank) const {
            const auto found = by_rank.find(rank);
            return found == by_rank.end() ? nullptr : found->second;
        }
        std::map<int, const Process*> by_rank;
    };

    // mismatches.cpp
    // Waits in that communicator at or after the mismatch follow from it, unless it was survived long ago.
    std::vector<uint32_t> nodes_explained_by(const Mismatch& mismatch) const;
    bool is_not_survived(const Mismatch& mismatch) const;
    void call_a_capture_by_its_name(const Mismatch& mismatch, MemberRef teller, Finding& finding) const;
    void add_mismatches();

    bool hangs(uint32_t node) const { return hangs_[node] != Hang::kNone; }

    // absences.cpp
    // Nothing that is seen keeps it from coming.
    bool is_free(uint32_t node, const Absence& absence) const;
    int64_t since(uint32_t node) const;
    void note(const Absence& absence, uint32_t node, std::map<CulpritKey, Cause>& causes);
    void note_dead_waiters(uint32_t index, std::map<CulpritKey, Cause>& causes);
    // What waits behind a mismatch needs no other cause; that a record is missing there is chance.
    bool may_follow_a_mismatch(uint32_t index) const;
    bool is_told_by_mismatch(const WaitNode& node, const Absence& absence) const;
    void add_absences();
    FindingKind kind_of(const Cause& cause) const;
    // Was it inside a call at its end? Then that call is where it ended; else it is the next call that it never made.
    static bool is_blocked(const Process& process);
    // A rank is missing in several places at once; the one that it would have come to first is the cause of the others: by
    // what it used to do next, else where the waits lead to, else the oldest.
    void put_first_place_first(Cause& cause) const;
    // Creations of communicators of one name (every tp group, every dp group) are one place in the program.
    uint32_t place_of(uint32_t index) const;
    void name_both_sides(const std::vector<Absence>& absences, Finding& finding) const;
    bool are_idle_together(const std::map<CulpritKey, Cause>& causes) const;
    void report_idle_together(const std::map<CulpritKey, Cause>& causes);
    void report_causes(std::map<CulpritKey, Cause>& causes);

    // odd_waiters.cpp
    // Who waits where all others went another way: it left a call out before, or made one too many.
    void add_odd_waiters();
    bool is_met_by_messages(const WaitNode& node, MemberRef waiter) const;

    // misdirected.cpp
    void add_misdirected();
    void add_alone_in_creation();
    uint32_t owed_from_creation(uint32_t index) const;
    void report_alone_in_creation(uint32_t index, uint32_t owed);
    bool is_held_by_nothing_else(uint32_t index, const Absence& peer) const;
    bool does_as_before(MemberRef member, const std::vector<uint32_t>& nodes) const;
    uint32_t meant_instead_of(uint32_t index) const;

    // cycles.cpp
    void add_cycles();
    void add_cycle(const std::vector<uint32_t>& nodes);
    std::optional<CallPlace> place_in_program(uint32_t index) const;
    bool break_tie_by_vote(const std::vector<Edge>& cycle, Finding& finding) const;
    bool break_tie(const std::vector<uint32_t>& nodes, Finding& finding) const;
    // In a cycle every rank waits for another: the order of the few is called the wrong one, else the one that differs from
    // what that rank did before. Where neither tells, all are named.
    void choose_culprits(const std::vector<Edge>& cycle, bool only_p2p, Finding& finding);
    void choose_in_pairs(const std::vector<Edge>& cycle, const std::vector<const Edge*>& left_out,
                         const std::vector<int>& deviating, Finding& finding);
    bool made_instead(const Edge& edge, uint32_t holder) const;
    bool is_one_too_many(MemberRef held, uint32_t holder) const;
    void doubt_order(const std::vector<Edge>& cycle, Finding& finding) const;
    // Members that are missing in the edge's node because they are held in `holder`.
    std::vector<int> held_ranks(const Edge& edge, uint32_t holder) const;
    Habit habit_in(MemberRef held, uint32_t holder) const;

    // blocked.cpp
    struct BlockedCause {
        const Blocked* blocked;
        std::vector<uint32_t> nodes;
    };
    bool is_blocked_there(uint32_t index) const;
    void note_blocked(uint32_t index, std::map<CulpritKey, BlockedCause>& causes) const;
    void add_blocked();
    bool may_follow_another_hang(uint32_t index) const;
    void doubt_blocker(const WaitNode& node, const Blocked& blocked, const BlockedBy& by, Finding& finding) const;
    void report_blocked(const std::map<CulpritKey, BlockedCause>& causes);

    // unseen_gpu.cpp
    // A mismatch that is ahead of what waits, on the same streams, and not known to be survived, is why it waits.
    void lead_with_mismatches_ahead();
    bool is_behind(const Waiter& waiter, const Mismatch& mismatch) const;
    // What one rank alone handed to its stream ahead of the call that all wait in is a possible cause.
    void add_odd_work();
    const Waiter* find_odd_work(const WaitNode& node, std::vector<uint32_t>& odd) const;

    // exchanges.cpp
    void add_uneven_exchanges();

    // opposite_order.cpp
    void add_opposite_orders();
    bool changed_order(const std::vector<MemberRef>& members, uint32_t first) const;
    void add_opposite_order(uint32_t a, uint32_t b, const std::vector<MemberRef>& a_first,
                            const std::vector<MemberRef>& b_first);

    // stuck.cpp
    bool all_arrived(uint32_t index) const;
    bool lacks_a_member_together(uint32_t index) const;
    void add_pairs_of_other_size();
    // Everybody is there and it does not finish, or a stream never came to it: either the cause is there, or that stream
    // waits for another one. So only waits that can follow from no other cause count, and of those the first.
    std::vector<uint32_t> find_stuck() const;
    void add_stuck();
    bool may_hang_in_a_lost_call(const WaitNode& node) const;
    void add_stuck_in_lost_calls(const std::vector<uint32_t>& nodes);
    // That a call has not ended is told by nothing but hosts that wait for their GPUs.
    bool is_known_by_hosts_alone(const WaitNode& node) const;
    void add_stuck_unseen(const std::vector<uint32_t>& nodes);
    void add_other_deaths();
    void add_unrecorded_death(int rank);
    // A call on record has waited for nearly its whole timeout, and nothing above explains it.
    void add_unexplained_waits();

    // second_causes.cpp
    // Who stands still beside those who are told, and owes a call that is queued behind what hangs.
    std::optional<WaitNode> first_owed(const Process& process) const;
    void add_second_causes();

    // pending.cpp
    // Where nothing hangs: who waits for longer than usual because somebody has not come.
    void add_pending();
    bool is_pending(const WaitNode& node) const;
    Pending pending_in(uint32_t index) const;

    // diagnose.cpp
    Finding finding_at(FindingKind kind, uint32_t index) const;
    void add_victims(const std::vector<uint32_t>& nodes, Finding& finding) const;
    // Wrong results hurt nobody's progress, unless the very rank that made them is then missing: it left because of them.
    bool leads_to_a_hang(const Finding& silent) const;
    std::string awaited_work(const Process& process) const;
    void doubt_waits_of_ranks_that_skipped();
    void finish();
    void add_standing();
    void tell_where_others_stand(Finding& finding) const;
    void tell_parting(const StackNode& tree, Finding& finding) const;

    const Run& run_;
    std::vector<Mismatch> mismatches_;
    WaitGraph graph_;
    DiagnoseOptions options_;
    std::vector<Hang> hangs_;
    std::vector<uint32_t> components_;
    std::vector<bool> explained_;  // by a mismatch
    std::vector<bool> is_cause_;   // by an absence or a cycle
    std::set<uint32_t> in_cycle_;
    std::set<uint32_t> skipped_in_;
    RankIndex process_of_rank_{run_};
    Diagnosis diagnosis_;
};

}  // namespace titan::analyzer
