// With whom a rank is compared, and by how much it has more of something than they.
#pragma once

#include <vector>

#include "cause_search.h"

namespace titan::analyzer {

// What strikes a host strikes its ranks alike: it shows against other hosts alone.
enum class Against : uint8_t {
    kAlike,       // those that do the same
    kOwnHost,     // those on its host that do the same; where they are too few, those on all hosts
    kOtherHosts,  // those on other hosts that do the same; where there are none, the hosts of all ranks
};

class Peers {
  public:
    static constexpr size_t kLeastOnHost = 3;  // that do the same, the rank itself included

    Peers(const CauseSearch& search, Against against);

    // By how much each rank has more than the middle of its peers, step by step; one without peers, than its own usual.
    RankSteps excess_of(const RankSteps& values) const;
    // Its host alone could be compared: nobody on another host does its work.
    bool is_of_host_alone(size_t rank) const { return peers_[peers_of_[rank]].empty(); }

  private:
    using Ranks = std::vector<size_t>;  // that others are compared with; none: all are
    std::vector<double> usual_of(const RankSteps& values, size_t peers) const;  // by step

    std::vector<Ranks> peers_;
    std::vector<size_t> peers_of_;  // by rank: index in peers_, which many ranks share
};

}  // namespace titan::analyzer
