#include "out_of_memory.h"

#include <cstdlib>

#include "health_of.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

// A neighbour reads the counter every ten seconds or so (TITANTRACE_HEALTH_S), and notices as much later.
constexpr int64_t kAtThatTimeNs = 60'000'000'000;

// "40 s before the record of rank 3 ends".
Sentence when(const Process& process, int64_t at_ns) {
    const int64_t before_ns = process.now_ns - at_ns;
    return phrase("{} {} the record of {} ends", duration_fact(std::abs(before_ns)),
                  before_ns >= 0 ? "before" : "after", rank_fact(process.rank));
}

void tell_of_own_group(const Process& process, const OomKills& kills, Finding& finding) {
    finding.evidence.push_back(phrase("the OOM killer has killed {} in the control group of {}{} {}",
                                      counted(kills.count, "process"), rank_fact(process.rank),
                                      kills.count == 1 ? "," : ", the last", when(process, kills.last_ns)));
}

// The process killed on the host whose end is nearest to the rank's.
void tell_of_neighbours(const Run& run, const Process& gone, Finding& finding) {
    const Process* nearest = nullptr;
    OomKills its;
    for (const Process& process : run.processes) {
        const OomKills kills = process.host == gone.host ? oom_kills_of(process) : OomKills{};
        const int64_t distance_ns = std::abs(kills.last_ns - gone.now_ns);
        if (kills.count != 0 && distance_ns <= kAtThatTimeNs &&
            (nearest == nullptr || distance_ns < std::abs(its.last_ns - gone.now_ns))) {
            nearest = &process;
            its = kills;
        }
    }
    if (nearest != nullptr) {
        finding.evidence.push_back(phrase("the OOM killer killed {} in the control group of {} on the same host, {}",
                                          its.count == 1 ? "a process" : "processes", rank_fact(nearest->rank),
                                          when(gone, its.last_ns)));
    }
}

}  // namespace

void tell_out_of_memory(const Run& run, const Process& process, Finding& finding) {
    if (const OomKills kills = oom_kills_of(process); kills.count != 0) {
        tell_of_own_group(process, kills, finding);
    } else if (process.out_of_memory_kills != 0) {
        finding.evidence.push_back(
            phrase("the OOM killer has killed {} in the control group of {} since the rank started",
                   counted(process.out_of_memory_kills, "process"), rank_fact(process.rank)));
    } else if (process.is_gone()) {
        tell_of_neighbours(run, process, finding);
    }
}

}  // namespace titan::analyzer
