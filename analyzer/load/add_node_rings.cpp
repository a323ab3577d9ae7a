#include "add_node_rings.h"

#include <algorithm>

#include "before_abort.h"
#include "choose_role.h"
#include "condense.h"
#include "decode_process.h"
#include "load_rank.h"
#include "named_stacks.h"
#include "rings.h"
#include "thread_position.h"

namespace titan::analyzer {
namespace {

int64_t first_abort_of(const std::vector<Process>& processes) {
    int64_t first_ns = 0;
    for (const Process& process : processes) {
        first_ns = earlier_abort_ns(first_ns, first_abort_ns(process));
    }
    return first_ns;
}

}  // namespace

void add_node_rings(const std::optional<RunKey>& key, std::vector<Process>& processes, const LoadOptions& options) {
    if (options.ring_directories.empty() || !key) {
        return;
    }
    constexpr int64_t kLaterNs = 2'000'000'000;
    const int64_t started_ns = start_of(processes);
    ImageBuffer memory;
    Symbols symbols(Symbols::Search::kNearby);
    for (const NodeRing& ring : list_rings(options.ring_directories)) {
        const bool of_attempt = ring.attempt == key->second || (!options.attempt && started_ns != INT64_MAX);
        if (!ring.problem.empty() || ring.run != key->first || !of_attempt ||
            (started_ns != INT64_MAX && ring.newest_ns < started_ns)) {
            continue;
        }
        // Its own dump, else one of its rank.
        auto same = std::find_if(processes.begin(), processes.end(), [&](const Process& process) {
            return process.pid == ring.pid && (ring.rank < 0 || process.rank == ring.rank);
        });
        if (same == processes.end() && ring.rank >= 0) {
            same = std::find_if(processes.begin(), processes.end(),
                                [&](const Process& process) { return process.rank == ring.rank; });
        }
        // A ring has all that its journal has, and calls.
        const bool is_journaled = same != processes.end() && same->source.is_journal && ring.pid == same->pid;
        const bool died_later = same != processes.end() && ring.liveness != Liveness::kAlive &&
                                same->liveness == Liveness::kAlive && ring.newest_ns > same->now_ns + kLaterNs;
        const bool is_other = same != processes.end() && ring.pid != same->pid;
        if (same != processes.end() && !died_later && !is_other && !is_journaled) {
            continue;
        }
        const Result<OpenedSource> opened = open_source(ring.path, memory);
        if (!opened ||
            (!options.only_host.empty() && format::fixed_text(opened->image.header().host) != options.only_host)) {
            continue;  // containers of one node share directories, and have names of their own
        }
        Process process = decode_process(*opened, &symbols);
        condense(process);
        const bool is_beside = is_other && std::all_of(processes.begin(), processes.end(), [&](const Process& other) {
                                   return other.rank != process.rank || live_beside(process, other);
                               });
        if (is_journaled && is_of(*opened, *same)) {
            *same = std::move(process);
            continue;
        }
        if (same != processes.end() && !died_later && !is_beside) {
            continue;
        }
        const int64_t abort_ns =
            died_later && is_of(*opened, *same) ? aftermath_since_ns(process, first_abort_of(processes)) : 0;
        if (abort_ns != 0 && is_before_abort(*same, process) && same->now_ns >= still_since_ns(*opened, abort_ns)) {
            hold_until_abort(*same, process, abort_ns);
        } else if (died_later && !is_beside) {
            keep_positions(*same, process);
            process.source.reason = same->source.reason;
            process.source.replaced_ns = same->now_ns;
            *same = std::move(process);
        } else {
            processes.push_back(std::move(process));
        }
    }
}

}  // namespace titan::analyzer
