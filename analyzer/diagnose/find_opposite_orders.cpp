// Calls that all members have issued, but not in one order: without streams nothing shows that they wait for each
// other, yet two communicators whose calls a GPU runs one after the other never end then.
#include "finders.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "break_tie.h"
#include "call_order.h"
#include "explain.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

// Ranks that issued the first of two calls first, and ranks that issued the second first.
struct Orders {
    std::vector<MemberRef> first, second;
};

// Did each of these ranks begin with the other call before? Then its order now is the new one.
bool changed_order(const Evidence& evidence, const std::vector<MemberRef>& members, uint32_t first) {
    return std::all_of(members.begin(), members.end(),
                       [&](MemberRef ref) { return deviates_in(evidence, first, ref.process); });
}

void add_opposite_order(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings, uint32_t a,
                        uint32_t b, const std::vector<MemberRef>& a_first, const std::vector<MemberRef>& b_first) {
    const auto ranks = [&](const std::vector<MemberRef>& members) {
        std::vector<int> list;
        for (const MemberRef ref : members) {
            list.push_back(evidence.run.member(ref).global_rank);
        }
        sort_unique(list);
        return list;
    };
    Finding finding = evidence.finding_at(FindingKind::kOrderInversion, evidence.since(a) <= evidence.since(b) ? a : b);
    const std::vector<int> one = ranks(a_first);
    const std::vector<int> other = ranks(b_first);
    const Sentence first = node_fact(evidence.run, evidence.graph.nodes[a]);
    const Sentence second = node_fact(evidence.run, evidence.graph.nodes[b]);
    finding.summary = phrase("{} issued {} before {}, {} the other way round; neither finishes", ranks_fact(one), first,
                             second, ranks_fact(other));
    evidence.show_waits({a, b}, finding);
    const OrderVote vote =
        vote_on_order(evidence.run, {evidence.graph.nodes[a].communicator, evidence.graph.nodes[a].sequence},
                      {evidence.graph.nodes[b].communicator, evidence.graph.nodes[b].sequence});
    const bool one_changed = changed_order(evidence, a_first, a);
    const bool other_changed = changed_order(evidence, b_first, b);
    if (!vote.is_tied()) {
        finding.ranks = vote.a_first.size() < vote.b_first.size() ? one : other;
        finding.evidence.push_back(order_of_few_text(finding.ranks, vote));
    } else if (one_changed != other_changed) {
        finding.ranks = one_changed ? one : other;
        finding.evidence.push_back(phrase("{} made these calls in the other order before", ranks_fact(finding.ranks)));
    } else {
        finding.ranks = one;
        finding.ranks.insert(finding.ranks.end(), other.begin(), other.end());
        finding.evidence.emplace_back("the record cannot show which of them has the wrong order");
    }
    finding.doubt(true, "which streams the calls ran on: two that run side by side may be issued in any order");
    evidence.tell_cause({a, b}, std::move(finding), explained, findings);
}

}  // namespace

void find_opposite_orders(const Evidence& evidence, Explained& explained, std::vector<Finding>& findings) {
    std::map<uint32_t, std::map<uint32_t, std::pair<uint32_t, MemberRef>>> calls;  // process -> node -> entry, member
    for (uint32_t index = 0; index < evidence.graph.nodes.size(); ++index) {
        const WaitNode& node = evidence.graph.nodes[index];
        const bool suspect = node.kind == WaitKind::kCollective && evidence.hang_of[index] == Hang::kByTime &&
                             node.absent.empty() && !explained.nodes[index] && !explained.in_cycle.contains(index);
        for (const Waiter& waiter : node.waiting) {
            const Process& process = evidence.run.process(waiter.member);
            if (suspect && !process.sees.streams && waiter.entry != nullptr) {
                calls[waiter.member.process].try_emplace(
                    index, static_cast<uint32_t>(waiter.entry - process.entries.data()), waiter.member);
            }
        }
    }
    std::map<std::pair<uint32_t, uint32_t>, Orders> pairs;
    for (const auto& [process, nodes] : calls) {
        for (auto a = nodes.begin(); a != nodes.end(); ++a) {
            for (auto b = std::next(a); b != nodes.end(); ++b) {
                Orders& orders = pairs[{a->first, b->first}];
                (a->second.first < b->second.first ? orders.first : orders.second).push_back(a->second.second);
            }
        }
    }
    for (const auto& [nodes, orders] : pairs) {
        if (!orders.first.empty() && !orders.second.empty() && !explained.nodes[nodes.first] &&
            !explained.nodes[nodes.second]) {
            add_opposite_order(evidence, explained, findings, nodes.first, nodes.second, orders.first, orders.second);
        }
    }
}

}  // namespace titan::analyzer
