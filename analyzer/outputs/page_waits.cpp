// The wait-for graph as nodes and arrows. Calls that wait alike (same operation and role, for the same ranks or for
// calls that are alike) are one node: a thousand victims read as one.
#include <algorithm>
#include <map>
#include <set>

#include "call_order.h"
#include "explain.h"
#include "host/mapped.h"
#include "host/words.h"
#include "page_sections.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMostNodes = 60;

std::string rank_name(const Absence& absence) {
    return absence.global_rank >= 0 ? std::to_string(absence.global_rank)
                                    : "member " + std::to_string(absence.comm_rank);
}

// Calls that are alike.
struct Folded {
    std::vector<uint32_t> nodes;
    std::set<uint32_t> waits_for;  // numbers of others
};

class Folding {
  public:
    explicit Folding(const Evidence& evidence) : evidence_(evidence), class_of_(evidence.graph.nodes.size()) {
        std::map<uint32_t, size_t> sizes;
        for (const uint32_t component : evidence.components) {
            ++sizes[component];
        }
        std::vector<std::string> keys;
        for (uint32_t node = 0; node < evidence.graph.nodes.size(); ++node) {
            in_cycle_.push_back(sizes[evidence.components[node]] > 1);
            keys.push_back(own_key(node));
        }
        size_t classes = number(keys);
        for (size_t before = 0; before != classes;) {  // until what they wait for is alike, too
            before = classes;
            for (uint32_t node = 0; node < keys.size(); ++node) {
                std::set<uint32_t> targets;
                for (const uint32_t edge : evidence.graph.edges_of[node]) {
                    targets.insert(class_of_[evidence.graph.edges[edge].to]);
                }
                keys[node] = std::to_string(class_of_[node]);
                for (const uint32_t target : targets) {
                    keys[node] += " " + std::to_string(target);
                }
            }
            classes = number(keys);
        }
    }

    uint32_t class_of(uint32_t node) const { return class_of_[node]; }
    bool in_cycle(uint32_t node) const { return in_cycle_[node]; }
    // Classes in which a rank waited first come first.
    std::vector<std::vector<uint32_t>> classes() const {
        std::map<uint32_t, std::vector<uint32_t>> members;
        for (uint32_t node = 0; node < class_of_.size(); ++node) {
            members[class_of_[node]].push_back(node);
        }
        std::vector<std::vector<uint32_t>> all = mapped(members, [](auto& one) { return std::move(one.second); });
        std::ranges::stable_sort(all, [&](const auto& a, const auto& b) {
            const auto worth = [&](const auto& nodes) {
                return std::pair(!evidence_.hangs(nodes.front()), evidence_.since(evidence_.oldest_of(nodes)));
            };
            return worth(a) < worth(b);
        });
        return all;
    }

  private:
    std::string own_key(uint32_t index) const {
        const WaitNode& node = evidence_.graph.nodes[index];
        std::string key = in_cycle_[index] ? "#" + std::to_string(index) : std::string();
        key += std::to_string(static_cast<int>(node.kind)) + " " + std::to_string(static_cast<int>(node.op)) + " " +
               role_text(evidence_.run.communicators[node.communicator]) + (evidence_.hangs(index) ? "!" : "");
        for (const Absence& absence : node.absent) {
            key += absence.held_by.empty() ? " " + rank_name(absence) : "";
        }
        return key + (node.absent.empty() && node.blocked.empty() ? " stuck " + std::to_string(index) : "");
    }

    // Gives equal keys one number; returns how many there are.
    size_t number(const std::vector<std::string>& keys) {
        std::map<std::string, uint32_t> numbers;
        for (uint32_t node = 0; node < keys.size(); ++node) {
            class_of_[node] = numbers.try_emplace(keys[node], static_cast<uint32_t>(numbers.size())).first->second;
        }
        return numbers.size();
    }

    const Evidence& evidence_;
    std::vector<uint32_t> class_of_;
    std::vector<bool> in_cycle_;
};

// By reason; `free`: no other call of the graph holds them.
Json absent_json(const Evidence& evidence, const std::vector<uint32_t>& nodes) {
    std::map<std::pair<bool, AbsenceReason>, std::pair<std::vector<int>, size_t>> absent;  // ranks, and how many more
    for (const uint32_t node : nodes) {
        for (const Absence& absence : evidence.graph.nodes[node].absent) {
            auto& [ranks, nameless] = absent[{!absence.held_by.empty(), absence.reason}];
            if (absence.global_rank >= 0) {
                ranks.push_back(absence.global_rank);
            } else {
                ++nameless;
            }
        }
    }
    std::vector<int> blocked;  // by work of their own
    for (const uint32_t node : nodes) {
        for (const Blocked& one : evidence.graph.nodes[node].blocked) {
            if (one.held_by.empty()) {
                blocked.push_back(rank_of(evidence.run.process(one.member), one.member.row));
            }
        }
    }
    Json list = Json::array();
    if (!blocked.empty()) {
        list.push_back({{"ranks", rank_ranges(blocked)},
                        {"of_unknown_rank", 0},
                        {"reason", "called it, but its stream is behind other work"},
                        {"free", true},
                        {"unseen", false}});
    }
    for (auto& [key, of] : absent) {
        list.push_back({{"ranks", rank_ranges(of.first)},
                        {"of_unknown_rank", of.second},
                        {"reason", words_of(key.second, of.first.size() + of.second)},
                        {"free", !key.first},
                        {"unseen", key.second == AbsenceReason::kUnknown}});
    }
    return list;
}

Json node_json(const Evidence& evidence, const Folding& folding, const std::vector<uint32_t>& nodes) {
    const Run& run = evidence.run;
    std::vector<int> waiting;
    std::vector<int> blocked;
    std::vector<int> finished;
    int64_t waited_ns = 0;
    for (const uint32_t index : nodes) {
        const WaitNode& node = evidence.graph.nodes[index];
        const std::vector<int> ranks = waiting_ranks(run, node);
        waiting.insert(waiting.end(), ranks.begin(), ranks.end());
        finished.insert(finished.end(), node.finished.begin(), node.finished.end());
        for (const Blocked& one : node.blocked) {
            blocked.push_back(rank_of(run.process(one.member), one.member.row));
        }
        for (const Waiter& waiter : node.waiting) {
            waited_ns = std::max(waited_ns, waiter.age_ns);
        }
    }
    const WaitNode& first = evidence.graph.nodes[nodes.front()];
    const std::string role = role_text(run.communicators[first.communicator]);
    sort_unique(waiting);
    return {{"title", nodes.size() == 1 ? node_fact(run, first).text() : op_text(first.op) + " on " + role},
            {"calls", nodes.size()},
            {"waiting", rank_ranges(waiting)},
            {"waiting_ranks", waiting.size()},
            {"absent", absent_json(evidence, nodes)},
            {"blocked", rank_ranges(blocked)},
            {"finished", rank_ranges(finished)},
            {"waited_ns", waited_ns},
            {"hangs", evidence.hangs(nodes.front())},
            {"in_cycle", folding.in_cycle(nodes.front())}};
}

}  // namespace

Json waits_section(const Evidence& evidence) {
    if (evidence.graph.nodes.empty()) {
        return nothing_because("no call was unfinished when the records were taken");
    }
    const Folding folding(evidence);
    std::vector<std::vector<uint32_t>> classes = folding.classes();
    const size_t more = classes.size() - std::min(classes.size(), kMostNodes);
    classes.resize(classes.size() - more);
    std::map<uint32_t, size_t> place;  // of a class in the list
    Json nodes = Json::array();
    for (size_t i = 0; i < classes.size(); ++i) {
        place[folding.class_of(classes[i].front())] = i;
        nodes.push_back(node_json(evidence, folding, classes[i]));
    }
    std::map<std::pair<size_t, size_t>, std::vector<int>> arrows;  // and the ranks because of which
    for (const Edge& edge : evidence.graph.edges) {
        const auto from = place.find(folding.class_of(edge.from));
        const auto to = place.find(folding.class_of(edge.to));
        if (from != place.end() && to != place.end()) {
            arrows[{from->second, to->second}].push_back(rank_of(evidence.run.process(edge.via), edge.via.row));
        }
    }
    Json edges = Json::array();
    for (auto& [ends, ranks] : arrows) {
        edges.push_back({{"from", ends.first}, {"to", ends.second}, {"because_of", rank_ranges(ranks)}});
    }
    return {{"nodes", std::move(nodes)}, {"edges", std::move(edges)}, {"more_nodes", more}};
}

}  // namespace titan::analyzer
