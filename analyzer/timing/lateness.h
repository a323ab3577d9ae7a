// The lateness of each rank against its peers in the collectives that they share.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "timing.h"

namespace titan::analyzer {

struct CollectiveInstance;

// What others waited for a rank in one communicator, in the steps or calls of that key.
struct LateCost {
    int64_t key = 0;
    double ns = 0;
    double host_ns = 0;  // the host's part
};

struct MemberLateness {
    int rank = -1;
    uint32_t process = kNoIndex;
    OpKind op{};
    bool by_device = true;
    double noise_ns = 0;
    double cost_ns = 0;           // sum of `costs`
    std::vector<LateCost> costs;  // sorted by key
    size_t compared_calls = 0;
};

struct CommunicatorLateness {
    bool enough = false;              // calls to compare
    bool steps = true;                // keys are steps, else sequence numbers
    std::map<int64_t, double> times;  // by key: when the first member came, on the common clock
    std::vector<MemberLateness> members;
};

// Each communicator is measured once: without some processes, only those communicators change that have them.
class Lateness {
  public:
    // Keeps references to both.
    Lateness(const Run& run, const Clocks& clocks);

    // Fills axes and ranks, but for shapes and parts. `excluded`: by process, as if its file were lost.
    void tell(Timing& timing, const std::vector<bool>& excluded = {}) const;

  private:
    enum class Base { kClock, kEnd, kOwn };
    struct Late;

    CommunicatorLateness measure(const Communicator& communicator) const;
    Base base_of(const CollectiveInstance& instance, double& noise_ns) const;
    bool place(const CollectiveInstance& instance, std::vector<Late>& lates, double& noise_ns) const;
    bool place_by_durations(const CollectiveInstance& instance, std::vector<Late>& lates) const;
    static void compare(std::vector<Late>& lates, std::vector<double>& host_late);
    void judge(const CollectiveInstance& instance, const Communicator& communicator,
               CommunicatorLateness& lateness) const;

    const Run& run_;
    const Clocks& clocks_;
    std::vector<uint32_t> roles_;
    std::vector<bool> several_;                // the process is several ranks: its time belongs to none of them
    std::vector<CommunicatorLateness> whole_;  // by communicator, with all members
};

}  // namespace titan::analyzer
