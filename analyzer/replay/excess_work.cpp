#include "excess_work.h"

#include <algorithm>
#include <map>

#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastPeers = 3;  // on a host, the rank itself included

double middle_of(const RankSteps& values, const std::vector<size_t>& ranks, size_t step) {
    std::vector<double> here;
    for (const size_t r : ranks) {
        here.push_back(values.at(r, step));
    }
    return median_of(std::move(here));
}

}  // namespace

std::vector<ExcessWork::Peers> ExcessWork::peers_of_ranks(const CauseSearch& search, Against against) {
    std::map<uint32_t, Peers> by_role;
    for (size_t r = 0; r < search.ranks(); ++r) {
        by_role[search.graph.roles[r]].push_back(r);
    }
    std::vector<Peers> all;
    for (size_t r = 0; r < search.ranks(); ++r) {
        Peers here, elsewhere;
        for (const size_t other : by_role[search.graph.roles[r]]) {
            (search.process(other).host == search.process(r).host ? here : elsewhere).push_back(other);
        }
        all.push_back(against == Against::kOtherHosts ? std::move(elsewhere)
                      : here.size() >= kLeastPeers    ? std::move(here)
                                                      : by_role[search.graph.roles[r]]);
    }
    return all;
}

ExcessWork::ExcessWork(const CauseSearch& search, Against against)
    : peers_(peers_of_ranks(search, against)),
      work_ns_(excess_of(against == Against::kOtherHosts ? search.surplus_ns() : search.left_ns)),
      host_late_ns_(excess_of(search.work.host_late_ns)),
      busy_ns_(excess_of(search.work.of(HostPart::kBusy))) {
    for (size_t r = 0; r < search.ranks(); ++r) {
        for (size_t s = 0; s < search.steps() && is_of_host_alone(r); ++s) {
            work_ns_.at(r, s) = std::min(search.left_ns.at(r, s), host_late_ns_.at(r, s));
        }
    }
}

RankSteps ExcessWork::excess_of(const RankSteps& values) const {
    RankSteps excess(values.ranks(), values.steps());
    for (size_t r = 0; r < values.ranks(); ++r) {
        const bool is_alone = peers_[r].size() == 1 && peers_[r].front() == r;
        const double own_ns = is_alone ? median_of(values.of_rank(r)) : 0;
        for (size_t s = 0; s < values.steps(); ++s) {
            excess.at(r, s) = values.at(r, s) - (is_alone            ? own_ns
                                                 : peers_[r].empty() ? median_of(values.of_step(s))
                                                                     : middle_of(values, peers_[r], s));
        }
    }
    return excess;
}

}  // namespace titan::analyzer
