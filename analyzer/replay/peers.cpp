#include "peers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr size_t kManyHosts = 8;  // of so many one does not move the middle

}  // namespace

Peers::Peers(const CauseSearch& search, Against against) : peers_of_(search.ranks()) {
    std::map<uint32_t, std::map<std::string, Ranks>> by_role;
    for (size_t r = 0; r < search.ranks(); ++r) {
        by_role[search.graph.roles[r]][search.process(r).host].push_back(r);
    }
    for (const auto& [role, by_host] : by_role) {
        const size_t of_all = peers_.size();
        Ranks& all = peers_.emplace_back();
        for (const auto& [host, ranks] : by_host) {
            all.insert(all.end(), ranks.begin(), ranks.end());
        }
        std::sort(all.begin(), all.end());
        for (const auto& [host, ranks] : by_host) {
            const bool by_own = against == Against::kOwnHost && ranks.size() >= kLeastOnHost;
            const bool by_others = against == Against::kOtherHosts && by_host.size() <= kManyHosts;
            for (const size_t r : ranks) {
                peers_of_[r] = by_own || by_others ? peers_.size() : of_all;
            }
            if (by_own) {
                peers_.push_back(ranks);
            } else if (by_others) {
                Ranks others;
                std::set_difference(peers_[of_all].begin(), peers_[of_all].end(), ranks.begin(), ranks.end(),
                                    std::back_inserter(others));
                peers_.push_back(std::move(others));
            }
        }
    }
}

std::vector<double> Peers::usual_of(const RankSteps& values, size_t peers) const {
    const Ranks& ranks = peers_[peers];
    if (ranks.size() == 1 && peers_of_[ranks.front()] == peers) {  // who is alone is its own measure
        return std::vector<double>(values.steps(), median_of(values.of_rank(ranks.front())));
    }
    std::vector<double> usual;
    for (size_t s = 0; s < values.steps(); ++s) {
        usual.push_back(ranks.empty() ? median_of(values.of_step(s)) : values.middle_of(ranks, s));
    }
    return usual;
}

RankSteps Peers::excess_of(const RankSteps& values) const {
    std::vector<std::vector<double>> usual(peers_.size());
    RankSteps excess = values;
    excess.for_each([&](size_t r, size_t s, double& value) {
        std::vector<double>& of_peers = usual[peers_of_[r]];
        if (of_peers.empty()) {
            of_peers = usual_of(values, peers_of_[r]);
        }
        value -= of_peers[s];
    });
    return excess;
}

}  // namespace titan::analyzer
