// Rings of waits: order inversions between communicators, and point-to-point calls that wait for each other. Where no
// streams are recorded, two calls that all have issued, but not in one order, are a ring, too: calls that a GPU runs
// one after the other never end then.
#include "finders.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "break_tie.h"
#include "call_order.h"
#include "causes.h"
#include "explain.h"
#include "host/words.h"
#include "later_step.h"
#include "layout.h"
#include "skipped_call.h"
#include "uncertainty.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostOfMembers = 2;  // times as many members made a call as did not

// A call that all members make alike: a collective, or an exchange between all of them in one group.
std::optional<CallPlace> place_in_program(const Evidence& evidence, uint32_t index) {
    const WaitNode& node = evidence.node(index);
    if (node.kind == WaitKind::kCollective) {
        return CallPlace{node.communicator, node.sequence};
    }
    const auto is_whole_exchange = [&](const Waiter& waiter) {
        const Process& process = evidence.run.process(waiter.member);
        const int32_t size = evidence.run.member(waiter.member).size;
        std::set<int32_t> peers;
        for (const Entry& entry : process.entries) {
            const bool together = waiter.entry != nullptr && waiter.entry->group != 0 &&
                                  entry.group == waiter.entry->group && entry.row == waiter.entry->row;
            if (together && entry.kind == OpKind::kSend && entry.sequence == node.sequence) {
                peers.insert(entry.peer);
            }
        }
        return size > 2 && peers.size() + 1 >= static_cast<size_t>(size);
    };
    if (node.kind == WaitKind::kPointToPoint && !node.waiting.empty() &&
        std::ranges::all_of(node.waiting, is_whole_exchange)) {
        return CallPlace{node.communicator, node.sequence, true};
    }
    return std::nullopt;
}

// Two such calls made in opposite orders: all ranks that make such calls vote, also where few are in both
// communicators.
bool break_tie_by_vote(const Evidence& evidence, const std::vector<Edge>& cycle, Finding& finding) {
    const auto a = cycle.size() == 2 ? place_in_program(evidence, cycle[0].from) : std::nullopt;
    const auto b = cycle.size() == 2 ? place_in_program(evidence, cycle[1].from) : std::nullopt;
    if (finding.ranks.size() < 2 || !a || !b) {
        return false;
    }
    const OrderVote vote = vote_on_order(evidence.run, *a, *b);
    if (vote.is_tied()) {
        return false;
    }
    std::vector<int> ranks;
    for (const uint32_t process : vote.few()) {
        ranks.push_back(evidence.run.processes[process].rank);
    }
    std::erase_if(ranks, [&](int rank) { return !std::ranges::binary_search(finding.ranks, rank); });
    if (ranks.empty()) {
        return false;
    }
    finding.ranks = std::move(ranks);
    finding.evidence.push_back(order_of_few_text(finding.ranks, vote));
    depends_on(finding, Unknown::kOrderByVote);
    return true;
}

bool is_whole_stage(const Run& run, const std::vector<int>& ranks) {
    const int32_t stage = ranks.size() < 2 ? -1 : stage_of(run, ranks.front());
    const auto of_stage = [&](const Process& process) { return stage_of(run, process.rank) == stage; };
    return stage >= 0 &&
           std::ranges::all_of(ranks, [&](int rank) { return rank >= 0 && stage_of(run, rank) == stage; }) &&
           static_cast<size_t>(std::ranges::count_if(run.processes, of_stage)) == ranks.size();
}

// The only call of a ring that others come to as well: a creation; or else a collective among sends and receives, which
// a whole stage of a pipeline has not made, while each of its ranks waits in a message. Null: there is none.
const WaitNode* call_of_many(const Evidence& evidence, const std::vector<Edge>& cycle) {
    std::map<WaitKind, const WaitNode*> of_kind;
    for (const Edge& edge : cycle) {
        const WaitNode& node = evidence.node(edge.from);
        if (!of_kind.emplace(node.kind, &node).second && node.kind != WaitKind::kPointToPoint) {
            return nullptr;
        }
    }
    if (of_kind.contains(WaitKind::kCreation)) {
        return of_kind.at(WaitKind::kCreation);
    }
    if (!of_kind.contains(WaitKind::kCollective)) {
        return nullptr;
    }
    const WaitNode& collective = *of_kind.at(WaitKind::kCollective);
    const auto is_message = [&](uint32_t node) { return evidence.node(node).kind == WaitKind::kPointToPoint; };
    const bool all_in_messages = std::ranges::all_of(collective.absent, [&](const Absence& absence) {
        return !absence.held_by.empty() && std::ranges::all_of(absence.held_by, is_message);
    });
    return all_in_messages && is_whole_stage(evidence.run, absent_ranks(collective)) ? &collective : nullptr;
}

// If most members have made that call, the program makes it there, and the few went on without it. A rank that differs
// from its siblings tells more.
bool break_tie_by_members(const Evidence& evidence, const std::vector<Edge>& cycle, Finding& finding) {
    const WaitNode* const node =
        cycle.size() < 2 || evidence.edits.all().size() == 1 ? nullptr : call_of_many(evidence, cycle);
    if (node == nullptr) {
        return false;
    }
    const std::vector<int> few = absent_ranks(*node);
    const auto members = static_cast<size_t>(evidence.run.communicators[node->communicator].size);
    if (few.size() + node->waiting.size() != members || node->waiting.size() < kMostOfMembers * few.size()) {
        return false;
    }
    finding.ranks = few;
    finding.evidence.push_back(phrase("{} of {} members called {}; {} made other calls instead", node->waiting.size(),
                                      members, node_fact(evidence.run, *node), ranks_fact(few)));
    depends_on(finding, Unknown::kOrderByVote);
    return true;
}

// The half of a message in a ring that a rank leaves out, or makes too many: beside ranks with the same role, or beside
// its own past.
struct OddHalf {
    const Edge* edge = nullptr;
    const Edit* edit = nullptr;  // null: its own, of the call that it waits in
    bool is_extra = false;

    uint32_t process() const { return edit == nullptr ? edge->via.process : edit->process; }
};

// The edit's call is the rank's half of the message that it waits in.
bool is_own_half(const Evidence& evidence, const WaitNode& node, const Edit& edit) {
    const CallSignature& made = evidence.run.processes[edit.process].history[edit.place];
    return std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
        return waiter.member.process == edit.process && waiter.entry != nullptr && waiter.member.row == made.row &&
               waiter.entry->kind == made.kind && waiter.entry->peer == made.peer;
    });
}

// `own`: the edit of the rank that is missing in the edge's node, in the call that it waits in. `lone`: the only one in
// the ring, by what each rank did before.
std::optional<OddHalf> odd_half(const Evidence& evidence, const Edge& edge, uint32_t waits_in,
                                const std::optional<Edit>& own, const std::optional<Edit>& lone) {
    const WaitNode& node = evidence.node(edge.from);
    if (node.kind != WaitKind::kPointToPoint || edge.via.row == kNoIndex) {
        return std::nullopt;
    }
    for (const Edit* const edit : {evidence.edits.of(edge.via.process), lone ? &*lone : nullptr}) {
        const bool is_missing = edit != nullptr && (edit->kind != EditKind::kExtra || edit->or_extra);
        if (is_missing && edit->process == edge.via.process && in_place_of(evidence.run, edge.via, node, *edit)) {
            return OddHalf{&edge, edit};
        }
        if (edit != nullptr && !is_missing && is_own_half(evidence, node, *edit)) {
            return OddHalf{&edge, edit, true};
        }
    }
    const bool same_group = evidence.node(waits_in).communicator == node.communicator;
    return own && same_group && in_place_of(evidence.run, edge.via, node, *own) ? std::optional(OddHalf{&edge})
                                                                                : std::nullopt;
}

Sentence odd_half_text(const Evidence& evidence, const OddHalf& half, int rank, bool is_late) {
    const WaitNode& node = evidence.node(half.edge->from);
    const Edit* const edit = half.edit;
    const Sentence like = edit == nullptr || edit->siblings.empty()
                              ? phrase("it {} did before", half.is_extra ? "never" : "always")
                              : phrase("{}, which [plays|play] the same part, {}", ranks_fact(edit->siblings),
                                       half.is_extra ? "made none" : "did");
    return half.is_extra ? phrase("{} made {} where {}", rank_fact(rank), own_call_fact(evidence.run, node, rank), like)
                         : phrase("{} {} its side of {} {} {}", rank_fact(rank), is_late ? "made" : "did not make",
                                  node_fact(evidence.run, node), is_late ? "later than" : "where", like);
}

// Names the rank if it is the only one. Where the others do what they never did, or what ranks with their role do not
// do, either, it is the program.
bool choose_odd_half(const Evidence& evidence, const std::vector<OddHalf>& halves, const std::vector<int>& deviating,
                     Finding& finding) {
    if (halves.size() != 1) {
        return false;
    }
    const OddHalf& half = halves.front();
    const int rank = half.is_extra ? evidence.run.processes[half.process()].rank : evidence.rank_of(half.edge->via);
    const std::vector<const Edit*> edits = evidence.edits.among(finding.ranks);
    if (std::ranges::any_of(edits, [&](const Edit* edit) { return edit->process != half.process(); }) ||
        (half.edit == nullptr && std::ranges::any_of(deviating, [&](int one) { return one != rank; }))) {
        return false;
    }
    const std::vector<Absence>& absent = evidence.node(half.edge->from).absent;
    const bool is_queued = std::ranges::any_of(absent, [&](const Absence& absence) {
        return absence.member == half.edge->via && absence.reason == AbsenceReason::kQueued;
    });
    const bool is_late = half.edit == nullptr ? is_queued : half.edit->kind == EditKind::kSwapped;
    finding.ranks = {rank};
    finding.summary = phrase("{}: {}", odd_half_text(evidence, half, rank, is_late), finding.summary);
    finding.kind = is_late ? finding.kind : FindingKind::kP2pUnmatched;
    const char* const what = half.is_extra ? "made a call too many"
                             : is_late     ? "has the wrong order"
                                           : "skipped the call";
    if (half.edit != nullptr) {
        finding.evidence.push_back(edit_fact(evidence.run, *half.edit));
    } else if (!is_late) {
        finding.evidence.push_back(phrase("whether {} skipped the call or is late is undecidable", rank_fact(rank)));
    }
    if (half.edit != nullptr && !half.edit->siblings.empty()) {
        depends_on<Unknown::kBySiblings>(finding, rank_fact(rank), what, ranks_fact(half.edit->siblings));
    } else {
        depends_on<Unknown::kByOwnPast>(finding, rank_fact(rank), what);
    }
    return true;
}

// Sends and receives that wait for each other. Returns what stays undecided unless something else decides it.
const char* doubt_pairs(const Evidence& evidence, const std::vector<Edge>& cycle, const std::vector<int>& deviating,
                        Finding& finding) {
    const std::vector<int> all = finding.ranks;
    const bool all_receive = std::ranges::all_of(cycle, [&](const Edge& edge) {
        const auto& waiting = evidence.node(edge.from).waiting;
        return std::ranges::all_of(waiting, [](const Waiter& waiter) {
            return waiter.entry != nullptr && waiter.entry->kind == OpKind::kRecv;
        });
    });
    // Only a complete record can show that a rank never did something before.
    const bool forgot_calls = std::ranges::any_of(all, [&](int member) {
        return evidence.process_of_rank[member] != nullptr && evidence.process_of_rank[member]->overwritten != 0;
    });
    if (!all_receive && deviating.size() == all.size() && !forgot_calls) {
        return nullptr;
    }
    doubt_culprits_of_cycle(evidence.run, all, false, finding);
    return all_receive ? "all of them receive: one skipped a send, or receives too early; which one is undecidable"
                       : "one skipped a receive, or sends too early; which one is undecidable";
}

// A rank that waits without having made the missing call at all may have skipped it as well.
// Where all are creations, each rank has made one that the others lack.
void doubt_order(const Evidence& evidence, const std::vector<Edge>& cycle, Finding& finding) {
    const auto is_creation = [&](const Edge& edge) { return evidence.node(edge.from).kind == WaitKind::kCreation; };
    if (std::ranges::all_of(cycle, is_creation)) {
        return;
    }
    for (const Edge& edge : cycle) {
        for (const Absence& absence : evidence.node(edge.from).absent) {
            const bool named = std::ranges::binary_search(finding.ranks, absence.global_rank);
            const bool uncounted =
                absence.reason == AbsenceReason::kQueued && first_step(evidence.node(edge.from)) == INT32_MAX;
            if (!named || (absence.reason != AbsenceReason::kNotIssued && !uncounted)) {
                continue;
            }
            const Sentence call = node_fact(evidence.run, evidence.node(edge.from));
            if (uncounted) {
                finding.evidence.push_back(
                    phrase("{} may have skipped one and made the next one as {}: without step markers that "
                           "is undecidable",
                           rank_fact(absence.global_rank), call));
                doubt<Unknown::kSteps>(finding, finding.confidence == Confidence::kCertain);
                return;
            }
            finding.evidence.push_back(
                phrase("{} has not called {}: whether it skipped the call or is late is undecidable",
                       rank_fact(absence.global_rank), call));
            doubt<Unknown::kStillMakesIt>(finding, finding.confidence == Confidence::kCertain,
                                          rank_fact(absence.global_rank), call);
            return;
        }
    }
}

// Members that are missing in the edge's node because they are held in `holder`.
std::vector<int> held_ranks(const Evidence& evidence, const Edge& edge, uint32_t holder) {
    std::vector<int> ranks;
    for (const Absence& absence : evidence.node(edge.from).absent) {
        if (absence.global_rank >= 0 && std::ranges::find(absence.held_by, holder) != absence.held_by.end()) {
            ranks.push_back(absence.global_rank);
        }
    }
    for (const Blocked& blocked : evidence.node(edge.from).blocked) {
        if (std::ranges::find(blocked.held_by, holder) != blocked.held_by.end()) {
            ranks.push_back(evidence.rank_of(blocked.member));
        }
    }
    return ranks;
}

// If other ranks do the same there, it belongs to the program, although not to every step.
bool deviates_alone(const Evidence& evidence, uint32_t node, uint32_t process) {
    const std::vector<Waiter>& waiting = evidence.node(node).waiting;
    return std::ranges::none_of(waiting, [&](const Waiter& waiter) {
        return waiter.member.process != process && edit_in(evidence, node, waiter.member.process);
    });
}

// In a cycle every rank waits for another. The order of the minority is called wrong, of all ranks that make such calls
// or of these; else the order that differs from what that rank did before. If neither decides, all ranks are named.
// `held_by_edge`: the ranks that are missing in the edge's node because they are held in the next one.
void choose_culprits(const Evidence& evidence, const std::vector<Edge>& cycle,
                     const std::vector<std::vector<int>>& held_by_edge, const std::vector<uint32_t>& nodes,
                     Finding& finding) {
    std::vector<int> all;
    std::vector<int> fewest;
    std::vector<int> deviating;
    std::vector<std::optional<Edit>> own_edits;  // by edge
    std::set<uint32_t> communicators;
    size_t smallest = SIZE_MAX;
    bool unique = false;
    for (size_t i = 0; i < cycle.size(); ++i) {
        const Edge& edge = cycle[i];
        const Edge& next = cycle[(i + 1) % cycle.size()];
        const std::vector<int>& held = held_by_edge[i];
        all.insert(all.end(), held.begin(), held.end());
        unique = held.size() < smallest || (unique && held.size() != smallest);
        if (held.size() < smallest) {
            smallest = held.size();
            fewest = held;
        }
        const auto edit = edit_in(evidence, next.from, edge.via.process);
        if (edit && deviates_alone(evidence, next.from, edge.via.process)) {
            deviating.insert(deviating.end(), held.begin(), held.end());
        }
        own_edits.push_back(edit);
        communicators.insert(evidence.node(edge.from).communicator);
    }
    sort_unique(all);
    sort_unique(deviating);
    finding.ranks = all;
    // In a ring of messages alone either side may be the one that has another order.
    const bool only_p2p = finding.kind == FindingKind::kP2pCycle;
    const std::optional<Edit> lone =
        only_p2p ? std::nullopt
                 : only_edit_of_own_past(evidence.run, all, {communicators.begin(), communicators.end()});
    std::vector<OddHalf> halves;
    for (size_t i = 0; i < cycle.size(); ++i) {
        if (const auto half = odd_half(evidence, cycle[i], cycle[(i + 1) % cycle.size()].from, own_edits[i], lone)) {
            halves.push_back(*half);
        }
    }
    if (choose_odd_half(evidence, halves, deviating, finding)) {
        return;
    }
    const bool is_one_alone = !only_p2p && unique && smallest == 1 && all.size() > 2;  // no vote makes that surer
    const bool by_vote = !is_one_alone && (break_tie_by_vote(evidence, cycle, finding) ||
                                           break_tie_by_members(evidence, cycle, finding));
    const char* undecided = nullptr;
    if (!by_vote && only_p2p) {
        undecided = doubt_pairs(evidence, cycle, deviating, finding);
    } else if (!by_vote && unique && smallest * 2 < all.size()) {
        finding.ranks = fewest;
        finding.evidence.push_back(phrase("{} [has|have] the order of the minority", ranks_fact(fewest)));
    } else if (!by_vote && !deviating.empty() && deviating.size() < all.size()) {
        finding.ranks = deviating;
        doubt_culprits_of_cycle(evidence.run, all, true, finding);
        finding.evidence.push_back(phrase("{} did it in another order before", ranks_fact(deviating)));
    } else if (!by_vote) {
        doubt_culprits_of_cycle(evidence.run, all, false, finding);
        undecided = "which of them has the wrong order is undecidable";
    }
    std::ranges::sort(finding.ranks);
    if (!only_p2p) {
        doubt_order(evidence, cycle, finding);
    }
    if (!by_vote && !break_tie(evidence, nodes, finding) && undecided != nullptr) {
        finding.evidence.emplace_back(undecided);
    }
}

void tell_cycle(const Evidence& evidence, ToldSoFar& told, const std::vector<uint32_t>& nodes, Finding finding) {
    for (const uint32_t node : nodes) {
        doubt_guesses(evidence.run, evidence.node(node), finding);
    }
    told.add_cause(std::move(finding), nodes);
}

// A pair that never exchanged anything, among pairs that did again and again: the message may go to the wrong rank.
void doubt_first_message(const Evidence& evidence, const std::vector<Edge>& cycle, Finding& finding) {
    constexpr uint64_t kOften = 3;
    const auto sequence_of = [&](const Edge& edge) { return evidence.node(edge.from).sequence; };
    const bool any_often = std::ranges::any_of(cycle, [&](const Edge& edge) { return sequence_of(edge) >= kOften; });
    for (const Edge& edge : cycle) {
        const WaitNode& node = evidence.node(edge.from);
        if (any_often && node.kind == WaitKind::kPointToPoint && node.sequence == 0) {
            depends_on<Unknown::kMessageTooMany>(finding, ranks_fact(waiting_ranks(evidence.run, node)));
        }
    }
}

// The rank that is missing in the edge's node, and held in the next one.
int missing_rank(const Run& run, const Edge& edge) {
    return edge.via.row == kNoIndex ? run.processes[edge.via.process].rank : run.member(edge.via).global_rank;
}

// "rank 0 waits in tp:0 #5 for rank 1, which waits in dp:0 #7 for rank 0"; a long cycle shows only its beginning.
Sentence ring_text(const std::vector<CycleStep>& cycle) {
    constexpr size_t kShownInFull = 4;
    constexpr size_t kShownOfLong = 2;
    const size_t told = cycle.size() <= kShownInFull ? cycle.size() : kShownOfLong;
    Sentence text = rank_fact(cycle.front().rank);
    for (size_t i = 0; i < told; ++i) {
        text +=
            phrase("{} waits in {} for {}", i == 0 ? "" : ", which", cycle[i].waits_in, rank_fact(cycle[i].waits_for));
    }
    return told == cycle.size() ? text
                                : phrase("{}, and so on: {} waits, the last of them for {}", text, cycle.size(),
                                         rank_fact(cycle.front().rank));
}

void explain_cycle(const Run& run, const WaitGraph& graph, const std::vector<Edge>& cycle, Finding& finding) {
    constexpr size_t kShownWaits = 8;
    int rank = missing_rank(run, cycle.back());
    for (const Edge& edge : cycle) {
        if (missing_rank(run, edge) != rank) {  // else it waits behind work of its own
            finding.cycle.push_back({rank, own_call_fact(run, graph.nodes[edge.from], rank), missing_rank(run, edge)});
        }
        rank = missing_rank(run, edge);
    }
    finding.summary = ring_text(finding.cycle);
    for (size_t i = 0; i < std::min(kShownWaits, cycle.size()); ++i) {
        if (const Sentence waiting = waiting_fact(run, graph.nodes[cycle[i].from]); !waiting.empty()) {
            finding.evidence.push_back(waiting);
        }
    }
}

// Tells the ring from a rank on that the finding names.
void begin_with_a_named_rank(Finding& finding) {
    const auto first = std::ranges::find_if(
        finding.cycle, [&](const CycleStep& step) { return std::ranges::binary_search(finding.ranks, step.rank); });
    const bool is_told = !finding.cycle.empty() && finding.summary.text() == ring_text(finding.cycle).text();
    if (is_told && first != finding.cycle.end()) {
        std::rotate(finding.cycle.begin(), first, finding.cycle.end());
        finding.summary = ring_text(finding.cycle);
    }
}

void add_cycle(const Evidence& evidence, ToldSoFar& told, const std::vector<uint32_t>& nodes) {
    const uint32_t oldest = evidence.oldest_of(nodes);
    const std::vector<Edge> cycle = shortest_cycle(evidence.graph, evidence.components, oldest);
    if (cycle.empty()) {
        return;
    }
    const bool only_p2p = std::ranges::all_of(
        cycle, [&](const Edge& edge) { return evidence.node(edge.from).kind == WaitKind::kPointToPoint; });
    Finding finding = evidence.finding_at(only_p2p ? FindingKind::kP2pCycle : FindingKind::kOrderInversion, oldest);
    explain_cycle(evidence.run, evidence.graph, cycle, finding);
    std::vector<std::vector<int>> held;
    for (size_t i = 0; i < cycle.size(); ++i) {
        held.push_back(held_ranks(evidence, cycle[i], cycle[(i + 1) % cycle.size()].from));
    }
    choose_culprits(evidence, cycle, held, nodes, finding);
    begin_with_a_named_rank(finding);
    if (std::ranges::any_of(cycle,
                            [&](const Edge& edge) { return evidence.node(edge.from).kind == WaitKind::kCreation; })) {
        finding.next = "create and split communicators on every rank in the same order, and as often";
    }
    doubt<Unknown::kNamesOfCreations>(
        finding, finding.confidence == Confidence::kCertain && evidence.may_be_one_communicator(nodes));
    for (const Edge& edge : cycle) {
        const bool guessed =
            edge.via.row == kNoIndex &&
            evidence.run.communicators[evidence.node(edge.from).communicator].size != evidence.run.world_size;
        doubt<Unknown::kMemberGuessed>(finding, guessed && finding.confidence == Confidence::kCertain,
                                       rank_fact(evidence.run.processes[edge.via.process].rank));
    }
    doubt_first_message(evidence, cycle, finding);
    tell_cycle(evidence, told, nodes, std::move(finding));
}

// Ranks that issued the first of two calls first, and ranks that issued the second first.
using Orders = std::array<std::vector<MemberRef>, 2>;

void add_crossing(const Evidence& evidence, ToldSoFar& told, const std::array<uint32_t, 2>& nodes,
                  const Orders& first_in) {
    const std::vector<uint32_t> both(nodes.begin(), nodes.end());
    std::vector<Edge> cycle;
    std::vector<std::vector<int>> held;  // who has one call first is what the other call waits for
    for (const size_t i : {size_t{0}, size_t{1}}) {
        cycle.push_back({nodes[i], nodes[1 - i], first_in[1 - i].front()});
        std::vector<int>& ranks = held.emplace_back();
        for (const MemberRef ref : first_in[1 - i]) {
            ranks.push_back(evidence.rank_of(ref));
        }
        sort_unique(ranks);
    }
    Finding finding = evidence.finding_at(FindingKind::kOrderInversion, evidence.oldest_of(both));
    finding.summary = phrase("{} issued {} before {}, {} the other way round; neither finishes", ranks_fact(held[1]),
                             node_fact(evidence.run, evidence.node(nodes[0])),
                             node_fact(evidence.run, evidence.node(nodes[1])), ranks_fact(held[0]));
    evidence.show_waits(both, finding);
    depends_on(finding, evidence.run.process(first_in[0].front()).sees.streams ? Unknown::kWaitsOfStreams
                                                                               : Unknown::kStreamsOfCalls);
    choose_culprits(evidence, cycle, held, both, finding);
    tell_cycle(evidence, told, both, std::move(finding));
}

// A call that all have issued.
bool may_cross(const Evidence& evidence, const ToldSoFar& told, uint32_t index) {
    const WaitNode& node = evidence.node(index);
    return node.kind != WaitKind::kCreation && evidence.hang_of[index] == Hang::kByTime && node.absent.empty() &&
           !told.is_told(index);
}

// Nothing shows whether the call waits for others of its process. Messages may run side by side, unless their GPU shows
// which of them it has come to.
bool may_wait_for_others_of(const Process& process, const WaitNode& node, const Entry& call) {
    return !process.sees.streams ? node.kind == WaitKind::kCollective
                                 : !process.streams_seen.waits_since(call.entered_ns) &&
                                       (node.kind == WaitKind::kCollective || call.device != DeviceState::kUnknown);
}

void find_crossings(const Evidence& evidence, ToldSoFar& told) {
    std::map<uint32_t, std::map<uint32_t, const Waiter*>> calls;  // process -> node
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        for (const Waiter& waiter : evidence.node(index).waiting) {
            if (waiter.entry != nullptr &&
                may_wait_for_others_of(evidence.run.process(waiter.member), evidence.node(index), *waiter.entry) &&
                may_cross(evidence, told, index)) {
                calls[waiter.member.process].try_emplace(index, &waiter);
            }
        }
    }
    std::map<std::array<uint32_t, 2>, Orders> pairs;
    for (const auto& [process, nodes] : calls) {
        for (auto a = nodes.begin(); a != nodes.end(); ++a) {
            for (auto b = std::next(a); b != nodes.end(); ++b) {
                const bool is_first = a->second->entry < b->second->entry;
                const Entry& second = is_first ? *b->second->entry : *a->second->entry;
                if (second.device != DeviceState::kStarted) {  // else it waited for no other
                    pairs[{a->first, b->first}][is_first ? 0 : 1].push_back(a->second->member);
                }
            }
        }
    }
    for (const auto& [nodes, orders] : pairs) {
        if (!orders[0].empty() && !orders[1].empty() && !told.is_cause[nodes[0]] && !told.is_cause[nodes[1]]) {
            add_crossing(evidence, told, nodes, orders);
        }
    }
}

}  // namespace

void find_cycles(const Evidence& evidence, ToldSoFar& told) {
    std::map<uint32_t, std::vector<uint32_t>> members;
    for (uint32_t node = 0; node < evidence.graph.nodes.size(); ++node) {
        members[evidence.components[node]].push_back(node);
    }
    for (const auto& [component, nodes] : members) {
        const bool reported = std::ranges::any_of(nodes, [&](uint32_t node) { return told.explained[node]; });
        const bool hangs =
            std::ranges::any_of(nodes, [&](uint32_t node) { return evidence.hang_of[node] == Hang::kByTime; });
        if (nodes.size() > 1 && hangs && !reported && !told.skipped_in.contains(component)) {
            add_cycle(evidence, told, nodes);
        }
    }
    find_crossings(evidence, told);
}

}  // namespace titan::analyzer
