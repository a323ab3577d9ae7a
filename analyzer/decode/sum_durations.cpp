// Another recorder's durations are exact, but its moments are not: waits are computed from sums of durations.
#include <algorithm>

#include "decode_timing.h"

namespace titan::analyzer {
namespace {

bool timed(const Entry& entry) { return entry.started_ns != 0 && entry.finished_ns > entry.started_ns; }

struct RowSums {
    int64_t held_ns = 0;
    uint32_t group = 0;      // group of the newest call
    bool any_timed = false;  // Gloo records no durations: none can be missing
};

}  // namespace

void sum_durations(Process& process) {
    std::vector<RowSums> rows(process.members.size());
    for (const Entry& entry : process.entries) {
        rows[entry.row].any_timed |= timed(entry);
    }
    int64_t all_ns = 0;
    uint32_t untimed = 0;
    for (const Entry& entry : process.entries) {
        RowSums& row = rows[entry.row];
        const bool same_kernel = entry.group != 0 && entry.group == row.group;
        row.group = entry.group;
        if (!row.any_timed || same_kernel) {
            continue;
        }
        if (!timed(entry)) {
            ++untimed;
            continue;
        }
        std::vector<Arrival>& arrivals = process.members[entry.row].arrivals;
        const auto arrival =
            std::lower_bound(arrivals.begin(), arrivals.end(), entry.sequence,
                             [](const Arrival& one, uint64_t sequence) { return one.sequence < sequence; });
        const int64_t duration_ns = entry.finished_ns - entry.started_ns;
        const bool held = format::class_of(entry.kind) == format::OpClass::collective;
        row.held_ns += held ? duration_ns : 0;
        if (held && arrival != arrivals.end() && arrival->sequence == entry.sequence) {
            arrival->waited_ns = all_ns;
            arrival->held_ns = row.held_ns;
            arrival->untimed = untimed;
        }
        all_ns += duration_ns;
    }
}

}  // namespace titan::analyzer
