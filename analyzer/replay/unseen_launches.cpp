// A rank's steps resemble each other. Of a call that is watched in some steps it is known where in a step it usually
// comes and ends; the calls that are watched in a step say how far the step has come by then. Between them time is
// taken to pass evenly, but for what hosts tell: none of their calls comes before it was made.
#include "unseen_launches.h"

#include <algorithm>
#include <map>

#include "robust.h"
#include "whole_steps.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastSamples = 3;  // of a moment that is to be known
constexpr size_t kLeastSeen = 6;     // moments in a step that say when it began
constexpr int kRounds = 4;           // until moments and usual steps hardly change
constexpr double kMostLeft = 0.1;    // share of calls that stay unseen

struct Knot {
    double usual_ns;  // since the step began
    double ns;        // in this step, likewise
};

// The usual moments of one rank's steps, since their beginning: of slot n, 2 n is when it came, 2 n + 1 when it ended.
struct UsualStep {
    size_t nodes = 0;
    std::vector<double> ns;
};

class Steps {
  public:
    Steps(const StepMoments& moments, const StepGraph& graph, std::vector<RawNode>& raw)
        : moments_(moments), graph_(graph), raw_(raw) {
        for (const RawNode& node : raw) {
            unseen_.push_back(node.is_call() && node.arrived_ns == 0 && node.ended_ns == 0);
        }
    }

    bool fill() {
        const bool all_begin =
            std::none_of(moments_.begin(), moments_.end(), [](const auto& of) { return of.empty(); });
        if (!all_begin || !learn_usual_steps()) {
            return false;
        }
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            graph_.for_each_step(r, [&](uint32_t first, uint32_t end) { fill_step(r, first, end); });
        }
        size_t left = 0;
        for (size_t n = 0; n < raw_.size(); ++n) {
            left += unseen_[n] && raw_[n].arrived_ns == 0 ? 1 : 0;
        }
        return static_cast<double>(left) <= kMostLeft * static_cast<double>(raw_.size());
    }

  private:
    int64_t begin_ns(size_t r, uint32_t n) const { return moments_[r][graph_.nodes[n].step]; }

    // Hosts run ahead of devices: when a step began there is known only roughly, and better once it is known where in a
    // step the calls come that were seen in it.
    bool learn_usual_steps() {
        for (int round = 0; round < kRounds; ++round) {
            usual_.clear();
            for (size_t r = 0; r < graph_.ranks(); ++r) {
                usual_.push_back(usual_step(r));
                if (usual_.back().nodes == 0) {
                    return false;
                }
            }
            move_moments();
        }
        return true;
    }

    void move_moments() {
        std::vector<std::vector<double>> later_ns(graph_.steps);  // than usual, all that was seen in a step
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            graph_.for_each_step(r, [&](uint32_t first, uint32_t end) {
                for_each_seen(r, first, end, usual_[r].nodes, [&](size_t moment, double ns) {
                    later_ns[graph_.nodes[first].step].push_back(ns - usual_[r].ns[moment]);
                });
            });
        }
        for (std::vector<int64_t>& of_rank : moments_) {
            for (size_t s = 0; s < graph_.steps; ++s) {
                of_rank[s] += later_ns[s].size() < kLeastSeen ? 0 : static_cast<int64_t>(median_of(later_ns[s]));
            }
        }
    }

    // Calls visit(index in UsualStep, moment since its beginning) for what was seen of a step of so many nodes.
    template <typename Visit>
    void for_each_seen(size_t r, uint32_t first, uint32_t end, size_t nodes, const Visit& visit) const {
        for (uint32_t n = first; n < end && end - first == nodes; ++n) {
            size_t moment = 2 * size_t{n - first};
            for (const int64_t ns : {raw_[n].arrived_ns, raw_[n].ended_ns}) {
                if (!unseen_[n] && ns != 0) {
                    visit(moment, static_cast<double>(ns - begin_ns(r, n)));
                }
                ++moment;
            }
        }
    }

    UsualStep usual_step(size_t r) const {
        UsualStep usual;
        std::map<size_t, size_t> lengths;
        graph_.for_each_step(r, [&](uint32_t first, uint32_t end) { ++lengths[end - first]; });
        const auto most = std::max_element(lengths.begin(), lengths.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most == lengths.end()) {
            return usual;
        }
        std::vector<std::vector<double>> seen(2 * most->first);
        std::vector<bool> is_call(most->first, false);
        graph_.for_each_step(r, [&](uint32_t first, uint32_t end) {
            for (uint32_t n = first; n < end && end - first == most->first; ++n) {
                is_call[n - first] = is_call[n - first] || raw_[n].is_call();
            }
            for_each_seen(r, first, end, most->first, [&](size_t moment, double ns) { seen[moment].push_back(ns); });
        });
        for (size_t slot = 0; slot < most->first; ++slot) {
            std::vector<double>& ended = seen[2 * slot + 1];
            if (is_call[slot] && ended.size() < kLeastSamples) {
                return usual;
            }
            // Short ones are seen to end alone.
            std::vector<double>& arrived = seen[2 * slot].size() < kLeastSamples ? ended : seen[2 * slot];
            const double arrived_ns = is_call[slot] ? median_of(arrived) : 0;
            usual.ns.push_back(arrived_ns);
            usual.ns.push_back(is_call[slot] ? std::max(arrived_ns, median_of(std::move(ended))) : 0);
        }
        usual.nodes = most->first;
        return usual;
    }

    // A step of other calls than usual stays as it is.
    void fill_step(size_t r, uint32_t first, uint32_t end) {
        const UsualStep& usual = usual_[r];
        if (end - first != usual.nodes) {
            return;
        }
        const std::vector<Knot> knots = knots_of(r, first);
        for (uint32_t n = first; n < end; ++n) {
            if (!unseen_[n]) {
                continue;
            }
            const size_t slot = n - first;
            RawNode& node = raw_[n];
            const int64_t due_ns = begin_ns(r, n) + static_cast<int64_t>(moment(knots, usual.ns[2 * slot]));
            node.arrived_ns = std::max(node.entered_ns, due_ns);
            node.ended_ns =
                std::max(node.arrived_ns, begin_ns(r, n) + static_cast<int64_t>(moment(knots, usual.ns[2 * slot + 1])));
        }
    }

    std::vector<Knot> knots_of(size_t r, uint32_t first) const {
        std::vector<Knot> knots{{0, 0}};
        const size_t nodes = usual_[r].nodes;
        for_each_seen(r, first, first + static_cast<uint32_t>(nodes), nodes, [&](size_t moment, double ns) {
            knots.push_back({usual_[r].ns[moment], ns});
        });
        std::stable_sort(knots.begin(), knots.end(),
                         [](const Knot& a, const Knot& b) { return a.usual_ns < b.usual_ns; });
        for (size_t i = 1; i < knots.size(); ++i) {
            knots[i].ns = std::max(knots[i].ns, knots[i - 1].ns);
        }
        return knots;
    }

    // Between two knots time passes evenly, outside as usual.
    static double moment(const std::vector<Knot>& knots, double usual_ns) {
        const auto behind = std::upper_bound(knots.begin(), knots.end(), usual_ns,
                                             [](double ns, const Knot& knot) { return ns < knot.usual_ns; });
        if (behind == knots.begin()) {
            return knots.front().ns + usual_ns - knots.front().usual_ns;
        }
        const Knot& before = *std::prev(behind);
        if (behind == knots.end()) {
            return before.ns + usual_ns - before.usual_ns;
        }
        return before.ns +
               (behind->ns - before.ns) * (usual_ns - before.usual_ns) / (behind->usual_ns - before.usual_ns);
    }

    StepMoments moments_;
    const StepGraph& graph_;
    std::vector<RawNode>& raw_;
    std::vector<UsualStep> usual_;  // by rank
    std::vector<bool> unseen_;      // by node
};

}  // namespace

bool fill_unseen(const StepMoments& moments, const StepGraph& graph, std::vector<RawNode>& raw) {
    return Steps(moments, graph, raw).fill();
}

std::vector<int64_t> moments_of(const Process& process, const StepGraph& graph) {
    std::vector<int64_t> begin_ns(graph.steps + 1, 0);
    std::vector<size_t> known;
    for (size_t s = 0; s <= graph.steps; ++s) {
        const StepProfile* const before = process.profile_of(graph.first_step + static_cast<int32_t>(s) - 1);
        if (before != nullptr && before->sync_ns > 0) {
            begin_ns[s] = before->end_ns;
            known.push_back(s);
        }
    }
    if (known.size() < 2) {
        return {};
    }
    const auto step_ns = static_cast<double>(begin_ns[known.back()] - begin_ns[known.front()]) /
                         static_cast<double>(known.back() - known.front());
    for (size_t s = 0, i = 0; s <= graph.steps; ++s) {
        i += i + 1 < known.size() && known[i + 1] <= s ? 1 : 0;
        const size_t from = known[i];
        const bool between = s > from && i + 1 < known.size();
        const double every_ns = !between ? step_ns
                                         : static_cast<double>(begin_ns[known[i + 1]] - begin_ns[from]) /
                                               static_cast<double>(known[i + 1] - from);
        begin_ns[s] =
            begin_ns[from] + static_cast<int64_t>((static_cast<double>(s) - static_cast<double>(from)) * every_ns);
    }
    return begin_ns;
}

}  // namespace titan::analyzer
