// The clocks of the hosts beside each other (align_clocks.h says how): one time for all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace titan::analyzer {

// A stretch in which a host's clock ran evenly. Own times from `from_ns` on, until the next stretch.
struct ClockStretch {
    int64_t from_ns = 0;
    int64_t at_ns = 0;         // own time where the offset holds
    double offset_ns = 0;      // own time minus common time
    double drift = 0;          // change of the offset per time
    bool drift_known = false;  // it makes more of a difference than the bound
    double bound_ns = 0;       // largest error of a common time inside of what was observed
};

// All processes of a host share its clock.
struct HostClock {
    std::string host;
    bool aligned = false;  // false: its times are used as they are
    std::vector<ClockStretch> stretches;
    uint32_t observations = 0;
    bool jumps() const { return stretches.size() > 1; }
    double bound_ns() const;  // the worst of its stretches
};

class Clocks {
  public:
    std::vector<HostClock> hosts;   // the reference first
    std::vector<uint32_t> host_of;  // index: process

    // 0 stays 0. Any-thread.
    int64_t common_ns(uint32_t process, int64_t realtime_ns) const;
    bool aligned(uint32_t process) const { return hosts[host_of[process]].aligned; }
    // Error bound of the comparison with the reference; 0 for the reference itself.
    double bound_ns(uint32_t process) const;
    double largest_bound_ns() const;
    double largest_drift() const;  // absolute, of those that are known
    size_t aligned_hosts() const;
    size_t jumping_hosts() const;
    // "clocks of 12 hosts aligned to 40 us, drift up to 3 ppm"; empty with one host.
    std::string summary() const;
};

}  // namespace titan::analyzer
