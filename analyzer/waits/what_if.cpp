#include "what_if.h"

#include <algorithm>
#include <tuple>

#include "can_end.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr int kCreationSide = -2;

// The creation of a communicator is a meeting, too.
MeetingKey meeting_of(const WaitNode& node, uint32_t index) {
    return node.kind == WaitKind::kCreation ? MeetingKey{node.communicator, index, kCreationSide, kCreationSide}
                                            : MeetingKey{node.communicator, node.sequence, node.source, node.target};
}

// The score of one question: what all ranks made, and what they will make.
class Question {
  public:
    // `hangs_stay`: what hangs does not end, whatever the play says: as recorded.
    Question(const WhatIfBasis& basis, const std::vector<CallEdit>& edits, bool hangs_stay)
        : basis_(basis),
          run_(basis.run),
          graph_(basis.graph),
          edits_(edits),
          score_(run_, false, EditedNumbers(run_, edits)) {
        for (const CallEdit& edit : edits) {
            if (edit.kind == CallEdit::Kind::kAlive) {
                alive_.insert(edit.rank);
            } else if (edit.kind == CallEdit::Kind::kInsert) {
                inserted_.emplace(MeetingKey{edit.communicator, edit.sequence, edit.source, edit.target}, &edit);
            }
        }
        add_what_was_made();
        insert_calls();
        for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
            hold(graph_.nodes[node], node);
        }
        const auto meetings = static_cast<uint32_t>(score_.meetings.size());
        for (uint32_t meeting = 0; meeting < meetings; ++meeting) {
            complete(meeting);
        }
        keep_what_hangs(hangs_stay);
        played_ = play(score_);
    }

    // Somebody waits in it, and all others are there.
    bool is_met(uint32_t node) const {
        const std::vector<uint32_t> units = units_of(node);
        return std::ranges::any_of(units, [&](uint32_t unit) { return played_.met[unit]; });
    }

    bool ends(uint32_t node) const {
        const std::vector<uint32_t> units = units_of(node);
        return std::ranges::all_of(units, [&](uint32_t unit) { return played_.ended[unit]; });
    }

    std::vector<WaitThen> waits() const {
        std::vector<WaitThen> waits;
        for (const Meeting& meeting : score_.meetings) {
            if (WaitThen wait = wait_in(meeting); !wait.ranks.empty()) {
                waits.push_back(std::move(wait));
            }
        }
        return waits;
    }

  private:
    using Place = std::pair<uint32_t, uint32_t>;  // process, node

    int rank_of(MemberRef ref) const {
        return ref.row == kNoIndex ? run_.process(ref).rank : run_.member(ref).global_rank;
    }

    // Units of the ranks that wait there; a removed call no longer waits.
    std::vector<uint32_t> units_of(uint32_t node) const {
        std::vector<uint32_t> units;
        for (const Waiter& waiter : graph_.nodes[node].waiting) {
            const auto found = waits_.find({waiter.member.process, node});
            if (found != waits_.end()) {
                units.insert(units.end(), found->second.begin(), found->second.end());
            }
        }
        return units;
    }

    // Edited calls have other numbers: those behind them meet others.
    std::vector<size_t> most_entries() const {
        std::vector<size_t> most = basis_.most_entries;
        for (const CallEdit& edit : edits_) {
            const MemberRef member =
                edit.kind == CallEdit::Kind::kAlive ? MemberRef() : member_of_rank(run_, edit.communicator, edit.rank);
            if (member.known()) {
                most[member.process] = SIZE_MAX;
            }
        }
        return most;
    }

    void add_what_was_made() {
        const std::vector<size_t> most = most_entries();
        for (uint32_t process = 0; process < run_.processes.size(); ++process) {
            score_.add_calls(process, graph_.orders[process].progress, most[process]);
        }
        std::vector<std::vector<uint32_t>> unit_of(run_.processes.size());  // process, entry
        for (uint32_t process = 0; process < run_.processes.size(); ++process) {
            const size_t entries = run_.processes[process].entries.size();
            unit_of[process].resize(std::min(entries, most[process]), kNoIndex);
        }
        for (uint32_t unit = 0; unit < score_.units.size(); ++unit) {
            const Unit& made = score_.units[unit];
            for (const uint32_t entry : made.entries) {
                unit_of[made.process][entry] = unit;
            }
            if (made.unlaunched) {
                unlaunched_[made.process].push_back(unit);
            }
        }
        for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
            for (const Waiter& waiter : graph_.nodes[node].waiting) {
                const uint32_t process = waiter.member.process;
                if (waiter.entry == nullptr) {  // in a creation: on the host
                    const uint32_t unit = add_unit(process, rank_of(waiter.member));
                    score_.join(unit, meeting_of(graph_.nodes[node], node));
                    waits_[{process, node}].push_back(unit);
                    continue;
                }
                const uint32_t unit =
                    unit_of[process][static_cast<size_t>(waiter.entry - run_.processes[process].entries.data())];
                if (unit != kNoIndex) {
                    waits_[{process, node}].push_back(unit);
                } else {
                    removed_.insert({process, node});
                }
            }
        }
    }

    uint32_t add_unit(uint32_t process, int rank) {
        const uint32_t unit = score_.add_unit(process);
        rank_of_unit_[unit] = rank;
        return unit;
    }

    void insert_calls() {
        for (const auto& [key, edit] : inserted_) {
            const MemberRef member = member_of_rank(run_, edit->communicator, edit->rank);
            const uint32_t inserted = add_unit(member.process, edit->rank);
            if (member.known() && format::is_collective(edit->op)) {
                keep_order(member, edit->sequence, inserted);
            }
            score_.join(inserted, key);
        }
    }

    // Between the collectives of its communicator that the rank made before and after it.
    void keep_order(MemberRef member, uint64_t sequence, uint32_t inserted) {
        for (uint32_t unit = 0; unit < inserted; ++unit) {
            if (score_.units[unit].process != member.process) {
                continue;
            }
            for (const uint32_t index : std::vector<uint32_t>(score_.units[unit].entries)) {
                const Entry& entry = run_.process(member).entries[index];
                if (entry.row == member.row && format::is_collective(entry.kind)) {
                    const bool is_before = score_.numbers().number({member}, entry.sequence) < sequence;
                    is_before ? score_.follow(inserted, unit) : score_.follow(unit, inserted);
                }
            }
        }
    }

    void follow_waits(uint32_t unit, uint32_t process, const std::vector<uint32_t>& nodes) {
        for (const uint32_t node : nodes) {
            if (const auto found = waits_.find({process, node}); found != waits_.end()) {
                for (const uint32_t earlier : found->second) {
                    score_.follow(unit, earlier);
                }
            }
        }
    }

    // Nothing visible would bring it to the call.
    bool stays_away(uint32_t node, const Absence& absence) const {
        if (absence.reason == AbsenceReason::kUnknown) {
            return false;
        }
        return absence.reason == AbsenceReason::kFailed || run_.process(absence.member).is_gone() ||
               (basis_.hang_of[node] == Hang::kByTime && absence.held_by.empty());
    }

    // What keeps a rank from starting a call that it made, beside its streams; and which hosts go nowhere.
    void hold(const WaitNode& node, uint32_t index) {
        for (const Blocked& blocked : node.blocked) {
            const auto found = waits_.find({blocked.member.process, index});
            for (const uint32_t unit : found == waits_.end() ? std::vector<uint32_t>() : found->second) {
                follow_waits(unit, blocked.member.process, blocked.held_by);
            }
            if (blocked.ahead.empty()) {
                follow_unseen(index, blocked.member.process);
            }
        }
        for (const Absence& absence : node.absent) {
            if (absence.member.known() && absence.reason != AbsenceReason::kQueued &&
                absence.reason != AbsenceReason::kLeft && stays_away(index, absence)) {
                idle_.insert(absence.member.process);
            }
        }
    }

    // A side that is not there: the rank makes it when it has ended what holds its host, or never.
    void will_come(uint32_t meeting, MemberRef ref, int rank, const std::vector<uint32_t>& held_by, bool comes) {
        const uint32_t unit = add_unit(ref.process, rank);
        to_come_.insert(unit);
        follow_waits(unit, ref.process, held_by);
        score_.units[unit].may_start = comes;
        score_.join(unit, MeetingKey(score_.meetings[meeting].key));
    }

    void absent_side(uint32_t meeting, uint32_t node, const Absence& absence) {
        if (absence.reason == AbsenceReason::kQueued || absence.reason == AbsenceReason::kLeft ||
            absence.reason == AbsenceReason::kUnknown) {
            return;  // it made the call, or nothing tells that it has not
        }
        const bool comes = !stays_away(node, absence) || alive_.contains(absence.global_rank);
        if (absence.reason != AbsenceReason::kGrouped) {
            will_come(meeting, absence.member, absence.global_rank, absence.held_by, comes);
            return;
        }
        for (const uint32_t unit : unlaunched_[absence.member.process]) {
            score_.units[unit].may_start = comes;
            follow_waits(unit, absence.member.process, absence.held_by);
        }
    }

    // The graph does not tell of it: the rank goes on when all its calls have ended.
    void later_side(uint32_t meeting, MemberRef ref) {
        std::vector<uint32_t> nodes;
        for (auto at = waits_.lower_bound({ref.process, 0}); at != waits_.end() && at->first.first == ref.process;
             ++at) {
            nodes.push_back(at->first.second);
        }
        will_come(meeting, ref, rank_of(ref), nodes, !idle_.contains(ref.process) || alive_.contains(rank_of(ref)));
    }

    // Adds the sides that are not there, and refuses what disagrees.
    void complete(uint32_t index) {
        const MeetingKey key = score_.meetings[index].key;
        const auto [communicator, sequence, source, target] = key;
        const auto node = basis_.node_of.find(key);
        std::set<std::pair<uint32_t, uint32_t>> told;  // process, row
        static const std::vector<Absence> nobody;
        for (const Absence& absence : node == basis_.node_of.end() ? nobody : graph_.nodes[node->second].absent) {
            const bool has_row = absence.member.known() && absence.member.row != kNoIndex;
            if (has_row && source != kCreationSide && score_.numbers().edits(line_in(run_, absence.member, key))) {
                continue;  // counted below
            }
            told.insert({absence.member.process, absence.member.row});
            if (!is_inserted(key, absence.global_rank)) {
                absent_side(index, node->second, absence);
            }
        }
        if (source == kCreationSide) {
            return;
        }
        const Communicator& group = run_.communicators[communicator];
        const auto count = [&](MemberRef ref) {
            if (ref.known() && !told.contains({ref.process, ref.row}) && made_by(ref, key) <= sequence) {
                later_side(index, ref);
            }
        };
        if (source < 0 && target < 0) {
            std::ranges::for_each(group.members, count);
        }
        for (const int side : {source, target}) {
            if (side >= 0 && static_cast<size_t>(side) < group.by_rank.size()) {
                count(group.by_rank[static_cast<size_t>(side)]);
            }
        }
        score_.meetings[index].is_refused = disagrees(score_.meetings[index]);
    }

    bool is_inserted(const MeetingKey& key, int rank) const {
        const auto [first, last] = inserted_.equal_range(key);
        return std::any_of(first, last, [&](const auto& each) { return each.second->rank == rank; });
    }

    // How many calls of that line the member has made; all, where nobody counted.
    uint64_t made_by(MemberRef ref, const MeetingKey& key) const {
        const EditedNumbers::Line line = line_in(run_, ref, key);
        const std::optional<uint64_t> recorded = calls_made(run_, line);
        return recorded ? score_.numbers().made(line, *recorded) : kNoSequence;
    }

    bool disagrees(const Meeting& meeting) const {
        const auto [communicator, sequence, source, target] = meeting.key;
        const std::vector<const Entry*>& entries = meeting.entries;
        if (source >= 0 || target >= 0) {
            return entries.size() == 2 && entries[0]->kind != entries[1]->kind &&
                   !pair_agrees(*entries[0], *entries[1]);
        }
        const bool is_edited = std::ranges::any_of(edits_, [&](const CallEdit& edit) {
            return edit.kind != CallEdit::Kind::kAlive && edit.communicator == std::get<0>(meeting.key);
        });
        if (!is_edited) {
            return basis_.refused.contains(meeting.key);
        }
        const auto [first, last] = inserted_.equal_range(meeting.key);
        return !entries.empty() &&
               (std::any_of(first, last, [&](const auto& each) { return each.second->op != entries[0]->kind; }) ||
                std::ranges::any_of(entries, [&](const Entry* entry) { return !may_meet(*entries[0], *entry); }));
    }

    // With another reduction, too: that ends, with wrong results.
    static bool may_meet(const Entry& one, const Entry& other) {
        return one.arguments_lost || other.arguments_lost ||
               std::tie(one.kind, one.count, one.datatype, one.peer, one.agreed) ==
                   std::tie(other.kind, other.count, other.datatype, other.peer, other.agreed);
    }

    // Who keeps it goes on, or makes another call there: whose stream stands behind other work, else all who take part.
    bool is_let_go(uint32_t index) const {
        const WaitNode& node = graph_.nodes[index];
        const auto lets_go = [&](int rank) {
            return alive_.contains(rank) || is_inserted(meeting_of(node, index), rank);
        };
        const auto is_held = [](const Blocked& blocked) { return !blocked.ahead.work.empty(); };
        if (std::ranges::any_of(node.blocked, is_held)) {
            return std::ranges::any_of(node.blocked, [&](const Blocked& blocked) {
                return is_held(blocked) && lets_go(rank_of(blocked.member));
            });
        }
        return std::ranges::any_of(node.waiting,
                                   [&](const Waiter& waiter) { return lets_go(rank_of(waiter.member)); }) ||
               std::ranges::any_of(node.absent,
                                   [&](const Absence& absence) {
                                       const bool may_be_any = absence.global_rank < 0 && !alive_.empty();
                                       return may_be_any || lets_go(absence.global_rank);
                                   }) ||
               std::ranges::any_of(node.finished, lets_go);
    }

    // What hangs does not end by itself, unless one of its group has a reason to end.
    void keep_what_hangs(bool all) {
        std::set<uint32_t> let_go;  // units
        for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
            const std::vector<uint32_t> units = units_of(node);
            const bool hangs = all ? basis_.hang_of[node] != Hang::kNone : basis_.is_stuck[node];
            if (hangs && !all && (is_let_go(node) || follow_unseen(node))) {
                let_go.insert(units.begin(), units.end());
            }
            for (const uint32_t unit : hangs ? units : std::vector<uint32_t>()) {
                score_.units[unit].may_end = false;
            }
        }
        for (const uint32_t unit : let_go) {
            score_.units[unit].may_end = true;
        }
    }

    // Where waits between streams are not recorded: a rank's call waits for what it issued before it, as the graph has
    // it. False: there is nothing.
    bool follow_unseen(uint32_t node, uint32_t process) {
        const auto own = waits_.find({process, node});
        bool follows = false;
        for (const uint32_t earlier : own == waits_.end() ? std::vector<uint32_t>() : graph_.may_follow[node]) {
            const auto before = waits_.find({process, earlier});
            if (before != waits_.end() && before->second != own->second) {
                for (const uint32_t unit : own->second) {
                    follow_waits(unit, process, {earlier});
                }
                follows = true;
            }
            follows |= removed_.contains({process, earlier});
        }
        return follows;
    }

    // What hangs although all are there.
    bool follow_unseen(uint32_t node) {
        bool follows = false;
        for (const Waiter& waiter : graph_.nodes[node].waiting) {
            follows |= follow_unseen(node, waiter.member.process);
        }
        return follows;
    }

    WaitThen wait_in(const Meeting& meeting) const {
        WaitThen wait;
        std::tie(wait.communicator, wait.sequence, wait.source, wait.target) = meeting.key;
        const auto node = basis_.node_of.find(meeting.key);
        if (node != basis_.node_of.end()) {
            wait.node = node->second;
            wait.op = graph_.nodes[node->second].op;
        } else if (!meeting.entries.empty()) {
            wait.op = meeting.entries.front()->kind;
        }
        for (const uint32_t unit : meeting.units) {
            if (!played_.started[unit]) {
                wait.missing.push_back(rank_in(unit, meeting));
            }
        }
        const bool is_met = wait.missing.empty() && !meeting.is_refused;
        for (const uint32_t unit : meeting.units) {
            // If this one is met, it may wait for the others of its group: those tell.
            if (played_.started[unit] && !played_.ended[unit] && !to_come_.contains(unit) &&
                (!is_met || played_.met[unit])) {
                wait.ranks.push_back(rank_in(unit, meeting));
            }
        }
        sort_unique(wait.ranks);
        sort_unique(wait.missing);
        wait.why = is_met ? WhyNot::kElse : meeting.is_refused ? WhyNot::kDisagree : WhyNot::kMissing;
        return wait;
    }

    int rank_in(uint32_t unit, const Meeting& meeting) const {
        if (const auto known = rank_of_unit_.find(unit); known != rank_of_unit_.end()) {
            return known->second;
        }
        const uint32_t process = score_.units[unit].process;
        for (const uint32_t index : score_.units[unit].entries) {
            const uint32_t row = run_.processes[process].entries[index].row;
            if (row != kNoIndex && run_.processes[process].members[row].communicator == std::get<0>(meeting.key)) {
                return rank_of({process, row});
            }
        }
        return run_.processes[process].rank;
    }

    const WhatIfBasis& basis_;
    const Run& run_;
    const WaitGraph& graph_;
    const std::vector<CallEdit>& edits_;
    Score score_;
    Played played_;
    std::set<int> alive_;  // ranks
    std::multimap<MeetingKey, const CallEdit*> inserted_;
    std::map<Place, std::vector<uint32_t>> waits_;          // units that wait there
    std::set<Place> removed_;                               // waits in calls that were removed
    std::map<uint32_t, std::vector<uint32_t>> unlaunched_;  // process -> units in groups that are not ended
    std::map<uint32_t, int> rank_of_unit_;                  // of those that are no recorded calls
    std::set<uint32_t> to_come_;                            // units: what ranks will make
    std::set<uint32_t> idle_;                               // processes: their hosts wait for nothing, and do not come
};

// Up to the last call that the graph has, in one of its nodes or queued behind one.
std::vector<size_t> entries_in_graph(const Run& run, const WaitGraph& graph) {
    std::vector<size_t> most(run.processes.size(), 0);
    const auto note = [&](uint32_t process, const Entry* entry) {
        const std::vector<Entry>& entries = run.processes[process].entries;
        most[process] = std::max(most[process],
                                 entry == nullptr ? entries.size() : static_cast<size_t>(entry - entries.data()) + 1);
    };
    for (const WaitNode& node : graph.nodes) {
        for (const Waiter& waiter : node.waiting) {
            if (waiter.entry != nullptr) {
                note(waiter.member.process, waiter.entry);
            }
        }
        for (const Absence& absence : node.absent) {
            if (absence.member.known() && absence.reason != AbsenceReason::kNotIssued) {
                const bool is_collective = node.kind == WaitKind::kCollective && absence.member.row != kNoIndex;
                note(absence.member.process,
                     is_collective ? run.process(absence.member).call_at(run.member(absence.member), node.sequence)
                                   : nullptr);
            }
        }
    }
    return most;
}

}  // namespace

WhatIfs::WhatIfs(const Run& run, const std::vector<Mismatch>& mismatches, const WaitGraph& graph,
                 const std::vector<Hang>& hang_of, Scope scope)
    : basis_{run, graph, hang_of} {
    basis_.most_entries =
        scope == Scope::kWaits ? entries_in_graph(run, graph) : std::vector<size_t>(run.processes.size(), SIZE_MAX);
    for (const MeetingKey& key : refused_meetings(mismatches)) {
        basis_.refused.insert(key);
    }
    for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
        basis_.node_of.emplace(meeting_of(graph.nodes[node], node), node);
    }
    const Question as_recorded(basis_, {}, true);
    for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
        basis_.is_stuck.push_back(hang_of[node] != Hang::kNone && as_recorded.is_met(node));
    }
}

WhatIf WhatIfs::ask(const std::vector<CallEdit>& edits) const {
    const Question question(basis_, edits, false);
    WhatIf answer;
    for (uint32_t node = 0; node < basis_.graph.nodes.size(); ++node) {
        answer.ends.push_back(question.ends(node));
    }
    answer.waits = question.waits();
    return answer;
}

}  // namespace titan::analyzer
