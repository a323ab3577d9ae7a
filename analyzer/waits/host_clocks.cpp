#include "host_clocks.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

struct ClockComparison {
    int64_t ahead_ns = 0;
    int64_t place = -1;  // in the history of the first process: the newest counts
};

// All leave a collective nearly together; where the ends are unknown, the calls have to do.
std::optional<int64_t> ahead_in(const Arrival& own, const Arrival& other) {
    if (own.ended_ns != 0 && other.ended_ns != 0) {
        return other.ended_ns - own.ended_ns;
    }
    return own.entered_ns == 0 || other.entered_ns == 0 ? std::nullopt
                                                        : std::optional(other.entered_ns - own.entered_ns);
}

std::optional<ClockComparison> compare_creations(const Member& own, const Member& other) {
    const bool known = own.ready_ns != 0 && other.ready_ns != 0;
    return known ? std::optional(ClockComparison{other.ready_ns - own.ready_ns}) : std::nullopt;
}

// By their newest common collective that nobody leaves before all have come.
std::optional<ClockComparison> compare_calls(const Member& own, const Member& other) {
    for (size_t i = own.arrivals.size(); i-- > 0;) {
        const Arrival& arrival = own.arrivals[i];
        if (format::class_of(arrival.kind) != format::OpClass::collective) {
            continue;
        }
        const auto same =
            std::lower_bound(other.arrivals.begin(), other.arrivals.end(), arrival.sequence,
                             [](const Arrival& one, uint64_t sequence) { return one.sequence < sequence; });
        const bool met = same != other.arrivals.end() && same->sequence == arrival.sequence;
        const std::optional<int64_t> ahead_ns = met ? ahead_in(arrival, *same) : std::nullopt;
        if (ahead_ns) {
            const auto place = own.call_log.find(arrival.sequence);
            return ClockComparison{*ahead_ns, place ? int64_t{*place} : 0};
        }
    }
    return compare_creations(own, other);
}

}  // namespace

std::optional<int64_t> clock_ahead_ns(const Run& run, uint32_t process, uint32_t other) {
    const Process& own = run.processes[process];
    const Process& second = run.processes[other];
    if (own.host == second.host && own.boot_id == second.boot_id) {
        return 0;
    }
    std::optional<ClockComparison> newest;
    for (const Member& member : own.members) {
        const auto same = std::ranges::find_if(second.members, [&](const Member& candidate) {
            return member.communicator != kNoIndex && candidate.communicator == member.communicator;
        });
        const auto comparison = same == second.members.end() ? std::nullopt : compare_calls(member, *same);
        newest = comparison && (!newest || newest->place < comparison->place) ? comparison : newest;
    }
    return newest ? std::optional(newest->ahead_ns) : std::nullopt;
}

}  // namespace titan::analyzer
