// A call on record has waited for nearly its whole timeout, and nothing above explains it. For instance
// send_left_out 705308027548 of tests/scenarios.
#include "finders.h"

#include <algorithm>

#include "causes.h"
#include "explain.h"
#include "host/words.h"
#include "unknowns.h"

namespace titan::analyzer {

void find_unexplained_waits(const Evidence& evidence, ToldSoFar& told) {
    std::vector<uint32_t> nodes;
    for (uint32_t index = 0; index < evidence.graph.nodes.size() && !any_hangs(told.findings); ++index) {
        const WaitNode& node = evidence.node(index);
        if (std::ranges::any_of(node.waiting, [&](const Waiter& waiter) {
                return waited_for_its_timeout(evidence.run, node, waiter);
            })) {
            nodes.push_back(index);
        }
    }
    if (nodes.empty()) {
        return;
    }
    const uint32_t oldest = evidence.oldest_of(nodes);
    Finding finding = evidence.finding_at(FindingKind::kStuckInFlight, oldest);
    finding.ranks = evidence.ranks_in(nodes);
    evidence.show_waits(nodes, finding);
    finding.summary = phrase("{} [waits|wait] in {} for nearly the whole timeout; the record does not show why",
                             ranks_fact(finding.ranks), node_fact(evidence.run, evidence.node(oldest)));
    depends_on(finding, Unknown::kDumpsOfOneTime);
    told.add(std::move(finding), nodes);
}

}  // namespace titan::analyzer
