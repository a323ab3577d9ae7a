// The sampled calls of a communicator, put side by side: one instance per call that nearly all known members came to.
#pragma once

#include <cstdint>
#include <vector>

#include "run.h"

namespace titan::analyzer {

struct Participant {
    MemberRef member;
    const Arrival* arrival = nullptr;
    const Arrival* before = nullptr;  // the same member's in the instance before; null where it has none
};

struct CollectiveInstance {
    uint64_t sequence = 0;
    int32_t step = -1;
    OpKind kind{};
    bool on_device = false;  // every participant has a start on the GPU
    bool ended = false;      // every participant has an end, not before its arrival
    std::vector<Participant> participants;

    int64_t key() const { return step >= 0 ? step : static_cast<int64_t>(sequence); }
};

// No member leaves such a collective before the last one came to it.
constexpr bool is_barrier_like(OpKind kind) { return format::class_of(kind) == format::OpClass::collective; }

// Barrier-like ones of one communicator, by sequence number, evenly thinned to `most` or so. They point into the run.
std::vector<CollectiveInstance> instances_of(const Run& run, const Communicator& communicator, size_t most = SIZE_MAX);

// Leaves every n-th of them, so that there are `most` at most.
template <typename Value>
void thin(std::vector<Value>& values, size_t most) {
    const size_t every = values.size() <= most ? 1 : (values.size() + most - 1) / most;
    for (size_t i = 1; i * every < values.size(); ++i) {
        values[i] = values[i * every];
    }
    values.resize((values.size() + every - 1) / every);
}

// How late the times of a process's device may be: methods that poll see an event only at their next look.
int64_t resolution_ns(const Process& process);
// Time that the last member to come spent in the instance: the collective's own. 0 where ends are unknown.
int64_t transfer_ns(const CollectiveInstance& instance);

}  // namespace titan::analyzer
