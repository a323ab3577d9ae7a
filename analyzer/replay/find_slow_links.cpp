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
constexpr size_t kLeastCalls = 8;
constexpr double kBelowAll = -1e300;
constexpr double kStall = 2;  // times a typical call, or the distance between two looks: beyond it a call stalls
constexpr size_t kLeastSlowSteps = 4;  // where it is compared with its own past
constexpr double kLeastInOrder = 0.9;  // pairs of a step before and a step since, of which the later one is slower

struct Call {
    uint32_t node;
    size_t step;
    double ran_ns;  // below 0: a look at the GPU showed it to end before another one showed the last rank to come
};

struct Route {
    StepRoute of;  // between two ranks the lower one first; the same one twice: its messages with several others
    uint32_t at_once = 0;  // meetings
    std::vector<Call> calls;
    std::vector<double> of_step;  // what is typical in each step; in one without calls as in the step before
    double typical_ns = 0;
    double slow_ns = 0;  // since it is slow
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
        std::vector<Route*> slow;
        for (auto& [like, routes] : likes_) {
            judge(routes, slow);
            judge_groups(routes, slow);
        }
        if (slow.empty()) {  // all of their like may have become slow at once
            for (auto& [like, routes] : likes_) {
                judge_by_past(routes, slow);
            }
        }
        if (!slow.empty()) {
            tell(slow);
        }
    }

  private:
    // What a node's meetings run over. None where it is not known which of them took long.
    std::optional<StepRoute> way_of(uint32_t node) const {
        const StepGraph& graph = search_.graph;
        std::optional<StepRoute> way;
        for (const uint32_t meeting : graph.meetings_of(node)) {
            if ((meeting & StepGraph::kDoesNotWait) != 0) {
                return std::nullopt;
            }
            StepRoute of = graph.route_of(meeting);
            // Where others than the graph's ranks meet, too, it may be these that are late.
            if (static_cast<int64_t>(graph.meeting_size[meeting]) < members_of(of) || graph.outside.contains(meeting)) {
                return std::nullopt;
            }
            std::tie(of.from, of.to) = std::pair(std::min(of.from, of.to), std::max(of.from, of.to));
            way = way ? both_ways(*way, of) : of;
            if (!way) {
                return std::nullopt;
            }
        }
        return way;
    }

    // The same one, or messages of one rank with several others, as in an all-to-all.
    static std::optional<StepRoute> both_ways(StepRoute way, const StepRoute& other) {
        const bool same = way.communicator == other.communicator && way.kind == other.kind;
        if (same && way.from == other.from && way.to == other.to && way.size_bits == other.size_bits) {
            return way;
        }
        const bool is_low = way.from == other.from || way.from == other.to;
        if (way.communicator != other.communicator || !way.is_pair() || !other.is_pair() ||
            (!is_low && way.to != other.from && way.to != other.to)) {
            return std::nullopt;
        }
        way.from = way.to = is_low ? way.from : way.to;
        way.size_bits = std::max(way.size_bits, other.size_bits);
        return way;
    }

    int32_t members_of(const StepRoute& of) const {
        return of.is_exchange() ? 1 : of.is_pair() ? 2 : search_.run.communicators[of.communicator].size;
    }

    void collect() {
        const StepGraph& graph = search_.graph;
        std::map<std::tuple<uint32_t, int32_t, int32_t, uint32_t, OpKind, uint8_t>, Route> routes;
        for (size_t r = 0; r < graph.ranks(); ++r) {
            search_.for_each_step(r, [&](uint32_t first, uint32_t end, size_t step) {
                for (uint32_t n = first; n < end; ++n) {
                    const std::optional<StepRoute> way = graph.nodes[n].has_end ? way_of(n) : std::nullopt;
                    if (way) {
                        const auto at_once = static_cast<uint32_t>(graph.meetings_of(n).size());
                        Route& route =
                            routes[{way->communicator, way->from, way->to, at_once, way->kind, way->size_bits}];
                        route.of = *way;
                        route.at_once = at_once;
                        route.calls.push_back({n, step, static_cast<double>(graph.nodes[n].run_ns)});
                    }
                }
            });
        }
        for (auto& [way, route] : routes) {
            if (route.calls.size() >= kLeastCalls) {
                look_at(route);
                likes_[{route.of.kind, route.of.size_bits, members_of(route.of), route.at_once}].push_back(
                    std::move(route));
            }
        }
    }

    void look_at(Route& route) const {
        route.typical_ns = typical_in(route, 0, SIZE_MAX);
        const size_t first = std::min_element(route.calls.begin(), route.calls.end(), [](const Call& a, const Call& b) {
                                 return a.step < b.step;
                             })->step;
        std::vector<std::vector<double>> ran_ns(search_.compared());
        for (const Call& call : route.calls) {
            ran_ns[call.step].push_back(std::max(0.0, call.ran_ns));
        }
        double before_ns = typical_of(ran_ns[first]);
        for (const std::vector<double>& here : ran_ns) {
            before_ns = here.empty() ? before_ns : typical_of(here);
            route.of_step.push_back(before_ns);
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

    // Calls that seem to end before they began count as `least_ns`.
    double typical_in(const Route& route, size_t from_step, size_t to_step, double least_ns = 0) const {
        std::vector<double> ran_ns;
        for (const Call& call : route.calls) {
            if (call.step >= from_step && call.step < to_step) {
                ran_ns.push_back(std::max(least_ns, call.ran_ns));
            }
        }
        return typical_of(ran_ns);
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
    void judge(std::vector<Route>& routes, std::vector<Route*>& slow) const {
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
    }

    // Where one member of a communicator is slow to exchange, so are all of its exchanges: together they have more
    // calls.
    void judge_groups(std::vector<Route>& routes, std::vector<Route*>& slow) const {
        std::map<uint32_t, std::vector<Route*>> parts;
        for (Route& route : routes) {
            if (route.of.is_exchange()) {
                parts[route.of.communicator].push_back(&route);
            }
        }
        std::vector<Route> groups;
        for (const auto& [communicator, own] : parts) {
            Route& group = groups.emplace_back();
            group.of = own.front()->of;
            for (const Route* const route : own) {
                group.calls.insert(group.calls.end(), route->calls.begin(), route->calls.end());
            }
            look_at(group);
        }
        std::vector<Route*> slow_groups;
        if (groups.size() > 1) {
            judge(groups, slow_groups);
        }
        for (const Route* const group : slow_groups) {
            const uint32_t communicator = group->of.communicator;
            const bool is_told = std::any_of(slow.begin(), slow.end(), [&](const Route* route) {
                return route->of.communicator == communicator;  // by the exchanges of one member
            });
            for (Route* const route : is_told ? std::vector<Route*>() : parts[communicator]) {
                measure(*route, group->usual_ns);
                if (route->slow_ns > route->usual_ns) {
                    slow.push_back(route);
                }
            }
        }
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

    void judge_by_past(std::vector<Route>& routes, std::vector<Route*>& slow) const {
        for (Route& route : routes) {
            if (is_slow_since(route) && route.first_step + kLeastSlowSteps <= search_.compared() &&
                route.slow_ns > kTimesLike * typical_in(route, 0, route.first_step)) {
                slow.push_back(&route);
            }
        }
    }

    static double times_like(const Route& route) { return route.of.is_exchange() ? kTimesLikeExchange : kTimesLike; }

    void measure(Route& route, double usual_ns) const {
        route.usual_ns = usual_ns;
        route.first_step = onset(route.of_step, usual_ns);
        route.slow_ns = typical_in(route, route.first_step, SIZE_MAX);
        route.slow_calls = static_cast<size_t>(std::count_if(
            route.calls.begin(), route.calls.end(), [&](const Call& call) { return call.step >= route.first_step; }));
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
    std::set<std::string> common_hosts(const std::vector<Route*>& slow) const {
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

    // The share of its calls' time that is left if they take as long as their like, of which this is typical. Looks at
    // a GPU may show a call that is shorter than they lie apart to end before the last one came: that this is
    // impossible makes all such calls seem to take long, and the slow ones not so much longer.
    double kept_of(const Route& route, const std::vector<double>& like_ns) const {
        double seen_ns = 0;
        for (const Call& call : route.calls) {
            seen_ns += call.step >= route.first_step ? std::max(0.0, call.ran_ns) : 0;
        }
        if (route.is_by_past || like_ns.empty() || seen_ns <= 0) {
            return route.usual_ns / route.slow_ns;
        }
        const double longer_ns = typical_in(route, route.first_step, SIZE_MAX, kBelowAll) - median_of(like_ns);
        return std::clamp(1 - longer_ns * static_cast<double>(route.slow_calls) / seen_ns, 0.0, 1.0);
    }

    Durations without(const std::vector<Route*>& slow) const {
        Durations without = search_.recorded();
        for (const auto& [like, routes] : likes_) {
            std::vector<const Route*> slow_ones;
            std::vector<double> like_ns;
            for (const Route& route : routes) {
                if (std::find(slow.begin(), slow.end(), &route) != slow.end()) {
                    slow_ones.push_back(&route);
                } else {
                    like_ns.push_back(typical_in(route, 0, SIZE_MAX, kBelowAll));
                }
            }
            for (const Route* const route : slow_ones) {
                const double kept = kept_of(*route, like_ns);
                for (const Call& call : route->calls) {
                    if (call.step >= route->first_step && call.ran_ns > 0) {
                        without.run_ns[call.node] *= static_cast<float>(kept);
                    }
                }
            }
        }
        return without;
    }

    void tell(const std::vector<Route*>& slow) {
        SlowCause cause;
        cause.of_class = CauseClass::kSlowLink;
        size_t first = search_.compared();
        const Route* worst = slow.front();
        std::set<int> ranks;
        std::set<uint32_t> communicators;
        for (const Route* route : slow) {
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
            fmt::format("{} {} {} takes {}, its like {} (typical ones, counted from the last arrival)",
                        format::name_of(of.kind), cause.ranks.size() == 1 ? "of" : "between", ranks_text(cause.ranks),
                        fine_duration_text(worst->slow_ns), fine_duration_text(worst->usual_ns)));
        if (!of.is_pair()) {
            cause.calls = {{communicators.begin(), communicators.end()},
                           of.kind,
                           of.bytes,
                           search_.run.communicators[of.communicator].size,
                           worst->slow_ns,
                           worst->usual_ns,
                           worst->slow_calls};
        }
        search_.add(std::move(cause), without(slow));
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
