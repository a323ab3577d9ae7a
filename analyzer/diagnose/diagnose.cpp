// From mismatches and the wait-for graph to findings: causes named, victims folded, the head one first.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/causes.h"
#include "analyzer/explain.h"
#include "analyzer/finding.h"
#include "analyzer/match.h"
#include "analyzer/rank_state.h"
#include "analyzer/text.h"
#include "analyzer/wait_graph.h"

namespace titan::analyzer {
namespace {

// A wait that no timeout has confirmed is not called certain before this.
constexpr int64_t kCertainAfterNs = 10'000'000'000;

bool is_gone(const Process& process) {
    return process.liveness == Liveness::kCrashed || process.liveness == Liveness::kKilled ||
           process.liveness == Liveness::kExited;
}

bool died(const Process& process) {
    return process.liveness == Liveness::kCrashed || process.liveness == Liveness::kKilled;
}

void sort_unique(std::vector<int>& ranks) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

class Diagnoser {
  public:
    Diagnoser(const Run& run, const DiagnoseOptions& options)
        : run_(run),
          mismatches_(find_mismatches(run)),
          graph_(build_wait_graph(run)),
          hung_(find_hung(run, graph_, options)),
          components_(find_components(graph_)),
          explained_(graph_.nodes.size(), false),
          is_cause_(graph_.nodes.size(), false) {}

    Diagnosis diagnose() {
        add_mismatches();
        add_absences();
        add_cycles();
        add_pairs_of_other_size();
        add_stuck();
        add_other_deaths();
        finish();
        return std::move(diagnosis_);
    }

  private:
    // --- mismatches -------------------------------------------------------------------------------------------------
    // Waits in that communicator at or after the mismatch follow from it, unless it was survived long ago.
    std::vector<uint32_t> nodes_explained_by(const Mismatch& mismatch) const {
        std::vector<uint32_t> nodes;
        for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
            const WaitNode& node = graph_.nodes[i];
            const bool there = node.kind == WaitKind::kCollective && node.communicator == mismatch.communicator;
            if (there && (node.sequence == mismatch.sequence ||
                          (mismatch.shift != Shift::kNone && node.sequence > mismatch.sequence))) {
                nodes.push_back(i);
            }
        }
        return nodes;
    }

    void add_mismatches() {
        for (const Mismatch& mismatch : mismatches_) {
            Finding finding;
            finding.kind = mismatch.kind;
            finding.communicator = mismatch.communicator;
            finding.sequence = mismatch.sequence;
            finding.confidence = mismatch.confidence;
            finding.summary = mismatch.summary;
            finding.evidence = mismatch.evidence;
            for (const MemberRef ref : mismatch.culprits) {
                finding.ranks.push_back(run_.member(ref).global_rank);
            }
            const MemberRef teller = mismatch.others.empty() ? mismatch.culprits.front() : mismatch.others.front();
            if (const Entry* entry = run_.process(teller).call_at(run_.member(teller), mismatch.sequence)) {
                finding.op = op_text(entry->kind);
                finding.since_ns = entry->entered_ns;
            }
            const std::vector<uint32_t> nodes = nodes_explained_by(mismatch);
            for (const uint32_t node : nodes) {
                explained_[node] = true;
                if (const std::string waiting = waiting_text(run_, graph_.nodes[node]); !waiting.empty()) {
                    finding.evidence.push_back(waiting);
                }
            }
            add_victims(nodes, finding);
            finding.hangs = !nodes.empty();
            if (!finding.hangs) {
                finding.evidence.emplace_back("nobody hangs in it, but the results are wrong");
            }
            diagnosis_.findings.push_back(std::move(finding));
        }
    }

    // --- members that never came ------------------------------------------------------------------------------------
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

    bool is_free(const Absence& absence) const {
        if (absence.reason == AbsenceReason::kUnknown) {
            return false;
        }
        return absence.moved_on || absence.held_by.empty() || is_gone(run_.processes[absence.member.process]);
    }

    int64_t since(uint32_t node) const {
        int64_t first = INT64_MAX;
        for (const Waiter& waiter : graph_.nodes[node].waiting) {
            first = std::min(first, waiter.since_ns);
        }
        return first;
    }

    void note(const Absence& absence, uint32_t node, std::map<CulpritKey, Cause>& causes) {
        const bool named = absence.member.known() || absence.global_rank >= 0;
        const CulpritKey key{absence.member.process, absence.global_rank,
                             named ? kNoIndex : graph_.nodes[node].communicator, named ? -1 : absence.comm_rank};
        Cause& cause = causes[key];
        if (cause.nodes.empty()) {
            cause.absence = absence;
        }
        cause.nodes.push_back(node);
    }

    void note_dead_waiters(uint32_t index, std::map<CulpritKey, Cause>& causes) {
        if (waiting_ranks(run_, graph_.nodes[index]).empty()) {
            return;  // nobody is left who waits
        }
        for (const Waiter& waiter : graph_.nodes[index].waiting) {
            if (is_gone(run_.process(waiter.member))) {
                const Member& member = run_.member(waiter.member);
                note({waiter.member, member.rank, member.global_rank, AbsenceReason::kNotIssued, {}, false}, index,
                     causes);
            }
        }
    }

    // What waits behind a mismatch needs no other cause; that a record is missing there is chance.
    bool may_follow_a_mismatch(uint32_t index) const {
        const std::vector<bool> behind = may_be_behind(graph_, index);
        for (uint32_t node = 0; node < behind.size(); ++node) {
            if (behind[node] && explained_[node]) {
                return true;
            }
        }
        return false;
    }

    void add_absences() {
        std::map<CulpritKey, Cause> causes;
        for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
            const WaitNode& node = graph_.nodes[index];
            if (!hung_[index] || explained_[index]) {
                continue;
            }
            const size_t before = causes.size();
            bool any = false;
            for (const Absence& absence : node.absent) {
                if (is_free(absence)) {
                    note(absence, index, causes);
                    any = true;
                    if (absence.moved_on && !absence.held_by.empty()) {
                        skipped_in_.insert(components_[index]);
                    }
                }
            }
            note_dead_waiters(index, causes);
            any |= causes.size() != before;
            // Members without a record are suspects only where nobody else explains the wait.
            if (!any && graph_.edges_of[index].empty() && !may_follow_a_mismatch(index)) {
                for (const Absence& absence : node.absent) {
                    note(absence, index, causes);
                }
            }
        }
        report_causes(causes);
    }

    FindingKind kind_of(const Cause& cause) const {
        if (cause.absence.member.known() && died(run_.processes[cause.absence.member.process])) {
            return FindingKind::kRankDead;
        }
        switch (graph_.nodes[cause.nodes.front()].kind) {
            case WaitKind::kCreation: return FindingKind::kCommInitStuck;
            case WaitKind::kPointToPoint: return FindingKind::kP2pUnmatched;
            case WaitKind::kCollective: break;
        }
        return FindingKind::kRankNotArrived;
    }

    // Was it inside a call at its end? Then that call is where it ended; else it is the next call that it never made.
    static bool is_blocked(const Process& process) {
        const auto threads = issuing_threads(process);
        return std::any_of(threads.begin(), threads.end(), [](const ThreadState* thread) { return thread->call != 0; });
    }

    // A rank is missing in several places at once; the one that it would have come to first is the cause of the others: by
    // what it used to do next, else where the waits lead to, else the oldest.
    void put_first_place_first(Cause& cause) const {
        const Process* process = cause.absence.member.known() ? &run_.processes[cause.absence.member.process] : nullptr;
        const Entry* next = process == nullptr ? nullptr : expected_next(*process);
        const bool prefers_absence = process != nullptr && !is_blocked(*process);
        const auto arrived = [&](uint32_t node) {
            const auto& waiting = graph_.nodes[node].waiting;
            return prefers_absence && std::any_of(waiting.begin(), waiting.end(), [&](const Waiter& waiter) {
                       return waiter.member.process == cause.absence.member.process;
                   });
        };
        const auto expected = [&](uint32_t node) {
            const WaitNode& place = graph_.nodes[node];
            return next != nullptr && next->row != kNoIndex &&
                   process->members[next->row].communicator == place.communicator &&
                   (place.kind == WaitKind::kCollective) == format::is_collective(next->kind);
        };
        const auto leads_on = [&](uint32_t node) {
            return std::any_of(graph_.edges_of[node].begin(), graph_.edges_of[node].end(), [&](uint32_t edge) {
                return std::find(cause.nodes.begin(), cause.nodes.end(), graph_.edges[edge].to) != cause.nodes.end();
            });
        };
        // A rank that has run nothing yet is still setting up: it owes a creation before it owes a collective.
        const bool setting_up = process != nullptr &&
                                std::none_of(process->entries.begin(), process->entries.end(), [](const Entry& entry) {
                                    return format::class_of(entry.kind) != format::OpClass::lifecycle;
                                });
        const auto later = [&](uint32_t node) { return setting_up && graph_.nodes[node].kind != WaitKind::kCreation; };
        const auto worth = [&](uint32_t node) {
            return std::tuple(later(node), arrived(node), !expected(node), leads_on(node), since(node));
        };
        const auto first = std::min_element(cause.nodes.begin(), cause.nodes.end(),
                                            [&](uint32_t a, uint32_t b) { return worth(a) < worth(b); });
        std::iter_swap(cause.nodes.begin(), first);
        const WaitNode& place = graph_.nodes[cause.nodes.front()];
        for (const Waiter& waiter : place.waiting) {
            const Member& member = run_.member(waiter.member);
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
    uint32_t place_of(uint32_t index) const {
        const WaitNode& node = graph_.nodes[index];
        const std::string& name = run_.communicators[node.communicator].name;
        if (node.kind != WaitKind::kCreation || name.empty()) {
            return index;
        }
        for (uint32_t other = 0; other < index; ++other) {
            if (graph_.nodes[other].kind == WaitKind::kCreation && hung_[other] &&
                run_.communicators[graph_.nodes[other].communicator].name == name) {
                return other;
            }
        }
        return index;
    }

    void report_causes(std::map<CulpritKey, Cause>& causes) {
        std::map<std::tuple<FindingKind, uint32_t, AbsenceReason, bool>, std::vector<const Cause*>> groups;
        for (auto& [key, cause] : causes) {
            put_first_place_first(cause);
            groups[{kind_of(cause), place_of(cause.nodes.front()), cause.absence.reason, cause.absence.moved_on}]
                .push_back(&cause);
        }
        for (const auto& [key, members] : groups) {
            const uint32_t primary = std::get<1>(key);
            Finding finding = finding_at(std::get<0>(key), primary);
            Culprits culprits;
            culprits.node = &graph_.nodes[primary];
            std::set<uint32_t> nodes;
            for (const Cause* cause : members) {
                culprits.absences.push_back(cause->absence);
                nodes.insert(cause->nodes.begin(), cause->nodes.end());
                if (cause->absence.global_rank >= 0) {
                    finding.ranks.push_back(cause->absence.global_rank);
                }
            }
            explain_absence(run_, culprits, finding);
            for (const uint32_t node : nodes) {
                is_cause_[node] = true;
                if (const std::string waiting = waiting_text(run_, graph_.nodes[node]);
                    node != primary && !waiting.empty()) {
                    finding.evidence.push_back("also missing: " + waiting);
                }
            }
            finding.confidence = confidence_in(culprits);
            add_victims({nodes.begin(), nodes.end()}, finding);
            diagnosis_.findings.push_back(std::move(finding));
        }
    }

    // An absence is a claim about what was not recorded, so it is worth what the records are worth.
    Confidence confidence_in(const Culprits& culprits) const {
        const WaitNode& node = *culprits.node;
        const Absence& first = culprits.absences.front();
        if (first.reason == AbsenceReason::kUnknown) {
            return node.waiting.size() >= 2 && !run_.partial_recording ? Confidence::kLikely : Confidence::kPossible;
        }
        const Process& process = run_.processes[first.member.process];
        if (died(process) || first.reason == AbsenceReason::kFailed) {
            return Confidence::kCertain;
        }
        Confidence confidence = Confidence::kCertain;
        const auto lost = [&](format::Loss loss) { return process.losses[static_cast<size_t>(loss)] != 0; };
        const bool doubtful =
            process.torn > 1 || lost(format::Loss::kUnknownCommunicators) ||
            lost(format::Loss::kCommunicatorsUntracked) ||
            (node.kind == WaitKind::kPointToPoint && (lost(format::Loss::kP2pUncounted) || node.lost));
        const bool others_unknown = std::any_of(node.absent.begin(), node.absent.end(), [](const Absence& absence) {
            return absence.reason == AbsenceReason::kUnknown;
        });
        if (doubtful || others_unknown) {
            confidence = lower(confidence);
        }
        const bool confirmed = std::any_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
            const std::string& reason = run_.process(waiter.member).source.reason;
            return reason == "timeout" || reason == "abort";
        });
        const bool brief =
            longest_wait_ns(node) < kCertainAfterNs && !confirmed && process.liveness != Liveness::kExited;
        return brief ? lower(confidence) : confidence;
    }

    // --- cycles -----------------------------------------------------------------------------------------------------
    void add_cycles() {
        std::map<uint32_t, std::vector<uint32_t>> members;
        for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
            members[components_[node]].push_back(node);
        }
        for (const auto& [component, nodes] : members) {
            const bool reported =
                std::any_of(nodes.begin(), nodes.end(), [&](uint32_t node) { return explained_[node]; });
            const bool hangs = std::any_of(nodes.begin(), nodes.end(), [&](uint32_t node) { return hung_[node]; });
            if (nodes.size() > 1 && hangs && !reported && !skipped_in_.contains(component)) {
                add_cycle(nodes);
            }
        }
    }

    void add_cycle(const std::vector<uint32_t>& nodes) {
        const uint32_t oldest =
            *std::min_element(nodes.begin(), nodes.end(), [&](uint32_t a, uint32_t b) { return since(a) < since(b); });
        const std::vector<Edge> cycle = shortest_cycle(graph_, components_, oldest);
        if (cycle.empty()) {
            return;
        }
        const bool only_p2p = std::all_of(cycle.begin(), cycle.end(), [&](const Edge& edge) {
            return graph_.nodes[edge.from].kind == WaitKind::kPointToPoint;
        });
        Finding finding = finding_at(only_p2p ? FindingKind::kP2pCycle : FindingKind::kOrderInversion, oldest);
        explain_cycle(run_, graph_, cycle, finding);
        choose_culprits(cycle, only_p2p, finding);
        for (const uint32_t node : nodes) {
            in_cycle_.insert(node);
            is_cause_[node] = true;
        }
        add_victims(nodes, finding);
        diagnosis_.findings.push_back(std::move(finding));
    }

    // In a cycle every rank waits for another: the order of the few is called the wrong one, else the one that differs from
    // what that rank did before. Where neither tells, all are named.
    void choose_culprits(const std::vector<Edge>& cycle, bool only_p2p, Finding& finding) {
        std::vector<int> all;
        std::vector<int> fewest;
        std::vector<int> deviating;
        size_t smallest = SIZE_MAX;
        bool unique = false;
        for (size_t i = 0; i < cycle.size(); ++i) {
            const Edge& edge = cycle[i];
            const Edge& next = cycle[(i + 1) % cycle.size()];
            std::vector<int> held = held_ranks(edge, next.from);
            all.insert(all.end(), held.begin(), held.end());
            unique = held.size() < smallest || (unique && held.size() != smallest);
            if (held.size() < smallest) {
                smallest = held.size();
                fewest = held;
            }
            if (habit_in(edge.via, next.from) == Habit::kDeviates) {
                deviating.insert(deviating.end(), held.begin(), held.end());
            }
        }
        sort_unique(all);
        sort_unique(deviating);
        finding.ranks = all;
        if (only_p2p) {
            return;
        }
        if (unique && smallest * 2 < all.size()) {
            finding.ranks = fewest;
            finding.evidence.push_back(
                fmt::format("{} {} the order of the few", ranks_text(fewest), fewest.size() == 1 ? "has" : "have"));
        } else if (!deviating.empty() && deviating.size() < all.size()) {
            finding.ranks = deviating;
            finding.confidence = Confidence::kLikely;
            finding.evidence.push_back(fmt::format("{} did it in another order before", ranks_text(deviating)));
        } else {
            finding.confidence = Confidence::kLikely;
            finding.evidence.emplace_back("which of them has the wrong order is undecidable");
        }
        std::sort(finding.ranks.begin(), finding.ranks.end());
    }

    // Members that are missing in the edge's node because they are held in `holder`.
    std::vector<int> held_ranks(const Edge& edge, uint32_t holder) const {
        std::vector<int> ranks;
        for (const Absence& absence : graph_.nodes[edge.from].absent) {
            if (absence.global_rank >= 0 &&
                std::find(absence.held_by.begin(), absence.held_by.end(), holder) != absence.held_by.end()) {
                ranks.push_back(absence.global_rank);
            }
        }
        return ranks;
    }

    Habit habit_in(MemberRef held, uint32_t holder) const {
        for (const Waiter& waiter : graph_.nodes[holder].waiting) {
            if (waiter.member.process == held.process && waiter.entry != nullptr) {
                return habit_of(run_.processes[held.process], *waiter.entry);
            }
        }
        return Habit::kUnknown;
    }

    // --- everybody is there -----------------------------------------------------------------------------------------
    bool all_arrived(uint32_t index) const {
        const WaitNode& node = graph_.nodes[index];
        const bool dead_waiter = std::any_of(node.waiting.begin(), node.waiting.end(), [&](const Waiter& waiter) {
            return is_gone(run_.process(waiter.member));
        });
        return hung_[index] && !explained_[index] && node.absent.empty() && !dead_waiter && !in_cycle_.contains(index);
    }

    void add_pairs_of_other_size() {
        for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
            const WaitNode& node = graph_.nodes[index];
            if (!all_arrived(index) || !node.sizes_differ) {
                continue;
            }
            Finding finding = finding_at(FindingKind::kSizeMismatch, index);
            finding.confidence = Confidence::kPossible;
            finding.ranks = waiting_ranks(run_, node);
            finding.summary = fmt::format("the two sides of {} pass different sizes; which one is wrong is undecidable",
                                          node_text(run_, node));
            for (const Waiter& waiter : node.waiting) {
                finding.evidence.push_back(fmt::format("rank {}: {} ({})", run_.member(waiter.member).global_rank,
                                                       op_text(waiter.entry->kind), arguments_text(*waiter.entry)));
            }
            explained_[index] = true;
            add_victims({index}, finding);
            diagnosis_.findings.push_back(std::move(finding));
        }
    }

    // Everybody is there and it does not finish: either it is stuck itself, or its stream waits for another one that is. So
    // only waits that can follow from no other cause count, and of those the first.
    std::vector<uint32_t> find_stuck() const {
        std::vector<uint32_t> candidates;
        for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
            if (all_arrived(index)) {
                candidates.push_back(index);
            }
        }
        std::stable_sort(candidates.begin(), candidates.end(),
                         [&](uint32_t a, uint32_t b) { return since(a) < since(b); });
        std::vector<uint32_t> stuck;
        std::vector<bool> behind_stuck(graph_.nodes.size(), false);
        for (const uint32_t index : candidates) {
            const std::vector<bool> reached = may_be_behind(graph_, index);
            bool follows = false;
            for (uint32_t node = 0; node < graph_.nodes.size() && !follows; ++node) {
                const bool other_stuck =
                    node != index && all_arrived(node) && (behind_stuck[node] || !may_be_behind(graph_, node)[index]);
                follows = reached[node] && (is_cause_[node] || explained_[node] || other_stuck);
            }
            if (!follows) {
                stuck.push_back(index);
                behind_stuck[index] = true;
            }
        }
        return stuck;
    }

    void add_stuck() {
        for (const uint32_t index : find_stuck()) {
            const WaitNode& node = graph_.nodes[index];
            Finding finding = finding_at(
                node.kind == WaitKind::kCreation ? FindingKind::kCommInitStuck : FindingKind::kStuckInFlight, index);
            const bool guessed = run_.communicators[node.communicator].identity_guessed;
            finding.confidence = node.device_unknown || guessed                  ? Confidence::kPossible
                                 : node.lost || node.kind == WaitKind::kCreation ? Confidence::kLikely
                                                                                 : Confidence::kCertain;
            finding.ranks = waiting_ranks(run_, node);
            explain_stuck(run_, node, finding);
            add_victims({index}, finding);
            diagnosis_.findings.push_back(std::move(finding));
        }
    }

    void add_other_deaths() {
        std::set<int> named;
        for (const Finding& finding : diagnosis_.findings) {
            if (finding.kind == FindingKind::kRankDead) {
                named.insert(finding.ranks.begin(), finding.ranks.end());
            }
        }
        Finding finding;
        finding.kind = FindingKind::kRankDead;
        finding.since_ns = INT64_MAX;
        for (const Process& process : run_.processes) {
            if (died(process) && !named.contains(process.rank)) {
                finding.ranks.push_back(process.rank);
                finding.since_ns = std::min(finding.since_ns, process.now_ns);
            }
        }
        if (!finding.ranks.empty()) {
            const bool one = finding.ranks.size() == 1;
            finding.summary = fmt::format("{} {} dead; no other rank is known to wait for {} yet",
                                          ranks_text(finding.ranks), one ? "is" : "are", one ? "it" : "them");
            diagnosis_.findings.push_back(std::move(finding));
        }
    }

    // --- common -----------------------------------------------------------------------------------------------------
    Finding finding_at(FindingKind kind, uint32_t index) const {
        const WaitNode& node = graph_.nodes[index];
        Finding finding;
        finding.kind = kind;
        finding.communicator = node.communicator;
        finding.sequence = node.kind == WaitKind::kCreation ? kNoSequence : node.sequence;
        finding.op = op_text(node.waiting.front().entry != nullptr ? node.waiting.front().entry->kind : node.op);
        finding.since_ns = since(index);
        return finding;
    }

    void add_victims(const std::vector<uint32_t>& nodes, Finding& finding) const {
        for (const uint32_t node : nodes_behind(graph_, nodes)) {
            const std::vector<int> ranks = waiting_ranks(run_, graph_.nodes[node]);
            finding.victims.insert(finding.victims.end(), ranks.begin(), ranks.end());
        }
        sort_unique(finding.ranks);
        sort_unique(finding.victims);
        std::erase_if(finding.victims,
                      [&](int rank) { return std::binary_search(finding.ranks.begin(), finding.ranks.end(), rank); });
    }

    // Wrong results hurt nobody's progress, unless the very rank that made them is then missing: it left because of them.
    bool leads_to_a_hang(const Finding& silent) const {
        return std::any_of(diagnosis_.findings.begin(), diagnosis_.findings.end(), [&](const Finding& finding) {
            return finding.hangs && finding.ranks == silent.ranks && silent.since_ns <= finding.since_ns;
        });
    }

    void finish() {
        std::map<std::string, bool> first;
        for (const Finding& finding : diagnosis_.findings) {
            first[finding.summary] = finding.hangs || leads_to_a_hang(finding);
        }
        std::stable_sort(diagnosis_.findings.begin(), diagnosis_.findings.end(),
                         [&](const Finding& a, const Finding& b) {
                             return std::tuple(!first[a.summary], a.confidence == Confidence::kPossible, a.since_ns) <
                                    std::tuple(!first[b.summary], b.confidence == Confidence::kPossible, b.since_ns);
                         });
        for (Finding& finding : diagnosis_.findings) {
            for (const auto* ranks : {&finding.ranks, &finding.victims}) {
                for (const int rank : *ranks) {
                    const Process* process = process_of_rank_[rank];
                    finding.rank_state[rank] =
                        process == nullptr ? "no dump and no ring: unknown" : rank_state(run_, *process);
                }
            }
        }
        diagnosis_.warnings = run_.warnings;
    }

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

    const Run& run_;
    std::vector<Mismatch> mismatches_;
    WaitGraph graph_;
    std::vector<bool> hung_;
    std::vector<uint32_t> components_;
    std::vector<bool> explained_;  // by a mismatch
    std::vector<bool> is_cause_;   // by an absence or a cycle
    std::set<uint32_t> in_cycle_;
    std::set<uint32_t> skipped_in_;
    RankIndex process_of_rank_{run_};
    Diagnosis diagnosis_;
};

}  // namespace

Diagnosis diagnose(const Run& run, const DiagnoseOptions& options) { return Diagnoser(run, options).diagnose(); }

}  // namespace titan::analyzer
