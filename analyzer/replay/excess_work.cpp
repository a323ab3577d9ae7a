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

std::vector<size_t> without(const std::vector<size_t>& all, const std::vector<size_t>& some) {
    std::vector<size_t> others;
    std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(others));
    return others;
}

}  // namespace

ExcessWork::ExcessWork(const CauseSearch& search, Against against)
    : peers_of_(search.ranks()),
      work_ns_(search.ranks(), search.steps()),
      host_late_ns_(search.ranks(), search.steps()),
      keeps_up_ns_(search.ranks(), search.steps()),
      busy_ns_(search.ranks(), search.steps()) {
    find_peers(search, against);
    work_ns_ =
        excess_of(against == Against::kOtherHosts && !search.graph.by_streams ? search.surplus_ns() : search.left_ns);
    host_late_ns_ = excess_of(search.work.host_late_ns);
    keeps_up_ns_ = excess_of(search.work.keeps_up_ns);
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
        size_t of_all = SIZE_MAX;  // in peers_, once it is needed
        for (const auto& [host, ranks] : by_host) {
            size_t own = peers_.size();
            if (against == Against::kOwnHost ? ranks.size() >= kLeastPeers : by_host.size() <= kManyHosts) {
                peers_.push_back(against == Against::kOwnHost ? ranks : without(all, ranks));
            } else {
                own = of_all != SIZE_MAX ? of_all : own;
                if (own == peers_.size()) {
                    peers_.push_back(all);
                }
                of_all = own;
            }
            for (const size_t r : ranks) {
                peers_of_[r] = own;
            }
        }
    }
}

std::vector<double> ExcessWork::usual_of(const RankSteps& values, size_t peers) const {
    const Peers& ranks = peers_[peers];
    if (ranks.size() == 1 && peers_of_[ranks.front()] == peers) {  // who is alone is its own measure
        return std::vector<double>(values.steps(), median_of(values.of_rank(ranks.front())));
    }
    std::vector<double> usual;
    for (size_t s = 0; s < values.steps(); ++s) {
        usual.push_back(ranks.empty() ? median_of(values.of_step(s)) : values.middle_of(ranks, s));
    }
    return usual;
}

RankSteps ExcessWork::excess_of(const RankSteps& values) const {
    std::vector<std::vector<double>> usual;  // by peers
    for (size_t i = 0; i < peers_.size(); ++i) {
        usual.push_back(usual_of(values, i));
    }
    RankSteps excess(values.ranks(), values.steps());
    for (size_t r = 0; r < values.ranks(); ++r) {
        for (size_t s = 0; s < values.steps(); ++s) {
            excess.at(r, s) = values.at(r, s) - usual[peers_of_[r]][s];
        }
    }
    return excess;
}

}  // namespace titan::analyzer
