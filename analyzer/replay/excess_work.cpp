#include "excess_work.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastPeers = 3;  // on a host, the rank itself included
constexpr size_t kManyHosts = 8;   // of so many one does not move the middle

double middle_of(const RankSteps& values, const std::vector<size_t>& ranks, size_t step) {
    if (ranks.empty()) {
        return median_of(values.of_step(step));
    }
    std::vector<double> here;
    for (const size_t r : ranks) {
        here.push_back(values.at(r, step));
    }
    return median_of(std::move(here));
}

}  // namespace

ExcessWork::ExcessWork(const CauseSearch& search, Against against)
    : peers_of_(search.ranks()),
      work_ns_(search.ranks(), search.steps()),
      host_late_ns_(search.ranks(), search.steps()),
      busy_ns_(search.ranks(), search.steps()) {
    find_peers(search, against);
    work_ns_ = excess_of(against == Against::kOtherHosts ? search.surplus_ns() : search.left_ns);
    host_late_ns_ = excess_of(search.work.host_late_ns);
    busy_ns_ = excess_of(search.work.of(HostPart::kBusy));
    for (size_t r = 0; r < search.ranks(); ++r) {
        for (size_t s = 0; s < search.steps() && is_of_host_alone(r); ++s) {
            work_ns_.at(r, s) = std::min(search.left_ns.at(r, s), host_late_ns_.at(r, s));
        }
    }
}

void ExcessWork::find_peers(const CauseSearch& search, Against against) {
    std::map<uint32_t, std::map<std::string, Peers>> by_role;
    for (size_t r = 0; r < search.ranks(); ++r) {
        by_role[search.graph.roles[r]][search.process(r).host].push_back(r);
    }
    for (const auto& [role, by_host] : by_role) {
        Peers all;
        for (const auto& [host, ranks] : by_host) {
            all.insert(all.end(), ranks.begin(), ranks.end());
        }
        std::sort(all.begin(), all.end());
        const size_t of_all = peers_.size();
        peers_.push_back(all);
        for (const auto& [host, ranks] : by_host) {
            size_t own = of_all;
            if (against == Against::kOwnHost ? ranks.size() >= kLeastPeers : by_host.size() <= kManyHosts) {
                own = peers_.size();
                peers_.push_back(ranks);
            }
            if (against == Against::kOtherHosts && own != of_all) {
                Peers others;
                std::set_difference(all.begin(), all.end(), ranks.begin(), ranks.end(), std::back_inserter(others));
                peers_.back() = std::move(others);
            }
            for (const size_t r : ranks) {
                peers_of_[r] = own;
            }
        }
    }
}

RankSteps ExcessWork::excess_of(const RankSteps& values) const {
    RankSteps usual(peers_.size(), values.steps());
    for (size_t i = 0; i < peers_.size(); ++i) {
        const double own = peers_[i].size() == 1 ? median_of(values.of_rank(peers_[i].front())) : 0;
        for (size_t s = 0; s < values.steps(); ++s) {
            usual.at(i, s) = middle_of(values, peers_[i], s);
        }
        // Who is alone is compared with its own usual time.
        for (size_t s = 0; s < values.steps() && peers_[i].size() == 1 && peers_of_[peers_[i].front()] == i; ++s) {
            usual.at(i, s) = own;
        }
    }
    RankSteps excess(values.ranks(), values.steps());
    for (size_t r = 0; r < values.ranks(); ++r) {
        for (size_t s = 0; s < values.steps(); ++s) {
            excess.at(r, s) = values.at(r, s) - usual.at(peers_of_[r], s);
        }
    }
    return excess;
}

}  // namespace titan::analyzer
