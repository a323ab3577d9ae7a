// Shared input of the finders (Evidence), and what they have told so far (ToldSoFar).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "causes.h"
#include "expected.h"
#include "finding.h"
#include "match.h"
#include "run.h"
#include "wait_graph.h"

namespace titan::analyzer {

// The process of a rank; null where it has no record.
class RankIndex {
  public:
    explicit RankIndex(const Run& run) {
        for (const Process& process : run.processes) {
            for (const Member& member : process.members) {
                by_rank.try_emplace(member.global_rank, &process);
            }
        }
        for (const Process& process : run.processes) {  // one that drives several GPUs may have the number of another's
            by_rank.try_emplace(process.rank, &process);
        }
    }
    const Process* operator[](int rank) const {
        const auto found = by_rank.find(rank);
        return found == by_rank.end() ? nullptr : found->second;
    }

    std::map<int, const Process*> by_rank;
};

// A run as matching and the wait-for graph see it. Made once.
struct Evidence {
    Evidence(const Run& of, const DiagnoseOptions& with)
        : run(of),
          options(with),
          mismatches(find_mismatches(run)),
          edits(run),
          graph(build_wait_graph(run, edits, mismatches)),
          hang_of(find_hangs(run, graph, options)),
          components(find_components(graph)),
          process_of_rank(run) {}

    const Run& run;
    const DiagnoseOptions options;
    const std::vector<Mismatch> mismatches;
    const SiblingEdits edits;
    const WaitGraph graph;
    const std::vector<Hang> hang_of;         // index: node
    const std::vector<uint32_t> components;  // index: node
    const RankIndex process_of_rank;

    const WaitNode& node(uint32_t index) const { return graph.nodes[index]; }
    int rank_of(MemberRef ref) const { return run.member(ref).global_rank; }
    bool hangs(uint32_t node) const { return hang_of[node] != Hang::kNone; }
    // When the first of its waiters came.
    int64_t since(uint32_t node) const;
    // The node with the earliest waiter; `nodes` is not empty.
    uint32_t oldest_of(const std::vector<uint32_t>& nodes) const;
    // Nothing visible keeps the absent member from coming.
    bool is_free(uint32_t node, const Absence& absence) const;
    Finding finding_at(FindingKind kind, uint32_t node) const;
    // tell(process, finding) for the first ranks that a finding names, as far as they left a record.
    template <typename Tell>
    void for_each_named(Finding& finding, Tell&& tell) const {
        constexpr size_t kMostRanks = 4;
        for (size_t i = 0; i < std::min(finding.ranks.size(), kMostRanks); ++i) {
            if (const Process* const process = process_of_rank[finding.ranks[i]]; process != nullptr) {
                tell(*process, finding);
            }
        }
    }
    // The same for every finding that hangs.
    template <typename Tell>
    void for_each_named(std::vector<Finding>& findings, Tell&& tell) const {
        for (Finding& finding : findings) {
            if (finding.hangs) {
                for_each_named(finding, tell);
            }
        }
    }
    // All who wait in these nodes or behind them, but for the culprits.
    void add_victims(const std::vector<uint32_t>& nodes, Finding& finding) const;
    // All ranks left a record and are inside a call: none of them is on its way.
    bool all_are_held() const;
    // These are creations of one name and size, no rank is in two of them, and no two ranks are the same member: they
    // may be meant to be one.
    bool may_be_one_communicator(const std::vector<uint32_t>& nodes) const;
    // The ranks that wait in these nodes.
    std::vector<int> ranks_in(const std::vector<uint32_t>& nodes) const;
    // Adds the waits in the first `most` of these nodes as evidence.
    void show_waits(const std::vector<uint32_t>& nodes, Finding& finding, size_t most = SIZE_MAX) const;
};

// What the finders have found, and what that explains: later ones leave it alone.
class ToldSoFar {
  public:
    explicit ToldSoFar(const Evidence& evidence)
        : explained(evidence.graph.nodes.size(), false),
          is_cause(evidence.graph.nodes.size(), false),
          evidence_(evidence) {}

    // Adds a finding: all who wait in these nodes, or behind them, are its victims.
    void add(Finding finding, const std::vector<uint32_t>& nodes);
    // The same, and the nodes are the cause of all that waits behind them.
    void add_cause(Finding finding, const std::vector<uint32_t>& nodes);
    // The same, and nothing else is to be told of the waits in these nodes.
    void explain(Finding finding, const std::vector<uint32_t>& nodes);
    bool is_told(uint32_t node) const { return explained[node] || is_cause[node]; }

    std::vector<Finding> findings;
    std::vector<bool> explained;      // index: node; the reason for its waits is told
    std::vector<bool> is_cause;       // index: node; the cause of an absence or a cycle
    std::set<uint32_t> skipped_in;    // components
    std::set<uint32_t> died_waiting;  // processes that died while they waited in a hang that is told

  private:
    const Evidence& evidence_;
};

// A member that is to blame, also where it has no record.
struct CulpritKey {
    uint32_t process;
    int global_rank;
    uint32_t communicator;  // only where nothing else tells the member
    int comm_rank;
    auto operator<=>(const CulpritKey&) const = default;
};

// The one that all of these have in common, of the two that `sides_of` tells of each; none where they have two, or
// none.
template <typename Pair, typename SidesOf>
auto only_in_all(const std::vector<Pair>& pairs, SidesOf&& sides_of) {
    const auto [first, second] = sides_of(pairs.front());
    const auto is_in_all = [&](auto side) {
        return std::ranges::all_of(pairs, [&](const Pair& pair) {
            const auto [one, other] = sides_of(pair);
            return one == side || other == side;
        });
    };
    const bool first_is = is_in_all(first);
    const bool is_one = first == second ? first_is : first_is != is_in_all(second);
    return is_one ? std::optional(first_is ? first : second) : std::nullopt;
}

}  // namespace titan::analyzer
