// Late ranks, what that costs, since when and why.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clocks.h"
#include "run.h"

namespace titan::analyzer {

enum class LatePattern : uint8_t { kNone, kPersistent, kPeriodic, kIrregular, kOneOff };

// The times of the steps (or of sampled calls, where the program marks no steps) that something was seen in.
struct TimeAxis {
    bool steps = true;            // false: the numbers are sequence numbers of a communicator
    std::vector<int64_t> keys;    // sorted
    std::vector<double> when_ns;  // time on the reference clock
    double length_ns = 0;         // median length of one key
    double long_ns = 0;  // calls: the longest tenth at least, because several may follow each other in one step

    double seen_ns() const { return when_ns.size() < 2 ? 0 : when_ns.back() - when_ns.front(); }
};

// The shape of a series of costs.
struct LateShape {
    LatePattern pattern = LatePattern::kNone;
    size_t first = 0;  // index of the key where it begins
    size_t last = 0;
    size_t every = 0;       // periodic: in keys
    size_t hits = 0;        // keys that it struck
    double cost_ns = 0;     // their total cost
    double typical_ns = 0;  // the median of them
};

inline constexpr std::string_view kSpanPart = "span ";  // with its name behind: a slow part that is a span

// A function that the samples of ranks show more often than those of their peers.
struct SampledExcess {
    std::vector<int> ranks;
    std::string thread;  // "pt_autograd"; empty: the main thread
    std::string frame;   // "load at data.py:88"
    size_t samples = 0;
    size_t of = 0;
    size_t peers_samples = 0;
    size_t peers_of = 0;
};

// One rank's lateness.
struct RankTiming {
    int rank = -1;
    uint32_t process = kNoIndex;
    uint32_t communicator = kNoIndex;  // communicator where the job waits for it most
    uint32_t axis = 0;                 // index into Timing::axes
    OpKind op{};
    size_t compared_calls = 0;
    bool by_device = false;
    bool held = false;     // its lateness is another rank's, for which it waits elsewhere
    double lost_ns = 0;    // time that others waited for this rank alone
    double noise_ns = 0;   // smaller values tell nothing
    double others_ns = 0;  // lateness of other ranks in their worst tenth of steps
    LateShape shape;
    std::vector<double> costs;       // index: key of the axis
    std::vector<double> host_costs;  // the part of it that its host was late with the call
    std::string slow_part;           // "span data", empty: nothing tells
    std::vector<std::string> why;    // evidence for it
    std::string calls;               // whether its program makes them late; a cause that was played knows better
    std::optional<SampledExcess> sampled;
};

struct Timing {
    Clocks clocks;
    std::vector<TimeAxis> axes;     // [0] is that of the steps
    std::vector<RankTiming> ranks;  // sorted by rank
};

Timing analyze_timing(const Run& run);

// The parts of it, one after another. The lateness of each rank against its peers in the collectives that they share:
// axes and ranks, but for shapes and parts.
void find_lateness(const Run& run, Timing& timing);
// The shape of each rank's costs.
void classify(Timing& timing);
// The part of its step that makes a rank late; only of ranks with a pattern, like the following.
void find_slow_parts(const Run& run, Timing& timing);
// Adds what their sampled stacks tell.
void find_sampled_parts(const Run& run, Timing& timing);

inline bool any_late(const Timing& timing) {
    return std::any_of(timing.ranks.begin(), timing.ranks.end(),
                       [](const RankTiming& rank) { return rank.shape.pattern != LatePattern::kNone; });
}

}  // namespace titan::analyzer
