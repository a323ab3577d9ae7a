// Calls that all members have issued, but not in one order: without streams nothing shows that they wait for each other,
// yet two communicators whose calls a GPU runs one after the other never end then.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/diagnoser.h"
#include "analyzer/text.h"

namespace titan::analyzer {
namespace {

// Who issued the first of two calls first, and who the second.
struct Orders {
    std::vector<MemberRef> first, second;
};

}  // namespace

void Diagnoser::add_opposite_orders() {
    std::map<uint32_t, std::map<uint32_t, std::pair<uint32_t, MemberRef>>> calls;  // process -> node -> entry, member
    for (uint32_t index = 0; index < graph_.nodes.size(); ++index) {
        const WaitNode& node = graph_.nodes[index];
        const bool suspect = node.kind == WaitKind::kCollective && hangs_[index] == Hang::kByTime &&
                             node.absent.empty() && !explained_[index] && !in_cycle_.contains(index);
        for (const Waiter& waiter : node.waiting) {
            const Process& process = run_.process(waiter.member);
            if (suspect && process.only_calls && waiter.entry != nullptr) {
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
        if (!orders.first.empty() && !orders.second.empty() && !explained_[nodes.first] && !explained_[nodes.second]) {
            add_opposite_order(nodes.first, nodes.second, orders.first, orders.second);
        }
    }
}

void Diagnoser::add_opposite_order(uint32_t a, uint32_t b, const std::vector<MemberRef>& a_first,
                                   const std::vector<MemberRef>& b_first) {
    const auto ranks = [&](const std::vector<MemberRef>& members) {
        std::vector<int> list;
        for (const MemberRef ref : members) {
            list.push_back(run_.member(ref).global_rank);
        }
        sort_unique(list);
        return list;
    };
    Finding finding = finding_at(FindingKind::kOrderInversion, since(a) <= since(b) ? a : b);
    const std::vector<int> one = ranks(a_first);
    const std::vector<int> other = ranks(b_first);
    const std::string first = node_text(run_, graph_.nodes[a]);
    const std::string second = node_text(run_, graph_.nodes[b]);
    finding.summary = fmt::format("{} issued {} before {}, {} the other way round; neither finishes", ranks_text(one),
                                  first, second, ranks_text(other));
    finding.evidence.push_back(waiting_text(run_, graph_.nodes[a]));
    finding.evidence.push_back(waiting_text(run_, graph_.nodes[b]));
    finding.ranks = one.size() < other.size() ? one : other.size() < one.size() ? other : one;
    if (one.size() == other.size()) {
        finding.ranks.insert(finding.ranks.end(), other.begin(), other.end());
        finding.evidence.emplace_back("which of them has the wrong order is undecidable");
    } else {
        finding.evidence.push_back(ranks_text(finding.ranks) + (is_plural(finding.ranks) ? " have" : " has") +
                                   " the order of the few");
    }
    finding.doubt(true, "which streams the calls ran on: two that run side by side may be issued in any order");
    for (const uint32_t node : {a, b}) {
        explained_[node] = true;
        is_cause_[node] = true;
    }
    add_victims({a, b}, finding);
    diagnosis_.findings.push_back(std::move(finding));
}

}  // namespace titan::analyzer
