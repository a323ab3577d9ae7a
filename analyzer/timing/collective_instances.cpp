#include "collective_instances.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

// Members without the call have no record of that time; with more than a few of them an instance tells little.
size_t least_participants(const Communicator& communicator) {
    return std::max<size_t>(2, (communicator.members.size() * 3 + 3) / 4);
}

std::vector<uint64_t> common_sequences(const Run& run, const Communicator& communicator, size_t most) {
    std::vector<uint64_t> all;
    for (const MemberRef ref : communicator.members) {
        for (const Arrival& arrival : run.member(ref).arrivals) {
            all.push_back(arrival.sequence);
        }
    }
    std::sort(all.begin(), all.end());
    std::vector<uint64_t> common;
    const size_t wanted = least_participants(communicator);
    for (size_t i = 0; i < all.size();) {
        const auto end = static_cast<size_t>(
            std::upper_bound(all.begin() + static_cast<std::ptrdiff_t>(i), all.end(), all[i]) - all.begin());
        if (end - i >= wanted) {
            common.push_back(all[i]);
        }
        i = end;
    }
    thin(common, most);
    return common;
}

// Participants that disagree on what the call is are a finding of another kind.
bool complete(CollectiveInstance& instance) {
    const Arrival& first = *instance.participants.front().arrival;
    instance.kind = first.kind;
    instance.step = first.step;
    instance.on_device = instance.ended = true;
    for (const Participant& participant : instance.participants) {
        const Arrival& arrival = *participant.arrival;
        if (arrival.kind != instance.kind) {
            return false;
        }
        instance.on_device &= arrival.started_ns > 0;
        instance.ended &= arrival.ended_ns >= arrival.arrived_ns() && arrival.ended_ns >= arrival.entered_ns;
    }
    return is_barrier_like(instance.kind);
}

}  // namespace

std::vector<CollectiveInstance> instances_of(const Run& run, const Communicator& communicator, size_t most) {
    std::vector<CollectiveInstance> instances;
    if (communicator.members.size() < 2) {
        return instances;
    }
    const std::vector<uint64_t> sequences = common_sequences(run, communicator, most);
    std::vector<size_t> cursors(communicator.members.size(), 0);
    std::vector<const Arrival*> before(communicator.members.size(), nullptr);
    instances.reserve(sequences.size());
    for (const uint64_t sequence : sequences) {
        CollectiveInstance instance;
        instance.sequence = sequence;
        instance.participants.reserve(communicator.members.size());
        for (size_t m = 0; m < communicator.members.size(); ++m) {
            const std::vector<Arrival>& arrivals = run.member(communicator.members[m]).arrivals;
            while (cursors[m] < arrivals.size() && arrivals[cursors[m]].sequence < sequence) {
                ++cursors[m];
            }
            if (cursors[m] < arrivals.size() && arrivals[cursors[m]].sequence == sequence) {
                instance.participants.push_back({communicator.members[m], &arrivals[cursors[m]], before[m]});
                before[m] = &arrivals[cursors[m]];
            } else {
                before[m] = nullptr;
            }
        }
        // Arrivals out of order, which only damage makes, are not found again.
        if (instance.participants.size() >= least_participants(communicator) && complete(instance)) {
            instances.push_back(std::move(instance));
        }
    }
    return instances;
}

int64_t resolution_ns(const Process& process) {
    switch (process.gpu_method) {
        case format::GpuProgressMethod::kTiming: return 100'000;
        case format::GpuProgressMethod::kOff: return 50'000;
        default: return 2'000'000;  // somebody looks every 2 ms while anything is outstanding
    }
}

int64_t transfer_ns(const CollectiveInstance& instance) {
    if (!instance.ended) {
        return 0;
    }
    int64_t least = INT64_MAX;
    for (const Participant& participant : instance.participants) {
        least = std::min(least, participant.arrival->ended_ns - participant.arrival->arrived_ns());
    }
    return least;
}

}  // namespace titan::analyzer
