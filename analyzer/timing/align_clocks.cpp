#include "align_clocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "collective_instances.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMaxSamples = 2048;  // for each pair of hosts

void group_by_host(const Run& run, Clocks& clocks) {
    std::map<std::pair<std::string, std::string>, uint32_t> numbers;
    for (const Process& process : run.processes) {
        const auto [found, inserted] =
            numbers.try_emplace({process.host, process.boot_id}, static_cast<uint32_t>(clocks.hosts.size()));
        if (inserted) {
            clocks.hosts.emplace_back();
            clocks.hosts.back().host = process.host.empty() ? "(unnamed host)" : process.host;
        }
        clocks.host_of.push_back(found->second);
    }
}

// Times that one host saw of an instance.
struct HostObservation {
    int64_t arrived_ns = std::numeric_limits<int64_t>::min();  // the last of its ranks, or before that
    int64_t first_end_ns = std::numeric_limits<int64_t>::max();

    void add(int64_t rank_arrived_ns, int64_t rank_ended_ns) {
        arrived_ns = std::max(arrived_ns, rank_arrived_ns);
        first_end_ns = std::min(first_end_ns, rank_ended_ns);
    }
};
using HostObservations = std::map<uint32_t, HostObservation>;  // by host

// Comparisons of pairs of hosts. In each communicator all hosts are compared with its first one: all pairs would be too
// many.
using Pair = std::pair<uint32_t, uint32_t>;
using Samples = std::map<Pair, std::vector<ClockSample>>;

// `error_ns`: how far the first ends of two hosts may lie apart; none: half of what the limits leave open.
void add_samples(const HostObservations& observations, std::optional<double> error_ns, Samples& samples) {
    for (const auto& [host, observation] : observations) {
        const auto& [first, base] = *observations.begin();
        if (host == first) {
            continue;
        }
        ClockSample sample;
        sample.at_ns = observation.first_end_ns;
        sample.order_ns = base.first_end_ns;
        sample.least_ns = static_cast<double>(observation.arrived_ns) - static_cast<double>(base.first_end_ns);
        sample.most_ns = static_cast<double>(observation.first_end_ns) - static_cast<double>(base.arrived_ns);
        sample.likely_ns = static_cast<double>(observation.first_end_ns) - static_cast<double>(base.first_end_ns);
        sample.likely_error_ns = error_ns.value_or((sample.most_ns - sample.least_ns) / 2);
        samples[{first, host}].push_back(sample);
    }
}

void compare(const Run& run, const Clocks& clocks, const CollectiveInstance& instance, Samples& samples) {
    HostObservations observations;
    int64_t worst_ns = 0;
    for (const Participant& participant : instance.participants) {
        const Arrival& arrival = *participant.arrival;
        // A start is seen late by up to the resolution, an entry is exact; both are before the true arrival then.
        const int64_t known_ns = resolution_ns(run.process(participant.member));
        observations[clocks.host_of[participant.member.process]].add(
            std::max(arrival.entered_ns, arrival.started_ns - known_ns), arrival.ended_ns);
        worst_ns = std::max(worst_ns, known_ns);
    }
    add_samples(observations, static_cast<double>(transfer_ns(instance)) + static_cast<double>(worst_ns) / 2, samples);
}

// All members of a communicator are inside its creation at the same time.
void compare_creations(const Run& run, const Clocks& clocks, const Communicator& communicator, Samples& samples) {
    if (communicator.origin != OpKind::kCommInit) {
        return;
    }
    HostObservations observations;
    for (const MemberRef ref : communicator.members) {
        const Member& member = run.member(ref);
        if (member.created_ns > 0 && member.ready_ns > member.created_ns && member.create_result == 0) {
            observations[clocks.host_of[ref.process]].add(member.created_ns, member.ready_ns);
        }
    }
    add_samples(observations, std::nullopt, samples);
}

// The clock of `to` behind the clock of `from`, which is known: offsets, drifts and errors add up. A stretch of one may
// meet several of the other; the one at its beginning counts for all of it, and its bound is the worst of them.
std::vector<ClockStretch> chain(const std::vector<ClockStretch>& from, std::vector<ClockStretch> to) {
    for (ClockStretch& stretch : to) {
        const ClockStretch* base = &from.front();
        double worst = 0;
        for (const ClockStretch& candidate : from) {
            worst = std::max(worst, candidate.bound_ns);
            const double there = static_cast<double>(stretch.from_ns) - stretch.offset_ns;
            base = static_cast<double>(candidate.from_ns) <= there ? &candidate : base;
        }
        const double own = static_cast<double>(stretch.at_ns - base->at_ns) - stretch.offset_ns;
        stretch.offset_ns += base->offset_ns + base->drift * own;
        stretch.drift += base->drift;
        stretch.drift_known |= base->drift_known;
        stretch.bound_ns += worst;
    }
    return to;
}

// The same comparison seen from the other host.
std::vector<ClockStretch> reversed(std::vector<ClockStretch> stretches) {
    for (ClockStretch& stretch : stretches) {
        const auto shift = static_cast<int64_t>(stretch.offset_ns);
        stretch.from_ns -= shift;
        stretch.at_ns -= shift;
        stretch.offset_ns = -stretch.offset_ns;
        stretch.drift = -stretch.drift;
    }
    return stretches;
}

struct Link {
    uint32_t other;
    std::vector<ClockStretch> stretches;  // clock of the other host against this one
    uint32_t observations;
    double bound_ns() const {
        double worst = 0;
        for (const ClockStretch& stretch : stretches) {
            worst = std::max(worst, stretch.bound_ns);
        }
        return worst;
    }
};

// Shortest paths from the reference, by the sum of the bounds: Dijkstra's algorithm over few nodes with few links each.
void walk(const std::vector<std::vector<Link>>& links, Clocks& clocks) {
    std::vector<double> distance(clocks.hosts.size(), INFINITY);
    std::multimap<double, uint32_t> open{{0.0, 0U}};
    std::vector<bool> done(clocks.hosts.size(), false);
    distance[0] = 0;
    while (!open.empty()) {
        const uint32_t host = open.begin()->second;
        open.erase(open.begin());
        if (done[host]) {
            continue;
        }
        done[host] = true;
        for (const Link& link : links[host]) {
            const double bound = distance[host] + link.bound_ns();
            if (bound < distance[link.other]) {
                distance[link.other] = bound;
                HostClock& clock = clocks.hosts[link.other];
                clock.aligned = true;
                clock.observations = link.observations;
                clock.stretches = chain(clocks.hosts[host].stretches, link.stretches);
                open.emplace(bound, link.other);
            }
        }
    }
}

}  // namespace

Clocks align_clocks(const Run& run) {
    Clocks clocks;
    group_by_host(run, clocks);
    if (clocks.hosts.empty()) {
        return clocks;
    }
    clocks.hosts.front().aligned = true;
    clocks.hosts.front().stretches.emplace_back();
    // If only durations are known, ends are no moments of the device.
    if (clocks.hosts.size() == 1 || !run.processes.front().sees.moments) {
        return clocks;
    }
    Samples samples;
    for (const Communicator& communicator : run.communicators) {
        compare_creations(run, clocks, communicator, samples);
        for (const CollectiveInstance& instance : instances_of(run, communicator)) {
            if (instance.ended) {
                compare(run, clocks, instance, samples);
            }
        }
    }
    std::vector<std::vector<Link>> links(clocks.hosts.size());
    for (auto& [pair, of_pair] : samples) {
        const auto observations = static_cast<uint32_t>(of_pair.size());
        thin(of_pair, kMaxSamples);
        std::vector<ClockStretch> stretches = fit_clock(std::move(of_pair));
        if (!stretches.empty()) {
            links[pair.second].push_back({pair.first, reversed(stretches), observations});
            links[pair.first].push_back({pair.second, std::move(stretches), observations});
        }
    }
    walk(links, clocks);
    return clocks;
}

}  // namespace titan::analyzer
