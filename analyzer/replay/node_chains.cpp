// A rank's calls run on several streams. The record does not say what its computation waits for, but shows it: a node
// that came before another one had ended did not wait for that, on no rank that does the same.
#include "node_chains.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr double kAtOnceNs = 50'000;  // a call that comes so soon after an end had queued behind it
constexpr double kLaterNs = 300'000;  // and one so late after it had not
constexpr double kOftenQueued =
    0.15;                        // share of a rank's times that it comes at once, and of one's that it comes later
constexpr size_t kLookBack = 8;  // nodes, in program order, among which is what a node waited for
constexpr double kOftenEarlier = 0.01;  // share of times that a node came before the end of another one
constexpr uint32_t kLeastEarlier = 2;

// How nodes of one slot came to the ends of those before them, over all steps and ranks of a role.
struct Following {
    std::array<uint32_t, kLookBack> met{};      // by distance in program order: both are known
    std::array<uint32_t, kLookBack> earlier{};  // before it had ended
    // Behind the call before of the same kind and communicator:
    uint32_t row = kNoIndex;
    OpKind kind{};
    uint32_t ranks_at_once = 0;  // that often came right at its end
    uint32_t ranks_later = 0;
    bool overlaps = false;

    bool waits_for(size_t distance) const {
        return earlier[distance] < kLeastEarlier || earlier[distance] < kOftenEarlier * met[distance];
    }
};

class Chains {
  public:
    Chains(const std::vector<RawNode>& raw, StepGraph& graph) : raw_(raw), graph_(graph) {
        for (const uint32_t role : graph.roles) {
            slots_.resize(std::max<size_t>(slots_.size(), role + 1));
        }
        for (size_t r = 0; r < graph.ranks(); ++r) {
            for (uint32_t n = graph.begin[r]; n < graph.begin[r + 1]; ++n) {
                auto& of_role = slots_[graph.roles[r]];
                of_role.resize(std::max<size_t>(of_role.size(), graph.nodes[n].slot + 1));
            }
        }
    }

    void chain(std::vector<std::vector<uint32_t>>& came) {
        compare_with_ends();
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            came.push_back(as_they_came(r));
            graph_.last.push_back(came.back().empty() ? kNoIndex : came.back().back());
            chain_rank(r, came.back());
            count_followed(r);
        }
        if (find_overlaps()) {
            for (size_t r = 0; r < graph_.ranks(); ++r) {
                chain_rank(r, came[r]);
            }
        }
    }

  private:
    Following& slot_of(size_t r, uint32_t n) { return slots_[graph_.roles[r]][graph_.nodes[n].slot]; }

    // Calls visit(earlier node, its distance) for those before it in program order.
    template <typename Visit>
    void look_back(size_t r, uint32_t n, const Visit& visit) const {
        for (uint32_t back = 1; back <= kLookBack && n >= graph_.begin[r] + back; ++back) {
            visit(n - back, size_t{back - 1});
        }
    }

    void compare_with_ends() {
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
                Following& slot = slot_of(r, n);
                look_back(r, n, [&](uint32_t other, size_t distance) {
                    if (raw_[other].ended_ns != 0 && !raw_[n].is_estimate && !raw_[other].is_estimate) {
                        ++slot.met[distance];
                        slot.earlier[distance] +=
                            raw_[n].arrived_ns + graph_.known_ns[r] < raw_[other].ended_ns ? 1 : 0;
                    }
                });
            }
        }
    }

    std::vector<uint32_t> as_they_came(size_t r) const {
        std::vector<uint32_t> came;
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            came.push_back(n);
        }
        std::stable_sort(came.begin(), came.end(),
                         [this](uint32_t a, uint32_t b) { return raw_[a].arrived_ns < raw_[b].arrived_ns; });
        return came;
    }

    // A node's own time counts from what ended last, of what it waits for, before it came, or, where nothing has ended
    // since a node before it came, from that.
    void chain_rank(size_t r, const std::vector<uint32_t>& came) {
        for (size_t i = 1; i < came.size(); ++i) {
            const uint32_t n = came[i];
            const Following& slot = slot_of(r, n);
            StepNode& node = graph_.nodes[n];
            node.before = node.after = kNoIndex;
            int64_t since_ns = INT64_MIN;
            const auto take = [&](uint32_t other, int64_t time_ns, bool end) {
                if (time_ns > since_ns) {
                    node.before = other;
                    node.after_end = end;
                    since_ns = time_ns;
                }
            };
            look_back(r, n, [&](uint32_t other, size_t distance) {
                if (raw_[other].arrived_ns > raw_[n].arrived_ns) {
                    return;
                }
                take(other, raw_[other].arrived_ns, false);
                if (slot.overlaps && is_like(other, n)) {
                    node.after = node.after == kNoIndex ? other : node.after;
                    return;
                }
                if (raw_[other].ended_ns != 0 && raw_[other].ended_ns <= raw_[n].arrived_ns + graph_.known_ns[r] &&
                    slot.waits_for(distance)) {
                    take(other, raw_[other].ended_ns, true);
                }
            });
            if (node.before == kNoIndex) {
                take(came[i - 1], raw_[came[i - 1]].arrived_ns, false);
            }
        }
    }

    bool is_like(uint32_t one, uint32_t other) const {
        return raw_[one].row == raw_[other].row && raw_[one].kind == raw_[other].kind;
    }

    // A slot overlaps with its like where ranks differ in how they come to its end, or where most slots of its like do.
    bool find_overlaps() {
        bool any = false;
        for (std::vector<Following>& of_role : slots_) {
            std::map<std::pair<uint32_t, OpKind>, std::pair<size_t, size_t>> likes;  // those that overlap, all
            for (Following& slot : of_role) {
                if (slot.row != kNoIndex) {
                    auto& [overlapping, all] = likes[{slot.row, slot.kind}];
                    slot.overlaps = slot.ranks_at_once != 0 && slot.ranks_later != 0;
                    overlapping += slot.overlaps ? 1 : 0;
                    ++all;
                }
            }
            for (Following& slot : of_role) {
                const auto [overlapping, all] = likes[{slot.row, slot.kind}];
                slot.overlaps |= 2 * overlapping > all;
                any |= slot.overlaps;
            }
        }
        return any;
    }

    void count_followed(size_t r) {
        struct Counts {
            uint32_t seen = 0;
            uint32_t at_once = 0;
            uint32_t later = 0;
            uint32_t row = kNoIndex;
            OpKind kind{};
        };
        std::vector<Counts> counts(slots_[graph_.roles[r]].size());
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            const uint32_t before = graph_.nodes[n].before;
            if (!graph_.nodes[n].after_end || !is_like(before, n) || raw_[n].is_estimate || raw_[before].is_estimate) {
                continue;
            }
            const auto known_ns = static_cast<double>(graph_.known_ns[r]);
            const auto after_ns = static_cast<double>(raw_[n].arrived_ns - raw_[before].ended_ns);
            const bool in_time = raw_[n].entered_ns <= raw_[before].ended_ns;  // else the host was late with it
            Counts& slot = counts[graph_.nodes[n].slot];
            ++slot.seen;
            slot.row = raw_[n].row;
            slot.kind = raw_[n].kind;
            slot.at_once += after_ns < known_ns + kAtOnceNs ? 1 : 0;
            slot.later += in_time && after_ns > 2 * known_ns + kLaterNs ? 1 : 0;
        }
        for (size_t i = 0; i < counts.size(); ++i) {
            const double least = kOftenQueued * counts[i].seen;
            Following& slot = slots_[graph_.roles[r]][i];
            if (counts[i].seen != 0) {
                slot.row = counts[i].row;
                slot.kind = counts[i].kind;
            }
            slot.ranks_at_once += counts[i].at_once > least ? 1 : 0;
            slot.ranks_later += counts[i].later > least ? 1 : 0;
        }
    }

    const std::vector<RawNode>& raw_;
    StepGraph& graph_;
    std::vector<std::vector<Following>> slots_;  // by role
};

bool queued(const RawNode& node, const RawNode& after, int64_t known_ns) {
    return static_cast<double>(node.arrived_ns - after.ended_ns) < static_cast<double>(known_ns) + kAtOnceNs;
}

// By rank: how long its GPU works, as a share of what those do that do the same, where none of it is hidden.
std::vector<double> share_of_peers(const std::vector<RawNode>& raw, const StepGraph& graph) {
    std::vector<double> seen_ns(graph.ranks(), 0);
    std::vector<std::vector<double>> by_role;
    for (size_t r = 0; r < graph.ranks(); ++r) {
        for (uint32_t n = graph.begin[r]; n < graph.begin[r + 1]; ++n) {
            const StepNode& node = graph.nodes[n];
            const bool tells = node.after == kNoIndex && !node.host_late && !raw[n].is_estimate;
            seen_ns[r] += tells ? static_cast<double>(std::max(0.0F, node.own_ns)) : 0;
        }
        by_role.resize(std::max<size_t>(by_role.size(), graph.roles[r] + 1));
        by_role[graph.roles[r]].push_back(seen_ns[r]);
    }
    std::vector<double> shares;
    for (size_t r = 0; r < graph.ranks(); ++r) {
        const double usual_ns = median_of(by_role[graph.roles[r]]);
        shares.push_back(usual_ns > 0 && seen_ns[r] > 0 ? seen_ns[r] / usual_ns : 1);
    }
    return shares;
}

}  // namespace

void chain_nodes(const std::vector<RawNode>& raw, std::vector<std::vector<uint32_t>>& came, StepGraph& graph) {
    Chains(raw, graph).chain(came);
}

void bound_queued(const std::vector<RawNode>& raw, StepGraph& graph) {
    const std::vector<double> shares = share_of_peers(raw, graph);
    std::map<std::pair<uint32_t, uint32_t>, std::vector<double>> free_ns;  // by role and slot
    const auto for_each_overlapping = [&](const auto& visit) {
        for (size_t r = 0; r < graph.ranks(); ++r) {
            for (uint32_t n = graph.begin[r]; n < graph.begin[r + 1]; ++n) {
                if (const uint32_t after = graph.nodes[n].after; after != kNoIndex) {
                    visit(r, n, queued(raw[n], raw[after], graph.known_ns[r]));
                }
            }
        }
    };
    for_each_overlapping([&](size_t r, uint32_t n, bool is_queued) {
        const StepNode& node = graph.nodes[n];
        if (!is_queued && !node.host_late && !raw[n].is_estimate) {
            free_ns[{graph.roles[r], node.slot}].push_back(static_cast<double>(node.own_ns) / shares[r]);
        }
    });
    std::map<std::pair<uint32_t, uint32_t>, double> usual_ns;
    for (auto& [slot, of_slot] : free_ns) {
        usual_ns[slot] = median_of(std::move(of_slot));
    }
    for_each_overlapping([&](size_t r, uint32_t n, bool is_queued) {
        StepNode& node = graph.nodes[n];
        const auto usual = usual_ns.find({graph.roles[r], node.slot});
        if (is_queued && usual != usual_ns.end()) {
            node.own_ns = std::min(node.own_ns, static_cast<float>(usual->second * shares[r]));
        }
    });
}

}  // namespace titan::analyzer
