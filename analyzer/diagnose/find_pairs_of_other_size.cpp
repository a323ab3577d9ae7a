// Sends and receives whose sizes differ.
#include "finders.h"

#include <algorithm>

#include "explain.h"
#include "run_text.h"
#include "stuck_nodes.h"

namespace titan::analyzer {

void find_pairs_of_other_size(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.graph.nodes[index];
        if (!all_arrived(evidence, explained, index) || !node.sizes_differ) {
            continue;
        }
        Finding finding = evidence.finding_at(FindingKind::kSizeMismatch, index);
        finding.confidence = Confidence::kPossible;
        finding.would_confirm.emplace_back(
            "the program: of a pair that differs, the record cannot show which size is meant");
        finding.summary = phrase("the two sides of {} pass different sizes; which one is wrong is undecidable",
                                 node_fact(evidence.run, node));
        // A small send is done before anybody receives it: then its sender does not wait.
        for (const OpKind kind : {OpKind::kSend, OpKind::kRecv}) {
            const bool sends = kind == OpKind::kSend;
            const MemberRef ref = evidence.run.communicators[node.communicator]
                                      .by_rank[static_cast<size_t>(sends ? node.source : node.target)];
            const std::vector<Entry>& entries = evidence.run.process(ref).entries;
            const auto half = std::find_if(entries.rbegin(), entries.rend(), [&](const Entry& entry) {
                return entry.row == ref.row && entry.kind == kind && entry.sequence == node.sequence &&
                       entry.peer == (sends ? node.target : node.source);
            });
            const int rank = evidence.run.member(ref).global_rank;
            finding.ranks.push_back(rank);
            if (half != entries.rend()) {
                finding.evidence.push_back(
                    phrase("{}: {} ({})", rank_fact(rank), op_text(kind), arguments_text(*half)));
            }
        }
        explained.nodes[index] = true;
        evidence.add_victims({index}, finding);
        findings.push_back(std::move(finding));
    }
}

}  // namespace titan::analyzer
