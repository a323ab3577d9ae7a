// Replays the verdict: edits the calls as the finding says they should have been, and plays them. It decides nothing: a
// verdict whose waits end is as sure as before, one whose waits would not end is less.
#include <algorithm>
#include <set>

#include "edit_words.h"
#include "explain.h"
#include "host/words.h"
#include "steps.h"
#include "unknowns.h"
#include "what_if.h"

namespace titan::analyzer {
namespace {

using Kind = CallEdit::Kind;
constexpr size_t kMostFindings = 5;
constexpr size_t kMostRemedies = 12;
// Limits for all plays together, so that they take a small part of a diagnosis's time.
constexpr size_t kLeastPlays = 8, kMostPlays = 64;
constexpr size_t kMostCallsPlayed = 500'000;
constexpr size_t kMostEdits = 64;  // of one finding: more are no call that was left out, but another job

// Edits that would make good what a finding says, and how a sentence begins that tells of them.
struct Remedy {
    std::vector<CallEdit> edits;
    Sentence words;
};

class Remedies {
  public:
    Remedies(const Evidence& evidence, const Finding& finding)
        : evidence_(evidence), run_(evidence.run), finding_(finding) {
        if (finding.communicator != kNoIndex && finding.kind != FindingKind::kP2pUnmatched) {
            made_ = calls_at(finding.communicator);
            is_launched_ = !made_.empty() && made_.front().call.replay != 0;
        }
    }

    // The least first, the last the strongest. None: no edit of calls tells of such a finding.
    std::vector<Remedy> all() {
        const bool one = finding_.ranks.size() == 1;
        const Sentence go_on = phrase("if {} {} on", ranks_fact(finding_.ranks), one ? "goes" : "go");
        const char* const expected = "with the calls that others expect there";
        switch (finding_.kind) {
            case FindingKind::kRankNotArrived:
            case FindingKind::kP2pUnmatched:
            case FindingKind::kCaptureMismatch:
                if (!is_waited_in()) {
                    break;  // the wait itself is not on record
                }
                if (is_launched_) {
                    add(calls_of_others({}), "with that launch");
                }
                add(missing_calls(), missing_calls().size() == 1 ? "with that one call" : "with those calls");
                if (!finding_.skipped) {
                    add(alive(), go_on);
                }
                add(made_good(), expected);
                break;
            case FindingKind::kCommInitStuck:
                if (!are_absent()) {
                    break;
                }
                [[fallthrough]];
            case FindingKind::kRankStopped:
            case FindingKind::kGpuQueueBlocked:
            case FindingKind::kStuckInFlight: add(alive(), go_on); break;
            case FindingKind::kRankDead: add(alive(), phrase("if {} lived", ranks_fact(finding_.ranks))); break;
            case FindingKind::kOpMismatch:
            case FindingKind::kSizeMismatch:
            case FindingKind::kDtypeMismatch:
            case FindingKind::kRootMismatch:
                if (is_launched_) {
                    add(calls_of_others({}), "with the launch that the others made before its own call");
                }
                add(calls_of_others(calls_at_place()),
                    is_launched_ ? "with the launch that the others made" : "with the call that the others made");
                if (!is_launched_) {
                    add(calls_of_others({}), "with the call that the others made before its own");
                }
                add(calls_at_place(), "without that call");
                add(made_good(), expected);
                break;
            case FindingKind::kOrderInversion:
            case FindingKind::kP2pCycle:
                for (const int rank : finding_.ranks) {
                    add(moved({rank}),
                        one ? "with its calls in another order" : "with the calls of one of them in another order");
                }
                if (!one) {
                    add(moved(finding_.ranks), "with their calls in another order");
                }
                for (const CallEdit& call : owed(finding_.ranks, true)) {
                    add({call}, "with one call more there");
                }
                add(made_good(), expected);
                break;
            default: break;
        }
        return std::move(remedies_);
    }

  private:
    void add(std::vector<CallEdit> edits, const Sentence& words) {
        if (!edits.empty() && edits.size() <= kMostEdits && remedies_.size() < kMostRemedies) {
            remedies_.push_back({std::move(edits), words});
        }
    }

    bool is_waited_in() const {
        return std::ranges::any_of(evidence_.graph.nodes, [&](const WaitNode& node) { return is_place(node); });
    }

    bool are_absent() const {
        return std::ranges::all_of(finding_.ranks, [&](int rank) {
            return std::ranges::any_of(evidence_.graph.nodes, [&](const WaitNode& node) {
                return std::ranges::any_of(node.absent,
                                           [&](const Absence& absence) { return absence.global_rank == rank; });
            });
        });
    }

    std::vector<CallEdit> alive() const {
        std::vector<CallEdit> edits;
        for (const int rank : finding_.ranks) {
            edits.push_back({Kind::kAlive, rank});
        }
        return edits;
    }

    bool is_place(const WaitNode& node) const {
        return node.kind != WaitKind::kCreation && node.communicator == finding_.communicator &&
               node.sequence == finding_.sequence;
    }

    std::optional<CallEdit> at(const WaitNode& node, Kind kind, int rank) const {
        CallEdit edit{kind, rank, node.communicator, node.sequence};
        if (node.kind == WaitKind::kCreation) {
            return std::nullopt;
        }
        if (node.kind == WaitKind::kCollective) {
            edit.op = node.op;
            return edit;
        }
        const int self = comm_rank_of(run_, node.communicator, rank);
        if (self < 0 || (self != node.source && self != node.target)) {
            return std::nullopt;
        }
        edit.op = self == node.source ? OpKind::kSend : OpKind::kRecv;
        edit.source = node.source;
        edit.target = node.target;
        return edit;
    }

    struct Made {
        MemberRef member;
        Entry call;
    };

    // What ranks that the finding does not name called at its place; what it names did, where that is all.
    std::vector<Made> calls_at(uint32_t communicator) const {
        std::vector<Made> calls;
        for (const bool named : {false, true}) {
            for (const MemberRef ref : run_.communicators[communicator].members) {
                const int rank = run_.member(ref).global_rank;
                const auto call = named == std::ranges::binary_search(finding_.ranks, rank)
                                      ? run_.process(ref).recall(run_.member(ref), finding_.sequence)
                                      : std::nullopt;
                if (call) {
                    calls.push_back({ref, *call});
                }
            }
            if (!calls.empty()) {
                break;
            }
        }
        return calls;
    }

    // The rank's side of a call that another made; none where it takes no part in it.
    std::optional<CallEdit> side_of(int rank, const Process& process, const Entry& call) const {
        const uint32_t communicator = call.row == kNoIndex ? kNoIndex : process.members[call.row].communicator;
        const MemberRef ref = communicator == kNoIndex ? MemberRef() : member_of_rank(run_, communicator, rank);
        if (!ref.known()) {
            return std::nullopt;
        }
        CallEdit edit{Kind::kInsert, rank, communicator, call.sequence, call.kind};
        if (format::class_of(call.kind) != format::OpClass::p2p) {
            return edit;
        }
        const bool sends = call.kind == OpKind::kSend;
        edit.op = sends ? OpKind::kRecv : OpKind::kSend;
        edit.source = sends ? process.members[call.row].rank : call.peer;
        edit.target = sends ? call.peer : process.members[call.row].rank;
        return call.peer == run_.member(ref).rank ? std::optional(edit) : std::nullopt;
    }

    // What the others made at the finding's place, as calls of this rank. A graph launch is made as a whole.
    std::vector<CallEdit> calls_there(int rank) const {
        std::vector<CallEdit> edits;
        const auto add_side = [&](const Process& process, const Entry& call) {
            const auto edit = side_of(rank, process, call);
            if (edit && edits.size() <= kMostEdits && std::ranges::find(edits, *edit) == edits.end()) {
                edits.push_back(*edit);
            }
        };
        for (const Made& made : made_) {
            const Process& process = run_.process(made.member);
            if (!is_launched_) {
                add_side(process, made.call);
                break;
            }
            for (const Entry& call : process.entries) {
                if (call.replay != 0 && call.replay == made.call.replay) {
                    add_side(process, call);
                }
            }
        }
        return edits;
    }

    std::vector<CallEdit> missing_calls() const {
        std::vector<CallEdit> edits;
        for (const WaitNode& node : evidence_.graph.nodes) {
            for (const Absence& absence : is_place(node) ? node.absent : std::vector<Absence>()) {
                const bool named = std::ranges::binary_search(finding_.ranks, absence.global_rank);
                if (const auto edit = named ? at(node, Kind::kInsert, absence.global_rank) : std::nullopt) {
                    edits.push_back(*edit);
                }
            }
        }
        return edits;
    }

    std::vector<CallEdit> calls_at_place() const {
        std::vector<CallEdit> edits;
        for (const int rank : finding_.communicator == kNoIndex ? std::vector<int>() : finding_.ranks) {
            const MemberRef ref = member_of_rank(run_, finding_.communicator, rank);
            const CallSignature* const call =
                ref.known() ? run_.process(ref).signature_at(run_.member(ref), finding_.sequence) : nullptr;
            if (call != nullptr) {
                edits.push_back({Kind::kRemove, rank, finding_.communicator, finding_.sequence, call->kind});
            }
        }
        return edits;
    }

    // `edits`: of their own calls.
    std::vector<CallEdit> calls_of_others(std::vector<CallEdit> edits) const {
        for (const int rank : finding_.ranks) {
            const std::vector<CallEdit> calls = calls_there(rank);
            edits.insert(edits.end(), calls.begin(), calls.end());
        }
        return edits;
    }

    // Each call that hangs and that one of these ranks waits in: use(node, its removal).
    template <typename Use>
    void for_each_wait(const std::vector<int>& ranks, Use&& use) const {
        for (uint32_t index = 0; index < evidence_.graph.nodes.size(); ++index) {
            const WaitNode& node = evidence_.graph.nodes[index];
            if (!evidence_.hangs(index) || node.kind == WaitKind::kCreation) {
                continue;
            }
            for (const Waiter& waiter : node.waiting) {
                const int rank = run_.member(waiter.member).global_rank;
                if (waiter.entry != nullptr && std::ranges::find(ranks, rank) != ranks.end()) {
                    use(node, CallEdit{Kind::kRemove, rank, node.communicator, node.sequence, waiter.entry->kind,
                                       node.source, node.target});
                }
            }
        }
    }

    // The ranks make what others wait for, and not what they wait in themselves; then they go on.
    std::vector<CallEdit> made_good() const {
        std::vector<CallEdit> edits = alive();
        for_each_wait(finding_.ranks, [&](const WaitNode& node, CallEdit edit) {
            edits.push_back(edit);
            if (node.sizes_differ) {
                edit.kind = Kind::kInsert;
                edits.push_back(edit);
            }
        });
        const std::vector<CallEdit> calls = owed(finding_.ranks, false);
        edits.insert(edits.end(), calls.begin(), calls.end());
        return edits;
    }

    // Calls that others wait in for these ranks. `once_more`: also those that they have made and not come to.
    std::vector<CallEdit> owed(const std::vector<int>& ranks, bool once_more) const {
        std::vector<CallEdit> edits;
        const auto add = [&](const WaitNode& node, int rank) {
            const bool named = std::ranges::find(ranks, rank) != ranks.end();
            if (const auto edit = named ? at(node, Kind::kInsert, rank) : std::nullopt) {
                edits.push_back(*edit);
            }
        };
        for (uint32_t index = 0; index < evidence_.graph.nodes.size(); ++index) {
            const WaitNode& node = evidence_.graph.nodes[index];
            for (const Absence& absence : evidence_.hangs(index) ? node.absent : std::vector<Absence>()) {
                const bool has_made = absence.reason == AbsenceReason::kLeft ||
                                      absence.reason == AbsenceReason::kGrouped ||
                                      (absence.reason == AbsenceReason::kQueued && !once_more);
                if (!has_made) {
                    add(node, absence.global_rank);
                }
            }
            for (const Blocked& blocked : evidence_.hangs(index) && once_more ? node.blocked : std::vector<Blocked>()) {
                add(node, run_.member(blocked.member).global_rank);
            }
        }
        return edits;
    }

    std::vector<CallEdit> moved(const std::vector<int>& ranks) const {
        std::vector<CallEdit> edits;
        for_each_wait(ranks, [&](const WaitNode&, CallEdit edit) {
            edits.push_back(edit);
            edit.kind = Kind::kInsert;
            edits.push_back(edit);
        });
        return edits;
    }

    const Evidence& evidence_;
    const Run& run_;
    const Finding& finding_;
    std::vector<Made> made_;    // at its place, by others
    bool is_launched_ = false;  // by graph launches
    std::vector<Remedy> remedies_;
};

// Waits of a finding, as nodes of the graph: somebody waits there whom it names or calls a victim.
std::vector<uint32_t> waits_of(const Evidence& evidence, const Finding& finding) {
    std::set<int> ranks(finding.victims.begin(), finding.victims.end());
    ranks.insert(finding.ranks.begin(), finding.ranks.end());
    std::vector<uint32_t> nodes;
    for (uint32_t node = 0; node < evidence.graph.nodes.size(); ++node) {
        const std::vector<int> waiting = waiting_ranks(evidence.run, evidence.node(node));
        if (evidence.hangs(node) && std::ranges::any_of(waiting, [&](int rank) { return ranks.contains(rank); })) {
            nodes.push_back(node);
        }
    }
    return nodes;
}

std::vector<uint32_t> still_waited_in(const std::vector<uint32_t>& nodes, const WhatIf& answer) {
    std::vector<uint32_t> still;
    std::ranges::copy_if(nodes, std::back_inserter(still), [&](uint32_t node) { return !answer.ends[node]; });
    return still;
}

struct Best {
    std::vector<uint32_t> still;
    const Remedy* remedy = nullptr;  // of the head; null: nothing was asked
    std::vector<CallEdit> edits{};   // all that were played
    bool is_clear = true;  // false: something that is no call keeps some of them, and the play cannot tell what
};

// No edit of calls makes a communicator.
bool is_clear(const WaitGraph& graph, const WhatIf& answer) {
    return std::ranges::none_of(answer.waits, [&](const WaitThen& wait) {
        return wait.node && (wait.why == WhyNot::kElse || graph.nodes[*wait.node].kind == WaitKind::kCreation);
    });
}

// So many may be asked: a play takes as long as there are calls that have not ended.
size_t plays_of(const Evidence& evidence) {
    size_t calls = 1;
    for (const StreamOrder& order : evidence.graph.orders) {
        calls += static_cast<size_t>(std::ranges::count_if(order.progress, [](Progress progress) {
            return progress != Progress::kDone && progress != Progress::kNone;
        }));
    }
    return std::clamp(kMostCallsPlayed / calls, kLeastPlays, kMostPlays);
}

class Search {
  public:
    Search(const Evidence& evidence, const std::vector<uint32_t>& nodes)
        : graph_(evidence.graph),
          nodes_(nodes),
          what_ifs_(evidence.run, evidence.mismatches, evidence.graph, evidence.hang_of, Scope::kWaits),
          plays_(plays_of(evidence)) {}

    // Asks for each remedy of the head what stays, beside the best remedy of each other finding.
    Best best_of(const std::vector<Remedy>& remedies, const std::vector<std::vector<Remedy>>& others) {
        Best best;
        for (const Remedy& remedy : remedies) {
            std::vector<CallEdit> edits = remedy.edits;
            ask(edits, remedy, best);
            for (const std::vector<Remedy>& other : others) {
                std::vector<CallEdit> chosen;
                for (const Remedy& beside : other) {
                    std::vector<CallEdit> both = edits;
                    both.insert(both.end(), beside.edits.begin(), beside.edits.end());
                    if (ask(both, remedy, best) || chosen.empty()) {
                        chosen = std::move(both);
                    }
                }
                edits = std::move(chosen);
            }
        }
        return best;
    }

  private:
    // True: it is better than all before.
    bool ask(const std::vector<CallEdit>& edits, const Remedy& remedy, Best& best) {
        if (best.remedy != nullptr && best.still.empty()) {
            return false;
        }
        if (plays_ == 0) {
            best.is_clear = false;
            return false;
        }
        --plays_;
        const WhatIf answer = what_ifs_.ask(edits);
        std::vector<uint32_t> still = still_waited_in(nodes_, answer);
        const bool is_better = best.remedy == nullptr || still.size() < best.still.size();
        if (is_better) {
            best = {std::move(still), &remedy, edits, is_clear(graph_, answer)};
        }
        return is_better;
    }

    const WaitGraph& graph_;
    const std::vector<uint32_t>& nodes_;
    const WhatIfs what_ifs_;
    size_t plays_;
};

Sentence waits_end_fact(const std::vector<int>& ranks) {
    return ranks.size() == 1   ? phrase("the wait of {} ends", rank_fact(ranks.front()))
           : ranks.size() == 2 ? phrase("the waits of {} end", ranks_fact(ranks))
                               : phrase("the waits of all {} ranks end", ranks.size());
}

}  // namespace

void replay_verdict(const Evidence& evidence, std::vector<Finding>& findings) {
    if (findings.empty() || !findings.front().hangs) {
        return;
    }
    Finding& head = findings.front();
    const std::vector<uint32_t> nodes = waits_of(evidence, head);
    const std::vector<Remedy> remedies = nodes.empty() ? std::vector<Remedy>() : Remedies(evidence, head).all();
    if (remedies.empty()) {
        return;
    }
    Search search(evidence, nodes);
    Best best = search.best_of(remedies, {});
    bool with_others = false;
    if (!best.still.empty()) {
        std::vector<std::vector<Remedy>> others;
        for (size_t i = 1; i < std::min(findings.size(), kMostFindings); ++i) {
            // Who died beside the cause would not come either.
            if (findings[i].hangs || findings[i].kind == FindingKind::kRankDead) {
                others.push_back(Remedies(evidence, findings[i]).all());
            }
        }
        std::erase_if(others, [](const std::vector<Remedy>& other) { return other.empty(); });
        with_others = !others.empty();
        best = with_others ? search.best_of(remedies, others) : best;
    }
    if (best.remedy == nullptr || (!best.still.empty() && !best.is_clear)) {
        return;
    }
    const std::vector<int> ranks = evidence.ranks_in(nodes);
    const std::vector<int> still = evidence.ranks_in(best.still);
    head.replay = Replay{edit_options(evidence.run, best.edits), ranks, still};
    const char* const beside = with_others ? ", and with what the other findings name" : "";
    if (best.still.empty()) {
        head.evidence.push_back(phrase("replayed: {}{}, {}", best.remedy->words, beside, waits_end_fact(ranks)));
        return;
    }
    const Sentence place = node_fact(evidence.run, evidence.node(best.still.front()));
    head.evidence.push_back(phrase("replayed: {}{}, {} of {} would still wait, {} in {}", best.remedy->words, beside,
                                   still.size(), counted(ranks.size(), "rank"), rank_fact(still.front()), place));
    // That a play contradicts what is inferred anyway leaves little of it.
    head.depends_on(settled_by<Unknown::kElse>(place),
                    head.confidence == Confidence::kCertain ? Confidence::kLikely : Confidence::kPossible);
}

}  // namespace titan::analyzer
