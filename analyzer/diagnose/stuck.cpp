// What is left when everybody came: pairs of different size, calls that do not finish, deaths that nobody waits for.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "diagnoser.h"
#include "doubts.h"
#include "rank_state.h"
#include "run_text.h"
#include "text.h"
#include "went_past.h"
#include "witnessed.h"

namespace titan::analyzer {

bool Diagnoser::all_arrived(uint32_t index) const {
    const WaitNode& node = graph_.nodes[index];
    const bool dead_waiter = std::any_of(node.waiting.begin(), node.waiting.end(),
                                         [&](const Waiter& waiter) { return run_.process(waiter.member).is_gone(); });
    return hangs(index) && !explained_[index] && node.absent.empty() && node.blocked.empty() && !dead_waiter &&
           !in_cycle_.contains(index);
}

void Diagnoser::add_pairs_of_other_size() {
    for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
        const WaitNode& node = graph_.nodes[index];
        if (!all_arrived(index) || !node.sizes_differ) {
            continue;
        }
        Finding finding = finding_at(FindingKind::kSizeMismatch, index);
        finding.confidence = Confidence::kPossible;
        finding.to_be_sure.emplace_back("the program: a pair has no third side that could tell which size is meant");
        finding.summary = fmt::format("the two sides of {} pass different sizes; which one is wrong is undecidable",
                                      node_text(run_, node));
        // A small send is done before anybody receives it: then its sender does not wait.
        for (const OpKind kind : {OpKind::kSend, OpKind::kRecv}) {
            const bool sends = kind == OpKind::kSend;
            const MemberRef ref =
                run_.communicators[node.communicator].by_rank[static_cast<size_t>(sends ? node.source : node.target)];
            const std::vector<Entry>& entries = run_.process(ref).entries;
            const auto half = std::find_if(entries.rbegin(), entries.rend(), [&](const Entry& entry) {
                return entry.row == ref.row && entry.kind == kind && entry.sequence == node.sequence &&
                       entry.peer == (sends ? node.target : node.source);
            });
            const int rank = run_.member(ref).global_rank;
            finding.ranks.push_back(rank);
            if (half != entries.rend()) {
                finding.evidence.push_back(fmt::format("rank {}: {} ({})", rank, op_text(kind), arguments_text(*half)));
            }
        }
        explained_[index] = true;
        add_victims({index}, finding);
        diagnosis_.findings.push_back(std::move(finding));
    }
}

// Calls of one group end together: where one of them lacks a member, that is why the others do not end.
bool Diagnoser::lacks_a_member_together(uint32_t index) const {
    std::set<uint32_t> seen{index};
    std::vector<uint32_t> queue{index};
    while (!queue.empty()) {
        const uint32_t node = queue.back();
        queue.pop_back();
        if (node != index && (!graph_.nodes[node].absent.empty() || !graph_.nodes[node].blocked.empty())) {
            return true;
        }
        for (const uint32_t next : graph_.together[node]) {
            if (seen.insert(next).second) {
                queue.push_back(next);
            }
        }
    }
    return false;
}

std::vector<uint32_t> Diagnoser::find_stuck() const {
    std::vector<bool> is_candidate(graph_.nodes.size(), false);
    std::vector<uint32_t> candidates;
    for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
        is_candidate[index] =
            !is_cause_[index] && ((all_arrived(index) && !lacks_a_member_together(index)) || is_blocked_there(index));
        if (is_candidate[index]) {
            candidates.push_back(index);
        }
    }
    std::stable_sort(candidates.begin(), candidates.end(), [&](uint32_t a, uint32_t b) { return since(a) < since(b); });
    std::vector<uint32_t> stuck;
    std::vector<bool> behind_stuck(graph_.nodes.size(), false);
    for (const uint32_t index : candidates) {
        const std::vector<bool> reached = may_be_behind(graph_, index);
        bool follows = false;
        for (uint32_t node = 0; node < graph_.nodes.size() && !follows; ++node) {
            if (!reached[node] || node == index) {
                continue;
            }
            follows = is_cause_[node] || explained_[node] ||
                      (is_candidate[node] && (behind_stuck[node] || !may_be_behind(graph_, node)[index]));
        }
        if (!follows) {
            stuck.push_back(index);
            behind_stuck[index] = true;
        }
    }
    return stuck;
}

// What a rank hangs in may be a call whose entry is lost; then the calls that are left only stand in line behind it.
bool Diagnoser::may_hang_in_a_lost_call(const WaitNode& node) const {
    const bool in_line = std::any_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
        return waiter.in_line || has_lost_unfinished_calls(run_.process(waiter.member));
    });
    const std::vector<MemberRef>& members = run_.communicators[node.communicator].members;
    // Of a pair neither half ends without the other: the one whose entry is lost has not ended, either.
    const bool lost_half = node.lost && node.kind == WaitKind::kPointToPoint;
    return in_line || lost_half || (node.lost && std::any_of(members.begin(), members.end(), [&](MemberRef ref) {
                                        return has_lost_unfinished_calls(run_.process(ref));
                                    }));
}

// One finding for all of them: none of these waits is known to be the cause.
void Diagnoser::add_stuck_in_lost_calls(const std::vector<uint32_t>& nodes) {
    const uint32_t oldest =
        *std::min_element(nodes.begin(), nodes.end(), [&](uint32_t a, uint32_t b) { return since(a) < since(b); });
    Finding finding = finding_at(FindingKind::kStuckInFlight, oldest);
    finding.confidence = Confidence::kPossible;
    const Process* largest = nullptr;
    for (const Process& process : run_.processes) {
        if (has_lost_unfinished_calls(process)) {
            finding.ranks.push_back(process.rank);
        }
    }
    for (const uint32_t node : nodes) {
        for (const Waiter& waiter : graph_.nodes[node].waiting) {
            finding.ranks.push_back(run_.member(waiter.member).global_rank);
        }
    }
    sort_unique(finding.ranks);
    for (const int rank : finding.ranks) {
        const Process* process = process_of_rank_[rank];
        largest = process != nullptr && (largest == nullptr || process->overwritten > largest->overwritten) ? process
                                                                                                            : largest;
    }
    finding.summary = fmt::format(
        "the rings are too small: calls that had not finished are overwritten, and {} may hang in one of those; in "
        "which, and for whom, is undecidable; the oldest that is left is {}",
        ranks_text(finding.ranks), node_text(run_, graph_.nodes[oldest]));
    if (largest != nullptr) {
        finding.to_be_sure.push_back(larger_ring_text(*largest) + ", among them unfinished ones that it may hang in");
    }
    if (!run_.missing_ranks.empty()) {
        finding.ranks.insert(finding.ranks.end(), run_.missing_ranks.begin(), run_.missing_ranks.end());
        sort_unique(finding.ranks);
        finding.summary +=
            fmt::format("; {} left no dump and may be the cause as well", ranks_text(run_.missing_ranks));
        finding.to_be_sure.push_back(missing_dumps_text(run_.missing_ranks, {}));
    }
    constexpr size_t kShownWaits = 8;
    for (size_t i = 0; i < std::min(kShownWaits, nodes.size()); ++i) {
        if (const std::string text = waiting_text(run_, graph_.nodes[nodes[i]]); !text.empty()) {
            finding.evidence.push_back(text);
        }
    }
    add_victims(nodes, finding);
    diagnosis_.findings.push_back(std::move(finding));
}

bool Diagnoser::is_known_by_hosts_alone(const WaitNode& node) const {
    return node.device_unknown && node.kind != WaitKind::kCreation &&
           std::all_of(node.waiting.begin(), node.waiting.end(),
                       [&](const Waiter& waiter) { return graph_.orders[waiter.member.process].inferred; });
}

// Each host's newest call was taken for the one that it waits for, but any since it last waited may be: one finding.
void Diagnoser::add_stuck_unseen(const std::vector<uint32_t>& nodes) {
    const uint32_t oldest =
        *std::min_element(nodes.begin(), nodes.end(), [&](uint32_t a, uint32_t b) { return since(a) < since(b); });
    Finding finding = finding_at(FindingKind::kStuckInFlight, oldest);
    finding.confidence = Confidence::kPossible;
    constexpr size_t kShownCalls = 8;
    for (const uint32_t node : nodes) {
        const std::vector<int> waiting = waiting_ranks(run_, graph_.nodes[node]);
        finding.ranks.insert(finding.ranks.end(), waiting.begin(), waiting.end());
        if (finding.evidence.size() < kShownCalls) {
            finding.evidence.push_back(waiting_text(run_, graph_.nodes[node]));
        }
    }
    sort_unique(finding.ranks);
    finding.summary = fmt::format(
        "{} wait for their GPUs, and nobody saw which call does not finish: {}, or another since they waited before",
        ranks_text(finding.ranks), node_text(run_, graph_.nodes[oldest]));
    finding.to_be_sure.emplace_back("TITANTRACE_GPU_PROGRESS=writes: how far each stream came");
    add_victims(nodes, finding);
    diagnosis_.findings.push_back(std::move(finding));
}

void Diagnoser::add_stuck() {
    std::map<CulpritKey, BlockedCause> blocked;
    std::vector<uint32_t> in_line;
    const std::vector<uint32_t> stuck = find_stuck();
    std::vector<uint32_t> unseen;
    std::copy_if(stuck.begin(), stuck.end(), std::back_inserter(unseen),
                 [&](uint32_t index) { return all_arrived(index) && is_known_by_hosts_alone(graph_.nodes[index]); });
    if (unseen.size() > 1) {
        add_stuck_unseen(unseen);
    }
    for (const uint32_t index : stuck) {
        if (unseen.size() > 1 && std::find(unseen.begin(), unseen.end(), index) != unseen.end()) {
            continue;
        }
        const WaitNode& node = graph_.nodes[index];
        if (!all_arrived(index)) {
            note_blocked(index, blocked);
            continue;
        }
        if (node.kind != WaitKind::kCreation && may_hang_in_a_lost_call(node)) {
            in_line.push_back(index);
            continue;
        }
        Finding finding = finding_at(
            node.kind == WaitKind::kCreation ? FindingKind::kCommInitStuck : FindingKind::kStuckInFlight, index);
        doubt_stuck(run_, node, finding);
        doubt_guesses(run_, node, finding);
        finding.ranks = waiting_ranks(run_, node);
        explain_stuck(run_, node, finding);
        if (node.kind == WaitKind::kPointToPoint && break_tie({index}, finding)) {
            finding.kind = FindingKind::kP2pUnmatched;
            finding.confidence = Confidence::kPossible;
        }
        add_victims({index}, finding);
        diagnosis_.findings.push_back(std::move(finding));
    }
    if (!in_line.empty()) {
        add_stuck_in_lost_calls(in_line);
    }
    report_blocked(blocked);
}

void Diagnoser::add_other_deaths() {
    std::set<int> named;
    for (const Finding& finding : diagnosis_.findings) {
        if (finding.kind == FindingKind::kRankDead) {
            named.insert(finding.ranks.begin(), finding.ranks.end());
        }
    }
    Finding finding;
    finding.kind = FindingKind::kRankDead;
    finding.since_ns = INT64_MAX;
    const Process* guessed = nullptr;
    for (const Process& process : run_.processes) {
        if (process.died() && !named.contains(process.rank)) {
            finding.ranks.push_back(process.rank);
            guessed = process.ending.guessed ? &process : guessed;
            finding.since_ns = std::min(finding.since_ns, process.now_ns);
            finding.evidence.push_back(fmt::format("rank {}: {}", process.rank, rank_state(run_, process)));
        }
    }
    if (!finding.ranks.empty()) {
        const bool one = finding.ranks.size() == 1;
        const std::string how = one ? witnessed_end_text(run_, finding.ranks.front()) : std::string();
        finding.summary =
            fmt::format("{} {} dead{}; no other rank is known to wait for {} yet", ranks_text(finding.ranks),
                        one ? "is" : "are", how.empty() ? "" : " (" + how + ")", one ? "it" : "them");
        if (guessed != nullptr) {
            doubt_end(*guessed, finding);
        }
        diagnosis_.findings.push_back(std::move(finding));
    }
    for (const int rank : run_.missing_ranks) {
        if (!named.contains(rank) && died_unrecorded(run_, rank)) {
            add_unrecorded_death(rank);
        }
    }
}

// Only a witness knows of it, so what it was to do is not known.
void Diagnoser::add_unrecorded_death(int rank) {
    Finding finding;
    finding.kind = FindingKind::kRankDead;
    finding.ranks = {rank};
    finding.summary = fmt::format("rank {} is dead ({}) and left no record", rank, witnessed_end_text(run_, rank));
    finding.since_ns = INT64_MAX;
    for (const Process& process : run_.processes) {
        finding.since_ns = std::min(finding.since_ns, process.now_ns);
    }
    finding.doubt(witnessed_first(run_) != rank, "a witness that tells whether it ended before the others");
    const Testimony* end = witnessed_end(run_, rank);
    finding.doubt(
        end != nullptr && end->rank_by_task,
        fmt::format("what task {} is: it may be a launcher of several ranks, and none of them rank {}", rank, rank));
    diagnosis_.findings.push_back(std::move(finding));
}

void Diagnoser::add_unexplained_waits() {
    const bool told = std::any_of(diagnosis_.findings.begin(), diagnosis_.findings.end(),
                                  [](const Finding& finding) { return finding.hangs; });
    std::vector<uint32_t> nodes;
    for (uint32_t index = 0; index < graph_.nodes.size() && !told; ++index) {
        const auto& waiting = graph_.nodes[index].waiting;
        if (std::any_of(waiting.begin(), waiting.end(),
                        [&](const Waiter& waiter) { return waited_for_its_timeout(run_, waiter); })) {
            nodes.push_back(index);
        }
    }
    if (nodes.empty()) {
        return;
    }
    const uint32_t oldest =
        *std::min_element(nodes.begin(), nodes.end(), [&](uint32_t a, uint32_t b) { return since(a) < since(b); });
    Finding finding = finding_at(FindingKind::kStuckInFlight, oldest);
    finding.confidence = Confidence::kPossible;
    for (const uint32_t node : nodes) {
        const std::vector<int> waiting = waiting_ranks(run_, graph_.nodes[node]);
        finding.ranks.insert(finding.ranks.end(), waiting.begin(), waiting.end());
        finding.evidence.push_back(waiting_text(run_, graph_.nodes[node]));
    }
    sort_unique(finding.ranks);
    finding.summary =
        fmt::format("{} {} in {} for nearly the whole timeout; nothing on record tells why", ranks_text(finding.ranks),
                    is_plural(finding.ranks) ? "wait" : "waits", node_text(run_, graph_.nodes[oldest]));
    finding.to_be_sure.emplace_back("dumps of all ranks, made at one time");
    add_victims(nodes, finding);
    diagnosis_.findings.push_back(std::move(finding));
}

}  // namespace titan::analyzer
