#include "wait_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "can_end.h"
#include "captures.h"
#include "host_holds.h"
#include "host_threads.h"
#include "later_step.h"
#include "long_waits.h"
#include "play.h"
#include "skipped_call.h"
#include "stream_order.h"
#include "waiters.h"

namespace titan::analyzer {
namespace {

using NodeKey = std::tuple<WaitKind, uint32_t, uint64_t, int, int, OpKind>;

// NCCL counts signals of a pair, and so do we, as far as the whole record is there.
uint64_t newest_awaited_signal(const Process& process, const Entry& wait) {
    uint64_t signals = 0;
    for (uint32_t place = 0; wait.peer >= 0 && process.overwritten == 0 && place <= wait.place; ++place) {
        const CallSignature& call = process.history[place];
        const bool counts = call.kind == OpKind::kWaitSignal && call.row == wait.row && call.peer == wait.peer;
        if (counts && call.captured) {
            return kNoSequence;  // how often its graph ran is not counted
        }
        signals += counts ? call.count : 0;
    }
    return signals == 0 ? kNoSequence : signals - 1;
}

// Where in its history a process sent the n-th signal to the peer, or captured one.
std::optional<uint32_t> place_of_signal(const Process& process, uint32_t row, int peer, uint64_t number) {
    for (uint32_t place = 0; place < process.history.size(); ++place) {
        const CallSignature& call = process.history[place];
        const bool counts =
            (call.kind == OpKind::kPutSignal || call.kind == OpKind::kSignal) && call.row == row && call.peer == peer;
        if (counts && (call.captured || number-- == 0)) {
            return place;
        }
    }
    return std::nullopt;
}

class GraphBuilder {
  public:
    GraphBuilder(const Run& run, const SiblingEdits& edits) : run_(run), edits_(edits), holds_(run, placed_) {}

    WaitGraph build(const std::vector<Mismatch>& mismatches) {
        std::vector<std::vector<Progress>> progress = progress_of_all(run_, mismatches);
        placed_.orders.reserve(run_.processes.size());
        placed_.queues.reserve(run_.processes.size());
        for (size_t i = 0; i < run_.processes.size(); ++i) {
            placed_.orders.push_back(order_streams(run_.processes[i], std::move(progress[i])));
            placed_.queues.emplace_back(run_.processes[i], placed_.orders.back());
        }
        placed_.node_of_entry.resize(run_.processes.size());
        placed_.creations.resize(run_.processes.size());
        placed_.lost.resize(run_.processes.size());
        for (uint32_t process = 0; process < run_.processes.size(); ++process) {
            add_heads(process);
            add_creations(process);
        }
        add_lost_calls();
        for (uint32_t process = 0; process < run_.processes.size(); ++process) {
            add_blocked(process);
        }
        set_early_records_aside(run_, graph_);
        // Nodes are all there: now who is missing in each, and what holds them.
        for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
            switch (graph_.nodes[node].kind) {
                case WaitKind::kCollective: look_at_collective(node); break;
                case WaitKind::kPointToPoint: look_at_pair(node); break;
                case WaitKind::kCreation: look_at_creation(graph_.nodes[node]); break;
            }
        }
        graph_.orders = std::move(placed_.orders);
        hold_by_whole_groups(run_, graph_);
        doubt_majority_in_exchanges(run_, graph_);
        drop_guessed_holds(run_, graph_);
        add_edges();
        add_program_order();
        return std::move(graph_);
    }

  private:
    uint32_t node_for(const NodeKey& key) {
        const auto [found, inserted] = index_.try_emplace(key, static_cast<uint32_t>(graph_.nodes.size()));
        if (inserted) {
            WaitNode node;
            std::tie(node.kind, node.communicator, node.sequence, node.source, node.target, node.op) = key;
            graph_.nodes.push_back(std::move(node));
        }
        return found->second;
    }

    // The node of a collective, or of one half of a message with that peer.
    uint32_t call_node(const Member& member, OpKind kind, uint64_t sequence, int peer) {
        const auto [source, target] = format::is_collective(kind) ? std::pair(-1, -1)
                                      : kind == OpKind::kSend     ? std::pair(member.rank, peer)
                                                                  : std::pair(peer, member.rank);
        return node_for({format::is_collective(kind) ? WaitKind::kCollective : WaitKind::kPointToPoint,
                         member.communicator, sequence, source, target, kind == OpKind::kWaitSignal ? kind : OpKind{}});
    }

    void add_heads(uint32_t process) {
        const Process& owner = run_.processes[process];
        // A call that is handed over long before its turn waits only after the work ahead of it has ended.
        std::unordered_map<uint64_t, int64_t> busy_until;
        std::set<uint64_t> moved;
        for (const Entry& entry : owner.entries) {
            int64_t& until = busy_until[entry.stream];
            // An end after the dump: the clock was set back since.
            until = std::max(until, entry.finished_ns > owner.now_ns ? 0 : entry.finished_ns);
            if (entry.state == CallState::kFinished) {
                moved.insert(entry.stream);
            }
        }
        for (const StreamHead& head : placed_.orders[process].heads) {
            for (const uint32_t index : head.entries) {
                const Entry& entry = owner.entries[index];
                const uint64_t number =
                    entry.kind == OpKind::kWaitSignal ? newest_awaited_signal(owner, entry) : entry.sequence;
                if (entry.row == kNoIndex || number == kNoSequence ||
                    owner.members[entry.row].communicator == kNoIndex) {
                    continue;
                }
                const Member& member = owner.members[entry.row];
                const uint32_t node = call_node(member, entry.kind, number, entry.peer);
                WaitNode& target = graph_.nodes[node];
                if (!entry.arguments_lost || target.waiting.empty()) {
                    target.op = entry.kind;
                }
                target.device_unknown |= entry.state == CallState::kEnqueued;
                const int64_t end_ns =
                    member.state == CommState::kAborted && member.closed_ns != 0 ? member.closed_ns : owner.now_ns;
                const int64_t since_ns = std::max(entry.entered_ns, std::min(busy_until[entry.stream], end_ns));
                const bool reached =
                    entry.device == DeviceState::kStarted || entry.device == DeviceState::kGraphStarted;
                const bool in_line =
                    owner.overwritten != 0 && owner.gpu_progress && !reached && !moved.contains(entry.stream);
                target.waiting.push_back({{process, entry.row}, &entry, since_ns, end_ns - since_ns, in_line});
                placed_.node_of_entry[process][index] = node;
            }
        }
    }

    // Calls that the hosts wait in while the stream waits for something else.
    void add_blocked(uint32_t process) {
        const Process& owner = run_.processes[process];
        if (has_lost_unfinished_calls(owner)) {
            return;  // we do not know where they hang, so the work ahead of the others is no evidence
        }
        for (const auto& [index, node] : placed_.node_of_entry[process]) {
            const Entry& entry = owner.entries[index];
            if (entry.device == DeviceState::kStarted || entry.device == DeviceState::kGraphStarted ||
                entry.state == CallState::kEntered) {
                continue;
            }
            Blocked blocked{{process, entry.row}, &entry, placed_.queues[process].ahead_of(index), {}};
            std::set<uint32_t> nodes;
            for (const uint32_t call : blocked.ahead.calls) {
                placed_.insert_nodes_before(process, call, nodes);
            }
            nodes.erase(node);
            blocked.held_by.assign(nodes.begin(), nodes.end());
            if (entry.device == DeviceState::kNotReached || !blocked.held_by.empty()) {
                graph_.nodes[node].blocked.push_back(std::move(blocked));
            }
        }
    }

    uint32_t creation_node(const Member& member) {
        const auto parent = is_child(member.origin) ? run_.find_communicator(member.parent_id) : std::nullopt;
        return parent ? node_for({WaitKind::kCreation, *parent, member.ordinal, -1, -1, member.origin})
                      : node_for({WaitKind::kCreation, member.communicator, kNoSequence, -1, -1, member.origin});
    }

    void add_creations(uint32_t process) {
        const Process& owner = run_.processes[process];
        for (uint32_t row = 0; row < owner.members.size(); ++row) {
            const Member& member = owner.members[row];
            if (member.communicator != kNoIndex && is_being_created(member)) {
                const uint32_t node = creation_node(member);
                graph_.nodes[node].waiting.push_back(
                    {{process, row}, nullptr, member.created_ns, owner.now_ns - member.created_ns});
                placed_.creations[process].push_back(node);
            }
        }
    }

    // For calls that all have made, and for sends and receives, a recorded wait says more.
    void add_lost_calls() {
        const bool alone = graph_.nodes.empty();
        for (uint32_t process = 0; process < run_.processes.size(); ++process) {
            const bool waits = !placed_.node_of_entry[process].empty() || !placed_.creations[process].empty();
            for (const LostCall& call : lost_calls(run_, process, !waits)) {
                if (!call.is_owed && !alone) {
                    continue;
                }
                const Process& owner = run_.processes[process];
                const Member& member = owner.members[call.row];
                const int64_t waited_ns = hangs_for_ns(run_, owner);
                const uint32_t node = call_node(member, call.op, call.sequence, call.peer);
                graph_.nodes[node].op = call.op;
                graph_.nodes[node].lost = true;
                graph_.nodes[node].waiting.push_back(
                    {{process, call.row}, nullptr, owner.now_ns - waited_ns, waited_ns});
                placed_.lost[process].push_back(node);
            }
        }
    }

    // It went into a graph that was never launched.
    bool captured_it(const WaitNode& node, const Absence& absence) const {
        return !absence.held_by.empty() && find_capture(run_, node, absence) != nullptr;
    }

    Absence not_issued(const WaitNode& node, MemberRef ref, int comm_rank, int global_rank) {
        const Process& process = run_.processes[ref.process];
        Absence absence{ref, comm_rank, global_rank, AbsenceReason::kNotIssued, {}, false};
        const Member* member = ref.row == kNoIndex ? nullptr : &process.members[ref.row];
        if (is_stale(run_, ref.process, node) || ends_early(process, node)) {
            absence.reason = AbsenceReason::kUnknown;
            return absence;
        }
        absence.held_by = member == nullptr ? holds_.of_process(ref.process) : holds_.of_member(ref);
        // The others have finished calls on a communicator that it is only making: it is another process of that rank.
        absence.restarted = member != nullptr && is_being_created(*member) &&
                            std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
                                return waiter.member.row != kNoIndex && run_.member(waiter.member).finished > 0;
                            });
        if (absence.restarted) {
            absence.held_by.clear();
            return absence;
        }
        const bool closed = member != nullptr && (member->closed_ns != 0 || member->state == CommState::kDestroyed ||
                                                  member->state == CommState::kAborted);
        if (closed && (absence.held_by.empty() || !has_aborted(process))) {
            absence.reason = AbsenceReason::kClosed;
            absence.held_by.clear();  // wherever it is held, it would not come
        } else {
            // A rank all of whose calls have ended went on nowhere: another thread may have made the later ones.
            const bool by_order = member != nullptr && (tells_threads(process) || !absence.held_by.empty());
            if (by_order) {
                absence.skip = find_skipped_call(run_, edits_, placed_.orders, ref, node);
                if (absence.skip.verdict == SkipVerdict::kNo) {
                    absence.skip.verdict = ahead_in_messages(run_, ref, node);
                }
            }
            absence.moved_on = went_to_a_later_step(run_, ref, node) || absence.skip.verdict == SkipVerdict::kSkipped ||
                               absence.skip.verdict == SkipVerdict::kUndecided ||
                               (member != nullptr && captured_it(node, absence));
            absence.by_prediction = by_order && !absence.moved_on && absence.skip.verdict == SkipVerdict::kNo &&
                                    called_another_instead(run_, ref, node);
            absence.moved_on |= absence.by_prediction;
        }
        return absence;
    }

    // The GPU is through with a call before the observer has noted when: it may have ended just before the dump.
    static int64_t end_of(const Process& process, const Entry& entry) {
        const bool just_seen = entry.device == DeviceState::kFinished && entry.finished_ns == 0 && entry.replay == 0 &&
                               process.gpu_progress && process.sees.moments && !process.is_gone();
        return just_seen ? process.now_ns : entry.finished_ns;
    }

    // A member whose call is recorded but not at the head of its stream.
    void place_recorded(WaitNode& node, MemberRef ref, const Entry& entry) {
        const Member& member = run_.member(ref);
        const auto index = static_cast<uint32_t>(&entry - run_.process(ref).entries.data());
        Absence absence{ref, member.rank, member.global_rank, AbsenceReason::kQueued, {}, false};
        const StreamOrder& order = placed_.orders[ref.process];
        if (entry.state == CallState::kFailed) {
            absence.reason = AbsenceReason::kFailed;
            node.absent.push_back(absence);
        } else if (order.progress[index] == Progress::kUnlaunched) {
            absence.reason = AbsenceReason::kGrouped;
            absence.held_by = holds_.of_process(ref.process);
            node.absent.push_back(absence);
        } else if (const auto head = order.behind.find(index); head != order.behind.end()) {
            std::set<uint32_t> nodes;
            placed_.insert_head(ref.process, head->second, nodes);
            absence.held_by.assign(nodes.begin(), nodes.end());
            note_earlier_skip(run_, node, entry, absence);
            if (ends_early(run_.process(ref), node)) {
                absence = {ref, member.rank, member.global_rank, AbsenceReason::kLeft, {}, false};
            }
            node.absent.push_back(absence);
        } else if (order.progress[index] == Progress::kDone && has_aborted_in(run_.process(ref), entry)) {
            // Who aborted it, too, waits no more.
            const bool awaited = std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
                return run_.member(waiter.member).state != CommState::kAborted;
            });
            if (awaited) {
                absence.reason = AbsenceReason::kClosed;
                absence.held_by = holds_.of_process(ref.process);
                node.absent.push_back(absence);
            }
            node.device_unknown |= !awaited;
        } else if (order.progress[index] == Progress::kUnknown) {
            node.device_unknown = true;  // arrived; nobody saw whether it has finished
        } else {
            node.finished.push_back(member.global_rank);
            node.last_finished_ns = std::max(node.last_finished_ns, end_of(run_.process(ref), entry));
        }
    }

    bool waits_in(const WaitNode& node, MemberRef ref) const {
        const auto is_it = [&](const auto& one) { return one.member == ref; };
        return std::ranges::any_of(node.waiting, is_it) ||
               std::ranges::any_of(node.absent, [&](const Absence& absence) {
                   return absence.reason == AbsenceReason::kLeft && is_it(absence);
               });
    }

    void look_at_collective(uint32_t index) {
        WaitNode& node = graph_.nodes[index];
        const Communicator& communicator = run_.communicators[node.communicator];
        std::set<MemberRef, decltype([](MemberRef a, MemberRef b) {
                     return std::tie(a.process, a.row) < std::tie(b.process, b.row);
                 })>
            waiting;
        for (const Waiter& waiter : node.waiting) {
            waiting.insert(waiter.member);
        }
        for (const Absence& left : node.absent) {
            waiting.insert(left.member);
        }
        for (const MemberRef ref : communicator.members) {
            if (waiting.contains(ref)) {
                continue;
            }
            const Member& member = run_.member(ref);
            if (const Entry* entry = run_.process(ref).call_at(member, node.sequence)) {
                place_recorded(node, ref, *entry);
            } else if (member.call_log.find(node.sequence)) {
                node.finished.push_back(member.global_rank);  // condensed: those that are not done have their entry
            } else if (run_.process(ref).sees.by_watchdog && node.sequence < member.finished) {
                node.finished.push_back(member.global_rank);  // the recorder leaves out what is done
            } else if (node.sequence < member.issued) {
                node.lost = true;  // issued, its entry is gone
            } else {
                node.absent.push_back(not_issued(node, ref, member.rank, member.global_rank));
            }
        }
        doubt_majority_that_went_on(node);
        if (!communicator.identity_guessed) {
            add_unknown_members(node, communicator);
        }
        // A collective that needs the data of all members has ended on one: the GPUs of all others had reached it.
        if (!node.finished.empty() && format::class_of(node.op) == format::OpClass::collective &&
            node.op != OpKind::kOtherCollective) {
            node.blocked.clear();
        }
    }

    void add_unknown_members(WaitNode& node, const Communicator& communicator) {
        for (int rank = 0; rank < static_cast<int>(communicator.by_rank.size()); ++rank) {
            if (!communicator.by_rank[static_cast<size_t>(rank)].known()) {
                const int global = run_.global_rank(communicator, rank);
                node.absent.push_back({{}, rank, global, AbsenceReason::kUnknown, {}, false});
            }
        }
    }

    // The n-th send or receive of a member with a peer.
    const Entry* find_p2p(MemberRef ref, OpKind kind, int peer, uint64_t sequence) {
        if (!p2p_indexed_.contains(ref.process)) {
            p2p_indexed_.insert(ref.process);
            for (const Entry& entry : run_.processes[ref.process].entries) {
                if (entry.kind == OpKind::kSend || entry.kind == OpKind::kRecv) {
                    p2p_[{ref.process, entry.row, entry.kind, entry.peer, entry.sequence}] = &entry;
                }
            }
        }
        const auto found = p2p_.find({ref.process, ref.row, kind, peer, sequence});
        return found == p2p_.end() ? nullptr : found->second;
    }

    // A one-sided transfer ends without its target; who waits for its signal waits for the one that sends it.
    void look_at_signal(WaitNode& node, MemberRef sender) {
        const Member& member = run_.member(sender);
        const Process& process = run_.process(sender);
        const std::optional<uint32_t> place = place_of_signal(process, sender.row, node.target, node.sequence);
        const auto sent =
            std::ranges::find_if(process.entries, [&](const Entry& entry) { return place && entry.place == *place; });
        if (sent != process.entries.end() && !sent->captured) {
            place_recorded(node, sender, *sent);
        } else if (place || process.overwritten != 0) {
            node.lost = true;
        } else {
            node.absent.push_back(
                {sender, member.rank, member.global_rank, AbsenceReason::kNotIssued, holds_.of_member(sender), false});
        }
    }

    void look_at_pair(uint32_t index) {
        WaitNode& node = graph_.nodes[index];
        const Communicator& communicator = run_.communicators[node.communicator];
        const Entry* halves[2] = {nullptr, nullptr};
        for (const bool sender : {true, false}) {
            const int self = sender ? node.source : node.target;
            const int peer = sender ? node.target : node.source;
            const OpKind kind = sender ? OpKind::kSend : OpKind::kRecv;
            if (self < 0 || static_cast<size_t>(self) >= communicator.by_rank.size()) {
                continue;
            }
            const MemberRef ref = communicator.by_rank[static_cast<size_t>(self)];
            if (node.op == OpKind::kWaitSignal && (ref.known() || !sender)) {
                if (sender) {
                    look_at_signal(node, ref);
                }
                continue;
            }
            if (!ref.known()) {
                if (!communicator.identity_guessed) {
                    node.absent.push_back(
                        {{}, self, run_.global_rank(communicator, self), AbsenceReason::kUnknown, {}, false});
                }
                continue;
            }
            const Entry* entry = find_p2p(ref, kind, peer, node.sequence);
            halves[sender ? 0 : 1] = entry;
            if (waits_in(node, ref) && entry != nullptr && node_of(ref.process, *entry) == index) {
                continue;
            }
            const Member& member = run_.member(ref);
            const uint64_t issued = sender ? member.sent_to(peer) : member.received_from(peer);
            if (entry != nullptr) {
                place_recorded(node, ref, *entry);
            } else if (run_.process(ref).has_passed_pair(ref.row, kind, peer, node.sequence)) {
                node.finished.push_back(member.global_rank);
            } else if (member.p2p_counted && issued > node.sequence) {
                node.lost = true;
            } else {
                node.lost |= !member.p2p_counted && run_.process(ref).overwritten != 0;
                node.absent.push_back(not_issued(node, ref, member.rank, member.global_rank));
            }
        }
        if (const Entry* const call = node.waiting.front().entry; call != nullptr && node.op != OpKind::kWaitSignal) {
            node.op = halves[0] != nullptr || call->kind == OpKind::kSend ? OpKind::kSend : OpKind::kRecv;
        }
        node.sizes_differ = halves[0] != nullptr && halves[1] != nullptr && !pair_agrees(*halves[0], *halves[1]);
    }

    uint32_t node_of(uint32_t process, const Entry& entry) const {
        const auto index = static_cast<uint32_t>(&entry - run_.processes[process].entries.data());
        const auto found = placed_.node_of_entry[process].find(index);
        return found == placed_.node_of_entry[process].end() ? UINT32_MAX : found->second;
    }

    void look_at_creation(WaitNode& node) { node.sequence == kNoSequence ? look_at_init(node) : look_at_split(node); }

    // ncclCommInitRank and its kin: every rank of the new communicator must come.
    void look_at_init(WaitNode& node) {
        const Communicator& communicator = run_.communicators[node.communicator];
        for (size_t rank = 0; rank < communicator.by_rank.size(); ++rank) {
            const MemberRef ref = communicator.by_rank[rank];
            const auto comm_rank = static_cast<int>(rank);
            if (ref.known()) {
                if (!waits_in(node, ref)) {
                    node.finished.push_back(run_.member(ref).global_rank);
                }
                continue;
            }
            // A process with a dump that never came here has no row for it.
            // Where the members lie tells more than which rank left no dump: that one may be no member.
            int global = communicator.size == run_.world_size ? comm_rank : who_never_came(run_, communicator, rank);
            global = global >= 0 ? global : run_.global_rank(communicator, comm_rank);
            const auto process =
                std::ranges::find_if(run_.processes, [&](const Process& p) { return global >= 0 && p.rank == global; });
            if (process == run_.processes.end()) {
                node.absent.push_back({{}, comm_rank, global, AbsenceReason::kUnknown, {}, false});
            } else {
                node.absent.push_back(not_issued(
                    node, {static_cast<uint32_t>(process - run_.processes.begin()), kNoIndex}, comm_rank, global));
            }
        }
    }

    void look_at_split(WaitNode& node) {
        const Communicator& parent = run_.communicators[node.communicator];
        for (const MemberRef ref : parent.members) {
            const bool waits = std::ranges::any_of(
                node.waiting, [&](const Waiter& waiter) { return waiter.member.process == ref.process; });
            const Member& member = run_.member(ref);
            if (waits) {
                continue;
            }
            if (entered_split(run_, node, ref)) {
                node.finished.push_back(member.global_rank);
            } else {
                node.absent.push_back(not_issued(node, ref, member.rank, member.global_rank));
            }
        }
        add_unknown_members(node, parent);
    }

    void add_edges() {
        graph_.edges_of.resize(graph_.nodes.size());
        for (uint32_t from = 0; from < graph_.nodes.size(); ++from) {
            for (Absence& absence : graph_.nodes[from].absent) {
                // A member that waits in what it is missing in (one thread for several devices) is held by itself.
                std::erase(absence.held_by, from);
                for (const uint32_t to : absence.held_by) {
                    graph_.edges_of[from].push_back(static_cast<uint32_t>(graph_.edges.size()));
                    graph_.edges.push_back({from, to, absence.member});
                }
            }
            for (const Blocked& blocked : graph_.nodes[from].blocked) {
                for (const uint32_t to : blocked.held_by) {
                    graph_.edges_of[from].push_back(static_cast<uint32_t>(graph_.edges.size()));
                    graph_.edges.push_back({from, to, blocked.member});
                }
            }
        }
    }

    void add_program_order() {
        graph_.may_follow.resize(graph_.nodes.size());
        graph_.together.resize(graph_.nodes.size());
        for (uint32_t process = 0; process < run_.processes.size(); ++process) {
            std::map<uint32_t, uint32_t> in_order(placed_.node_of_entry[process].begin(),
                                                  placed_.node_of_entry[process].end());
            const std::vector<Entry>& entries = run_.processes[process].entries;
            // Recorded waits between streams are edges. Waits of the legacy default stream are not recorded.
            const StreamCoverage& streams_seen = run_.processes[process].streams_seen;
            const bool legacy = waits_by_default_stream(run_.processes[process]);
            uint32_t previous = UINT32_MAX;
            const std::vector<uint32_t>& lost = placed_.lost[process];
            for (const auto& [index, node] : in_order) {
                graph_.may_follow[node].insert(graph_.may_follow[node].end(), lost.begin(), lost.end());
                if (previous != UINT32_MAX) {
                    const uint32_t earlier = in_order[previous];
                    const Entry& before = entries[previous];
                    const bool together = (entries[index].group != 0 && entries[index].group == before.group) ||
                                          (entries[index].replay != 0 && entries[index].replay == before.replay);
                    if (together || legacy || !streams_seen.waits_since(entries[previous].entered_ns)) {
                        graph_.may_follow[node].push_back(earlier);
                    }
                    if (together) {
                        graph_.may_follow[earlier].push_back(node);
                        graph_.together[earlier].push_back(node);
                        graph_.together[node].push_back(earlier);
                    }
                }
                previous = index;
            }
        }
    }

    const Run& run_;
    const SiblingEdits& edits_;
    WaitGraph graph_;
    PlacedCalls placed_;
    HostHolds holds_;
    std::map<NodeKey, uint32_t> index_;
    std::set<uint32_t> p2p_indexed_;
    std::map<std::tuple<uint32_t, uint32_t, OpKind, int, uint64_t>, const Entry*> p2p_;
};

}  // namespace

WaitGraph build_wait_graph(const Run& run, const SiblingEdits& edits, const std::vector<Mismatch>& mismatches) {
    return GraphBuilder(run, edits).build(mismatches);
}

}  // namespace titan::analyzer
