// Calls that take longer than their like between other ranks, or than before, though nobody came late to them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "cause_search.h"
#include "correlation.h"
#include "host/words.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr double kTimesLike = 1.4;          // times as long as its like
constexpr double kTimesLikeExchange = 2.2;  // likewise, of messages whose sizes together are known to a factor of 2
constexpr double kTimesOfTwo = 2;           // likewise, where there is one other
constexpr double kLeastLike = 2;            // other routes
constexpr double kLeastNs = 100'000;        // longer than its like
constexpr double kAboveKnown = 2;           // and than what one look at the GPU resolves, of few calls
constexpr double kAboveKnownOfMany = 0.1;   // likewise of many, which looks tell more exactly in the mean
constexpr double kLeastOfMost = 0.1;        // of what the slowest one loses
constexpr size_t kLeastCalls = 8;
constexpr double kStall = 2;  // times a typical call, or the distance between two looks: beyond it a call stalls
constexpr size_t kLeastSlowSteps = 4;  // where it is compared with its own past
constexpr double kLeastInOrder = 0.9;  // pairs of a step before and a step since, of which the later one is slower

struct Route {
    StepRoute of;                // of several meetings between the same two ranks the first one
    std::vector<double> ran_ns;  // node by node
    std::vector<uint32_t> nodes;
    std::vector<size_t> steps;
    std::vector<double> of_step;  // what is typical in each step; in one without calls as in the step before
    double typical_ns = 0;
    double signed_ns = 0;  // likewise, of run times below 0, too
    double slow_ns = 0;    // since it is slow
    size_t slow_calls = 0;
    double usual_ns = 0;
    size_t first_step = 0;
    bool is_by_past = false;  // slow beside its own past, not beside its like
};

using Like = std::tuple<OpKind, uint8_t, int32_t, uint32_t>;  // operation, size, members, meetings at once

class SlowLinks {
  public:
    explicit SlowLinks(CauseSearch& search) : search_(search), known_ns_(search.graph.resolution_ns()) {}

    void find() {
        collect();
        std::vector<const Route*> slow;
        for (auto& [like, routes] : likes_) {
            judge(routes, slow);
        }
        if (slow.empty()) {  // all of their like may have become slow at once
            for (auto& [like, routes] : likes_) {
                judge_by_past(routes, slow);
            }
        }
        keep_those_that_cost(slow);
        if (!slow.empty()) {
            tell(slow);
        }
    }

  private:
    // What a node's meetings run over: communicator, two ranks or -1 (twice the same one: its messages with several
    // others), meetings at once, operation and size. None where it is not known which of them took long.
    using Way = std::tuple<uint32_t, int32_t, int32_t, uint32_t, OpKind, uint8_t>;

    std::optional<Way> way_of(uint32_t node) const {
        const StepGraph& graph = search_.graph;
        const uint32_t first = graph.piece_begin[node];
        const uint32_t end = graph.piece_begin[node + 1];
        std::optional<Way> way;
        for (uint32_t p = first; p < end; ++p) {
            if ((graph.pieces[p] & StepGraph::kDoesNotWait) != 0) {
                return std::nullopt;
            }
            const StepRoute& of = graph.routes[graph.meeting_route[graph.pieces[p]]];
            // Where others than the graph's ranks meet, too, it may be these that are late.
            const int32_t members = of.is_pair() ? 2 : search_.run.communicators[of.communicator].size;
            if (static_cast<int64_t>(graph.meeting_size[graph.pieces[p]]) < members ||
                graph.outside.contains(graph.pieces[p])) {
                return std::nullopt;
            }
            const Way own{of.communicator, std::min(of.from, of.to), std::max(of.from, of.to), end - first, of.kind,
                          of.size_bits};
            way = !way || *way == own ? own : exchange_of(*way, own);
            if (!way) {
                return std::nullopt;
            }
        }
        return way;
    }

    // Messages of one rank with several others, as in an all-to-all.
    static std::optional<Way> exchange_of(Way way, const Way& other) {
        auto& [communicator, low, high, at_once, kind, size_bits] = way;
        const auto& [other_communicator, other_low, other_high, other_at_once, other_kind, other_bits] = other;
        if (communicator != other_communicator || low < 0 || other_low < 0) {
            return std::nullopt;
        }
        const bool is_low = low == other_low || low == other_high;
        if (!is_low && high != other_low && high != other_high) {
            return std::nullopt;
        }
        low = high = is_low ? low : high;
        size_bits = std::max(size_bits, other_bits);
        return way;
    }

    void collect() {
        const StepGraph& graph = search_.graph;
        std::map<Way, Route> routes;
        for (size_t r = 0; r < graph.ranks(); ++r) {
            search_.for_each_step(r, [&](uint32_t first, uint32_t end, size_t step) {
                for (uint32_t n = first; n < end; ++n) {
                    const std::optional<Way> way = graph.nodes[n].has_end ? way_of(n) : std::nullopt;
                    if (!way) {
                        continue;
                    }
                    Route& route = routes[*way];
                    route.of = graph.routes[graph.meeting_route[graph.pieces[graph.piece_begin[n]]]];
                    route.of.from = std::get<1>(*way);
                    route.of.to = std::get<2>(*way);
                    route.ran_ns.push_back(std::max(0.0, run_ns(n)));
                    route.nodes.push_back(n);
                    route.steps.push_back(step);
                }
            });
        }
        for (auto& [way, route] : routes) {
            if (route.ran_ns.size() >= kLeastCalls) {
                route.typical_ns = typical_of(route.ran_ns);
                std::vector<double> signed_ns;
                for (const uint32_t n : route.nodes) {
                    signed_ns.push_back(run_ns(n));
                }
                route.signed_ns = typical_of(signed_ns);
                route.of_step = by_step(route);
                const int32_t size = !route.of.is_pair() ? search_.run.communicators[route.of.communicator].size
                                     : route.of.from != route.of.to ? 2
                                                                    : 1;
                likes_[{route.of.kind, route.of.size_bits, size, std::get<3>(way)}].push_back(std::move(route));
            }
        }
    }

    // Looks at a GPU are so far apart that short calls end at one of two or three: the median would be one of these, so
    // this is the mean. Of a call that stalls no more than that counts.
    double typical_of(const std::vector<double>& ran_ns) const {
        if (ran_ns.empty()) {
            return 0;
        }
        const double median_ns = median_of(ran_ns);
        const double most_ns = median_ns + kStall * std::max(median_ns, known_ns_);
        double sum_ns = 0;
        for (const double ns : ran_ns) {
            sum_ns += std::min(ns, most_ns);
        }
        return sum_ns / static_cast<double>(ran_ns.size());
    }

    // By how much a typical call of so many must be longer.
    double least_ns(size_t calls) const {
        const double few = std::sqrt(static_cast<double>(kLeastCalls) / static_cast<double>(calls));
        return std::max(kLeastNs, known_ns_ * std::max(kAboveKnownOfMany, kAboveKnown * std::min(1.0, few)));
    }

    double typical_in(const Route& route, size_t from_step, size_t to_step) const {
        std::vector<double> ran_ns;
        for (size_t i = 0; i < route.ran_ns.size(); ++i) {
            if (route.steps[i] >= from_step && route.steps[i] < to_step) {
                ran_ns.push_back(route.ran_ns[i]);
            }
        }
        return typical_of(ran_ns);
    }

    std::vector<double> by_step(const Route& route) const {
        std::vector<std::vector<double>> ran_ns(search_.compared());
        for (size_t i = 0; i < route.ran_ns.size(); ++i) {
            ran_ns[route.steps[i]].push_back(route.ran_ns[i]);
        }
        std::vector<double> typical_ns;
        double before_ns = typical_of(ran_ns[*std::min_element(route.steps.begin(), route.steps.end())]);
        for (const std::vector<double>& here : ran_ns) {
            before_ns = here.empty() ? before_ns : typical_of(here);
            typical_ns.push_back(before_ns);
        }
        return typical_ns;
    }

    // The step at which the calls became slow; 0 where they were slow before, too.
    static size_t onset(const std::vector<double>& of_step, double usual_ns) {
        const size_t first = rise_of(of_step, 1);
        if (first == 0) {
            return 0;
        }
        const auto cut = of_step.begin() + static_cast<std::ptrdiff_t>(first);
        const double before_ns = std::accumulate(of_step.begin(), cut, 0.0) / static_cast<double>(first);
        const double slow_ns = std::accumulate(cut, of_step.end(), 0.0) / static_cast<double>(of_step.end() - cut);
        return before_ns < (usual_ns + slow_ns) / 2 ? first : 0;
    }

    // Beside their like where there are enough of it, else beside their own past.
    void judge(std::vector<Route>& routes, std::vector<const Route*>& slow) const {
        std::vector<double> typical_ns;
        for (const Route& route : routes) {
            typical_ns.push_back(route.typical_ns);
        }
        const double middle_ns = median_of(std::move(typical_ns));
        const std::optional<double> faster_ns = faster_of_two(routes);
        const bool are_many = static_cast<double>(routes.size()) > kLeastLike;
        for (Route& route : routes) {
            const double times = times_like(route);
            if ((faster_ns && is_slow(route, *faster_ns, std::max(kTimesOfTwo, times))) ||
                (are_many && is_slow(route, middle_ns, times)) || (!faster_ns && !are_many && is_slow_since(route))) {
                slow.push_back(&route);
            }
        }
        judge_together(routes, slow);
    }

    // Where one member of a communicator is slow to exchange, so are all of its exchanges: together they have more
    // calls.
    void judge_together(std::vector<Route>& routes, std::vector<const Route*>& slow) const {
        std::map<uint32_t, std::vector<Route*>> exchanges;
        std::set<uint32_t> told;  // by the exchanges of one member
        for (const Route* const route : slow) {
            told.insert(route->of.communicator);
        }
        for (Route& route : routes) {
            if (route.of.is_exchange()) {
                exchanges[route.of.communicator].push_back(&route);
            }
        }
        std::vector<double> means_ns;
        for (const auto& [communicator, own] : exchanges) {
            means_ns.push_back(mean_of(own));
        }
        const std::optional<double> usual_ns =
            static_cast<double>(exchanges.size()) > kLeastLike ? median_of(means_ns) : faster_of_two(routes);
        for (const auto& [communicator, own] : exchanges) {
            const double mean_ns = mean_of(own);
            if (!usual_ns || told.contains(communicator) || mean_ns < kTimesLikeExchange * *usual_ns ||
                mean_ns < *usual_ns + least_ns(own.size() * own.front()->nodes.size())) {
                continue;
            }
            for (Route* const route : own) {
                measure(*route, *usual_ns);
                if (route->slow_ns > *usual_ns) {
                    slow.push_back(route);
                }
            }
        }
    }

    static double mean_of(const std::vector<Route*>& routes) {
        double sum_ns = 0;
        for (const Route* const route : routes) {
            sum_ns += route->typical_ns / static_cast<double>(routes.size());
        }
        return sum_ns;
    }

    // What is usual on the faster one of two routes, or of two communicators, over as many hosts. Where one member of a
    // communicator is slow to exchange, so are all of its exchanges.
    std::optional<double> faster_of_two(const std::vector<Route>& routes) const {
        std::map<size_t, std::vector<double>> sides;
        std::set<size_t> hosts;
        for (size_t i = 0; i < routes.size(); ++i) {
            sides[routes.size() == 2 ? i : routes[i].of.communicator].push_back(routes[i].typical_ns);
            hosts.insert(hosts_of(routes[i].of).size());
        }
        if (sides.size() != 2 || hosts.size() != 1) {
            return std::nullopt;
        }
        return std::min(median_of(sides.begin()->second), median_of(sides.rbegin()->second));
    }

    void judge_by_past(std::vector<Route>& routes, std::vector<const Route*>& slow) const {
        for (Route& route : routes) {
            if (is_slow_since(route) && route.first_step + kLeastSlowSteps <= search_.compared() &&
                route.slow_ns > kTimesLike * typical_in(route, 0, route.first_step)) {
                slow.push_back(&route);
            }
        }
    }

    // Beside the one that costs most, what is a little slower explains nothing.
    static void keep_those_that_cost(std::vector<const Route*>& slow) {
        const auto lost_ns = [](const Route* route) {
            return (route->slow_ns - route->usual_ns) * static_cast<double>(route->slow_calls);
        };
        double most_ns = 0;
        for (const Route* route : slow) {
            most_ns = std::max(most_ns, lost_ns(route));
        }
        std::erase_if(slow, [&](const Route* route) { return lost_ns(route) < kLeastOfMost * most_ns; });
    }

    static double times_like(const Route& route) { return route.of.is_exchange() ? kTimesLikeExchange : kTimesLike; }

    void measure(Route& route, double usual_ns) const {
        route.usual_ns = usual_ns;
        route.first_step = onset(route.of_step, usual_ns);
        route.slow_ns = typical_in(route, route.first_step, search_.compared());
        route.slow_calls = static_cast<size_t>(std::count_if(route.steps.begin(), route.steps.end(),
                                                             [&](size_t step) { return step >= route.first_step; }));
    }

    bool is_slow(Route& route, double usual_ns, double times) const {
        measure(route, usual_ns);
        return route.first_step + 2 < search_.compared() && route.slow_ns > times * usual_ns &&
               route.slow_ns > usual_ns + least_ns(route.slow_calls);
    }

    bool is_slow_since(Route& route) const {
        route.is_by_past = true;
        return is_slow(route, quantile_of(route.of_step, 0.1), times_like(route)) && route.first_step >= 2 &&
               (route.slow_ns - route.usual_ns >= known_ns_ || is_slower_step_by_step(route));
    }

    // Steps and looks at the GPU drift past each other: for many steps in a row, short calls then seem longer or
    // shorter than they are.
    static bool is_slower_step_by_step(const Route& route) {
        const auto cut = route.of_step.begin() + static_cast<std::ptrdiff_t>(route.first_step);
        std::vector<double> before_ns(route.of_step.begin(), cut);
        std::sort(before_ns.begin(), before_ns.end());
        size_t in_order = 0;
        for (auto since = cut; since != route.of_step.end(); ++since) {
            in_order +=
                static_cast<size_t>(std::lower_bound(before_ns.begin(), before_ns.end(), *since) - before_ns.begin());
        }
        const size_t pairs = before_ns.size() * (route.of_step.size() - before_ns.size());
        return static_cast<double>(in_order) >= kLeastInOrder * static_cast<double>(pairs);
    }

    std::set<std::string> hosts_of(const StepRoute& route) const {
        std::set<std::string> hosts;
        const Communicator& communicator = search_.run.communicators[route.communicator];
        for (const MemberRef ref : communicator.members) {
            const int32_t rank = search_.run.member(ref).rank;
            if (!route.is_pair() || rank == route.from || rank == route.to) {
                hosts.insert(search_.run.process(ref).host);
            }
        }
        return hosts;
    }

    // In all slow routes, and together in none of their like that is not slow.
    std::set<std::string> common_hosts(const std::vector<const Route*>& slow) const {
        std::set<std::string> common = hosts_of(slow.front()->of);
        for (const Route* route : slow) {
            std::set<std::string> both;
            const std::set<std::string> hosts = hosts_of(route->of);
            std::set_intersection(common.begin(), common.end(), hosts.begin(), hosts.end(),
                                  std::inserter(both, both.end()));
            common = std::move(both);
        }
        const auto is_slow = [&](const Route& route) {
            return std::find(slow.begin(), slow.end(), &route) != slow.end();
        };
        for (const auto& [like, routes] : likes_) {
            const bool any_slow = std::any_of(routes.begin(), routes.end(), is_slow);
            for (const Route& route : routes) {
                const std::set<std::string> hosts = hosts_of(route.of);
                if (any_slow && !is_slow(route) &&
                    std::includes(hosts.begin(), hosts.end(), common.begin(), common.end())) {
                    return {};
                }
            }
        }
        return common;
    }

    // The share of its calls' time that is left if they take as long as their like. Looks at a GPU may show a call that
    // is shorter than they lie apart to end before the last one came. `Route::ran_ns` counts none of these below 0, so
    // that all such calls seem to take long, and the slow ones not so much longer.
    double kept_of(const Route& route, const std::vector<const Route*>& slow) const {
        std::vector<double> like_ns;
        for (const auto& [like, routes] : likes_) {
            if (&route >= routes.data() && &route < routes.data() + routes.size()) {
                for (const Route& other : routes) {
                    if (std::find(slow.begin(), slow.end(), &other) == slow.end()) {
                        like_ns.push_back(other.signed_ns);
                    }
                }
            }
        }
        std::vector<double> own_ns;
        double seen_ns = 0;
        for (size_t i = 0; i < route.nodes.size(); ++i) {
            if (route.steps[i] >= route.first_step) {
                own_ns.push_back(run_ns(route.nodes[i]));
                seen_ns += route.ran_ns[i];
            }
        }
        if (route.is_by_past || like_ns.empty() || seen_ns <= 0) {
            return route.usual_ns / route.slow_ns;
        }
        const double longer_ns = typical_of(own_ns) - median_of(std::move(like_ns));
        return std::clamp(1 - longer_ns * static_cast<double>(own_ns.size()) / seen_ns, 0.0, 1.0);
    }

    double run_ns(uint32_t node) const { return static_cast<double>(search_.graph.nodes[node].run_ns); }

    void tell(const std::vector<const Route*>& slow) {
        Durations without = search_.recorded();
        SlowCause cause;
        cause.of_class = CauseClass::kSlowLink;
        size_t first = search_.compared();
        const Route* worst = slow.front();
        std::set<int> ranks;
        std::set<uint32_t> communicators;
        for (const Route* route : slow) {
            const double factor = kept_of(*route, slow);
            for (size_t i = 0; i < route->nodes.size(); ++i) {
                float& ran_ns = without.run_ns[route->nodes[i]];
                if (route->steps[i] >= route->first_step && ran_ns > 0) {
                    ran_ns *= static_cast<float>(factor);
                }
            }
            first = std::min(first, route->first_step);
            worst = route->slow_ns - route->usual_ns > worst->slow_ns - worst->usual_ns ? route : worst;
            const StepRoute& of = route->of;
            communicators.insert(of.communicator);
            for (const MemberRef ref : search_.run.communicators[of.communicator].members) {
                const Member& member = search_.run.member(ref);
                if (member.global_rank >= 0 && (!of.is_pair() || member.rank == of.from || member.rank == of.to)) {
                    ranks.insert(member.global_rank);
                }
            }
        }
        cause.ranks.assign(ranks.begin(), ranks.end());
        const std::set<std::string> hosts = common_hosts(slow);
        cause.hosts.assign(hosts.begin(), hosts.end());
        cause.since_step = search_.since(first);
        const StepRoute& of = worst->of;
        cause.evidence.push_back(
            fmt::format("{} between {} takes {}, its like {} (typical ones, counted from the last arrival)",
                        format::name_of(of.kind), ranks_text(cause.ranks), fine_duration_text(worst->slow_ns),
                        fine_duration_text(worst->usual_ns)));
        if (!of.is_pair()) {
            cause.calls = {{communicators.begin(), communicators.end()},
                           of.kind,
                           of.bytes,
                           search_.run.communicators[of.communicator].size,
                           worst->slow_ns,
                           worst->usual_ns,
                           worst->slow_calls};
        }
        search_.add(std::move(cause), without);
    }

    CauseSearch& search_;
    const double known_ns_;
    std::map<Like, std::vector<Route>> likes_;
};

}  // namespace

void find_slow_links(CauseSearch& search) {
    if (search.graph.by_device) {
        SlowLinks(search).find();
    }
}

}  // namespace titan::analyzer
