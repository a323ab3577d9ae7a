// By how much ranks work longer than those that do the same, in each step.
#pragma once

#include <vector>

#include "cause_search.h"

namespace titan::analyzer {

// With whom a rank is compared. What strikes a host strikes its ranks alike: it shows against other hosts alone.
enum class Against : uint8_t {
    kOwnHost,     // those on its host that do the same; where they are too few, those on all hosts
    kOtherHosts,  // those on other hosts that do the same; where there are none, the hosts of all ranks
};

class ExcessWork {
  public:
    ExcessWork(const CauseSearch& search, Against against);

    double work_ns(size_t rank, size_t step) const { return work_ns_.at(rank, step); }
    double host_late_ns(size_t rank, size_t step) const { return host_late_ns_.at(rank, step); }
    double keeps_up_ns(size_t rank, size_t step) const { return keeps_up_ns_.at(rank, step); }
    double busy_ns(size_t rank, size_t step) const { return busy_ns_.at(rank, step); }
    // Its host alone could be compared: nobody on another host does its work.
    bool is_of_host_alone(size_t rank) const { return peers_[peers_of_[rank]].empty(); }

  private:
    using Peers = std::vector<size_t>;  // ranks that others are compared with; none: all are
    void find_peers(const CauseSearch& search, Against against);
    std::vector<double> usual_of(const RankSteps& values, size_t peers) const;  // by step
    RankSteps excess_of(const RankSteps& values) const;

    std::vector<Peers> peers_;
    std::vector<size_t> peers_of_;  // by rank: index in peers_, which many ranks share
    RankSteps work_ns_;
    RankSteps host_late_ns_;
    RankSteps keeps_up_ns_;
    RankSteps busy_ns_;
};

}  // namespace titan::analyzer
