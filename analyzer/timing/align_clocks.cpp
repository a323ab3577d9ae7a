#include "align_clocks.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <unordered_map>

#include "rounds.h"

namespace titan::analyzer {
namespace {

constexpr size_t kMaxSamples = 2048;  // of a pair of hosts

void group_by_host(const Run& run, Clocks& clocks) {
    std::map<std::pair<std::string, std::string>, uint32_t> numbers;
    for (const Process& process : run.processes) {
        const auto [found, fresh] =
            numbers.try_emplace({process.host, process.boot_id}, static_cast<uint32_t>(clocks.hosts.size()));
        if (fresh) {
            clocks.hosts.emplace_back();
            clocks.hosts.back().host = process.host.empty() ? "(unnamed host)" : process.host;
        }
        clocks.host_of.push_back(found->second);
    }
}

// What one host saw of a round.
struct Sight {
    uint32_t host = 0;
    int64_t arrived_ns = std::numeric_limits<int64_t>::min();  // the last of its ranks, or before that
    int64_t first_end_ns = std::numeric_limits<int64_t>::max();
};

std::vector<Sight> sights_of(const Run& run, const Clocks& clocks, const Round& round) {
    std::vector<Sight> sights;
    std::unordered_map<uint32_t, size_t> place;
    for (const Seat& seat : round.seats) {
        const uint32_t host = clocks.host_of[seat.member.process];
        const auto [found, fresh] = place.try_emplace(host, sights.size());
        if (fresh) {
            sights.push_back(Sight{host});
        }
        Sight* const sight = &sights[found->second];
        // A start is seen late by up to the resolution, an entry is exact; both are before the true arrival then.
        const int64_t started_ns = seat.arrival->started_ns - resolution_ns(run.process(seat.member));
        sight->arrived_ns = std::max({sight->arrived_ns, seat.arrival->entered_ns, started_ns});
        sight->first_end_ns = std::min(sight->first_end_ns, seat.arrival->ended_ns);
    }
    return sights;
}

double end_resolution(const Run& run, const Round& round) {
    int64_t worst = 0;
    for (const Seat& seat : round.seats) {
        worst = std::max(worst, resolution_ns(run.process(seat.member)));
    }
    return static_cast<double>(worst);
}

// Comparisons of pairs of hosts. In each communicator all hosts are compared with its first one: all pairs would be too
// many.
using Pair = std::pair<uint32_t, uint32_t>;
using Samples = std::map<Pair, std::vector<ClockSample>>;

void compare(const Run& run, const Clocks& clocks, const Round& round, Samples& samples) {
    const std::vector<Sight> sights = sights_of(run, clocks, round);
    if (sights.size() < 2) {
        return;
    }
    const Sight& base =
        *std::min_element(sights.begin(), sights.end(), [](const Sight& a, const Sight& b) { return a.host < b.host; });
    const double end_error_ns = static_cast<double>(transfer_ns(round)) + end_resolution(run, round) / 2;
    for (const Sight& sight : sights) {
        if (sight.host == base.host) {
            continue;
        }
        ClockSample sample;
        sample.at_ns = sight.first_end_ns;
        sample.order_ns = base.first_end_ns;
        sample.least_ns = static_cast<double>(sight.arrived_ns) - static_cast<double>(base.first_end_ns);
        sample.most_ns = static_cast<double>(sight.first_end_ns) - static_cast<double>(base.arrived_ns);
        sample.likely_ns = static_cast<double>(sight.first_end_ns) - static_cast<double>(base.first_end_ns);
        sample.likely_error_ns = end_error_ns;
        samples[{base.host, sight.host}].push_back(sample);
    }
}

// All members of a communicator are inside its creation at the same time.
void compare_creations(const Run& run, const Clocks& clocks, const Communicator& communicator, Samples& samples) {
    if (communicator.origin != OpKind::kCommInit || communicator.members.size() < 2) {
        return;
    }
    std::map<uint32_t, Sight> sights;
    for (const MemberRef ref : communicator.members) {
        const Member& member = run.member(ref);
        if (member.created_ns <= 0 || member.ready_ns <= member.created_ns || member.create_result != 0) {
            continue;
        }
        const uint32_t host = clocks.host_of[ref.process];
        Sight& sight = sights.try_emplace(host, Sight{host}).first->second;
        sight.arrived_ns = std::max(sight.arrived_ns, member.created_ns);
        sight.first_end_ns = std::min(sight.first_end_ns, member.ready_ns);
    }
    if (sights.size() < 2) {
        return;
    }
    const Sight& base = sights.begin()->second;
    for (auto i = std::next(sights.begin()); i != sights.end(); ++i) {
        const Sight& sight = i->second;
        ClockSample sample;
        sample.at_ns = sight.first_end_ns;
        sample.order_ns = base.first_end_ns;
        sample.least_ns = static_cast<double>(sight.arrived_ns) - static_cast<double>(base.first_end_ns);
        sample.most_ns = static_cast<double>(sight.first_end_ns) - static_cast<double>(base.arrived_ns);
        sample.likely_ns = static_cast<double>(sight.first_end_ns) - static_cast<double>(base.first_end_ns);
        sample.likely_error_ns = (sample.most_ns - sample.least_ns) / 2;
        samples[{base.host, sight.host}].push_back(sample);
    }
}

void thin(std::vector<ClockSample>& samples) {
    const size_t every = (samples.size() + kMaxSamples - 1) / kMaxSamples;
    if (every > 1) {
        std::vector<ClockSample> kept;
        for (size_t i = 0; i < samples.size(); i += every) {
            kept.push_back(samples[i]);
        }
        samples = std::move(kept);
    }
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

// What the same comparison says the other way round.
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
    std::vector<ClockStretch> stretches;  // of the other against this one
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
    // Where only durations are known, ends are no moments of the device.
    if (clocks.hosts.size() == 1 || !run.processes.front().sees.moments) {
        return clocks;
    }
    Samples samples;
    for (const Communicator& communicator : run.communicators) {
        compare_creations(run, clocks, communicator, samples);
        for (const Round& round : rounds_of(run, communicator)) {
            if (round.ended) {
                compare(run, clocks, round, samples);
            }
        }
    }
    std::vector<std::vector<Link>> links(clocks.hosts.size());
    for (auto& [pair, of_pair] : samples) {
        const auto observations = static_cast<uint32_t>(of_pair.size());
        thin(of_pair);
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
