// Waits that are longer than usual, but no hangs yet, as in a dump that was requested early.
#include "steps.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "causes.h"
#include "explain.h"
#include "host/words.h"
#include "layout.h"
#include "outside_nccl.h"
#include "waiters.h"

namespace titan::analyzer {
namespace {

// A snapshot of a healthy job is full of short waits. A wait is worth a line once it lasts for a second and twice as
// long as usual, or for a shorter time that is beyond all that is usual there.
struct Worth {
    int64_t least_ns;
    int64_t usual_factor;
    bool by_watchdog = false;  // only there
};
// PyTorch's watchdog looks every 100 ms, so that a call of a millisecond seems to take as long as a look.
constexpr Worth kWorthReporting[] = {{1'000'000'000, 2}, {200'000'000, 20}, {300'000'000, 3, true}};

bool may_last(const WaitNode& node) { return !node.absent.empty() || node.kind == WaitKind::kCreation; }

bool is_pending(const Evidence& evidence, const WaitNode& node) {
    const int64_t usual_ns = usual_wait_ns(evidence.run, node);
    const int64_t waited_ns = longest_wait_ns(node);
    const bool by_watchdog = evidence.run.process(node.waiting.front().member).sees.by_watchdog;
    const bool is_long = std::any_of(std::begin(kWorthReporting), std::end(kWorthReporting), [&](const Worth& worth) {
        return waited_ns > worth.least_ns && waited_ns / worth.usual_factor > usual_ns &&
               (usual_ns != 0 || worth.usual_factor == kWorthReporting[0].usual_factor) &&
               (!worth.by_watchdog || by_watchdog);
    });
    return may_last(node) && !waiting_ranks(evidence.run, node).empty() && is_long;
}

// Nothing else may hold it.
bool holds_itself(const WaitGraph& graph, uint32_t index) {
    const std::vector<uint32_t>& edges = graph.edges_of[index];
    const std::vector<uint32_t>& earlier = graph.may_follow[index];
    return std::ranges::all_of(edges, [&](uint32_t edge) { return graph.edges[edge].to == index; }) &&
           std::ranges::all_of(earlier, [&](uint32_t node) { return node == index; });
}

// Waits that nothing else holds, among those that may hold this one; itself where they hold each other.
std::vector<uint32_t> origins_of(const WaitGraph& graph, uint32_t index) {
    const std::vector<bool> behind = may_be_behind(graph, index);
    std::vector<uint32_t> origins;
    for (uint32_t node = 0; node < behind.size(); ++node) {
        if (behind[node] && holds_itself(graph, node) && may_last(graph.nodes[node])) {
            origins.push_back(node);
        }
    }
    return origins.empty() ? std::vector<uint32_t>{index} : origins;
}

Pending pending_in(const Evidence& evidence, uint32_t index) {
    const WaitNode& node = evidence.node(index);
    const Finding place = evidence.finding_at({}, index);
    Pending pending;
    pending.ranks = waiting_ranks(evidence.run, node);
    pending.missing = absent_ranks(node);
    pending.communicator = place.communicator;
    pending.sequence = place.sequence;
    pending.op = place.op;
    pending.since_ns = place.since_ns;
    pending.waited_ns = longest_wait_ns(node);
    pending.hang_after_ns = hang_after_ns(evidence.run, node, evidence.options);
    const Sentence for_whom =
        node.absent.empty() ? Sentence("though all members have come") : phrase("for {}", absent_fact(node.absent));
    const Sentence length = wait_length(evidence.run, node);
    pending.summary =
        phrase("{} [waits|wait] in {} {}: since {}, {}{}; reported as a hang after {}",
               ranks_fact(evidence.run, pending.ranks), node_fact(evidence.run, node), for_whom,
               date_text(pending.since_ns), length.empty() || pending.ranks.size() == 1 ? "" : "the longest ",
               length.empty() ? Sentence("for a time that the files do not show") : length,
               duration_fact(pending.hang_after_ns));
    return pending;
}

// Where the stacks show it: no call of it is recorded.
Pending pending_outside(const OutsideWait& wait) {
    Pending pending;
    pending.ranks = wait.waiting;
    pending.missing = wait.elsewhere;
    pending.since_ns = wait.since_ns;
    pending.waited_ns = wait.waited_ns;
    pending.hang_after_ns = wait.hang_after_ns;
    pending.summary =
        phrase("{}; {} made no call of CUDA or NCCL for {}; reported as a hang after {}", wait.story,
               ranks_fact(wait.waiting), duration_fact(wait.waited_ns), duration_fact(wait.hang_after_ns));
    return pending;
}

Pending pending_idle(const OutsideWait& wait) {
    Pending pending;
    pending.ranks = wait.waiting;
    pending.since_ns = wait.since_ns;
    pending.waited_ns = wait.waited_ns;
    pending.summary =
        phrase("{}; no rank has called CUDA or NCCL for {}, {}", wait.story, duration_fact(wait.waited_ns),
               wait.usual_ns == 0 ? Sentence("and nothing shows whether that is usual")
                                  : phrase("before never for longer than {}", duration_fact(wait.usual_ns)));
    return pending;
}

}  // namespace

// If nothing hangs: ranks that wait for longer than usual because somebody has not come.
std::vector<Pending> find_pending(const Evidence& evidence, const std::vector<Finding>& findings) {
    std::vector<Pending> waits;
    if (any_hangs(findings)) {
        return waits;
    }
    std::set<uint32_t> pending;
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        if (is_pending(evidence, evidence.node(index))) {
            const std::vector<uint32_t> origins = origins_of(evidence.graph, index);
            pending.insert(origins.begin(), origins.end());
        }
    }
    for (const uint32_t index : pending) {
        waits.push_back(pending_in(evidence, index));
    }
    // Longer than its limit, and no hang: dumps at different times show a wait that may have ended.
    std::erase_if(waits,
                  [](const Pending& wait) { return wait.hang_after_ns != 0 && wait.waited_ns >= wait.hang_after_ns; });
    const auto outside = waits.empty() ? find_outside_wait(evidence) : std::nullopt;
    if (outside && outside->waited_ns > kWorthReporting[0].least_ns) {  // a longer one is a finding
        waits.push_back(pending_outside(*outside));
    } else if (const auto idle = waits.empty() ? find_idle_job(evidence) : std::nullopt) {
        waits.push_back(pending_idle(*idle));
    }
    // The longest waits, and of equal ones those of the most ranks, are nearest to the cause.
    std::ranges::stable_sort(waits, [](const Pending& a, const Pending& b) {
        return std::pair(-a.waited_ns, -static_cast<int64_t>(a.ranks.size())) <
               std::pair(-b.waited_ns, -static_cast<int64_t>(b.ranks.size()));
    });
    return waits;
}

}  // namespace titan::analyzer
