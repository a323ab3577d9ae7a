#include "rounds.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

// Members without the call have no record of that time; with more than a few of them a round tells little.
size_t least_seats(const Communicator& communicator) {
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
    const size_t wanted = least_seats(communicator);
    for (size_t i = 0; i < all.size();) {
        const auto end = static_cast<size_t>(
            std::upper_bound(all.begin() + static_cast<std::ptrdiff_t>(i), all.end(), all[i]) - all.begin());
        if (end - i >= wanted) {
            common.push_back(all[i]);
        }
        i = end;
    }
    const size_t every = most >= common.size() ? 1 : (common.size() + most - 1) / most;
    for (size_t i = 0; every > 1 && i * every < common.size(); ++i) {
        common[i] = common[i * every];
    }
    common.resize(every > 1 ? (common.size() + every - 1) / every : common.size());
    return common;
}

// Seats that disagree on what the call is are a finding of another kind.
bool complete(Round& round) {
    const Arrival& first = *round.seats.front().arrival;
    round.kind = first.kind;
    round.step = first.step;
    round.on_device = round.ended = true;
    for (const Seat& seat : round.seats) {
        const Arrival& arrival = *seat.arrival;
        if (arrival.kind != round.kind) {
            return false;
        }
        round.bytes = std::max(round.bytes, arrival.bytes);
        round.on_device &= arrival.started_ns > 0;
        round.ended &= arrival.ended_ns >= arrival.arrived_ns() && arrival.ended_ns >= arrival.entered_ns;
    }
    return is_barrier_like(round.kind);
}

}  // namespace

std::vector<Round> rounds_of(const Run& run, const Communicator& communicator, size_t most) {
    std::vector<Round> rounds;
    if (communicator.members.size() < 2) {
        return rounds;
    }
    const std::vector<uint64_t> sequences = common_sequences(run, communicator, most);
    std::vector<size_t> cursors(communicator.members.size(), 0);
    std::vector<const Arrival*> before(communicator.members.size(), nullptr);
    rounds.reserve(sequences.size());
    for (const uint64_t sequence : sequences) {
        Round round;
        round.sequence = sequence;
        for (size_t m = 0; m < communicator.members.size(); ++m) {
            const std::vector<Arrival>& arrivals = run.member(communicator.members[m]).arrivals;
            while (cursors[m] < arrivals.size() && arrivals[cursors[m]].sequence < sequence) {
                ++cursors[m];
            }
            if (cursors[m] < arrivals.size() && arrivals[cursors[m]].sequence == sequence) {
                round.seats.push_back({communicator.members[m], &arrivals[cursors[m]], before[m]});
                before[m] = &arrivals[cursors[m]];
            } else {
                before[m] = nullptr;
            }
        }
        // Arrivals out of order, which only damage makes, are not found again.
        if (round.seats.size() >= least_seats(communicator) && complete(round)) {
            rounds.push_back(std::move(round));
        }
    }
    return rounds;
}

int64_t resolution_ns(const Process& process) {
    switch (process.gpu_method) {
        case format::GpuProgressMethod::kTiming: return 100'000;
        case format::GpuProgressMethod::kOff: return 50'000;
        default: return 2'000'000;  // somebody looks every 2 ms while anything is outstanding
    }
}

int64_t transfer_ns(const Round& round) {
    if (!round.ended) {
        return 0;
    }
    int64_t least = INT64_MAX;
    for (const Seat& seat : round.seats) {
        least = std::min(least, seat.arrival->ended_ns - seat.arrival->arrived_ns());
    }
    return least;
}

}  // namespace titan::analyzer
