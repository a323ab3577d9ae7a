// No collective hangs, and some ranks wait for the others outside NCCL: in Gloo, for a key of the store, in MPI.
#include <algorithm>
#include <iterator>
#include <map>

#include "finders.h"
#include "host/words.h"
#include "host_threads.h"
#include "index_calls.h"
#include "outside_nccl.h"
#include "run_text.h"
#include "thread_position.h"
#include "unknowns.h"

namespace titan::analyzer {
namespace {

// A long checkpoint looks the same at first; this is the time after which PyTorch gives up a wait in Gloo
// (default_pg_timeout in torch/csrc/distributed/c10d).
constexpr int64_t kGlooTimeoutNs = 1'800'000'000'000;
// Where nothing says how long a wait may take: the recorder's usual timeout.
constexpr int64_t kUsualTimeoutNs = 300'000'000'000;
constexpr int64_t kShortestNs = 1'000'000'000;
// The host of a job that works calls CUDA more often than this.
constexpr int64_t kIdleNs = 5'000'000'000;
constexpr int64_t kBeyondUsual = 3;  // times the longest time between two calls on record
constexpr size_t kShownPlaces = 4;

// Where the working threads of several ranks stand.
struct Stand {
    std::string place;
    std::string_view wait;  // what they wait in, empty where they wait for nobody outside NCCL
    bool operator<(const Stand& other) const { return std::tie(wait, place) < std::tie(other.wait, other.place); }
};

using Stands = std::map<Stand, std::vector<const Process*>>;

Stands stands_of(const Run& run) {
    Stands stands;
    for (const Process& process : run.processes) {
        const ThreadPosition* const position = process.rank < 0 ? nullptr : working_position(process);
        if (position != nullptr) {
            const std::string_view wait = wait_outside_nccl(process, *position);
            stands[{wait.empty() ? place_text(process, *position) : place_in_program(process, *position), wait}]
                .push_back(&process);
        }
    }
    return stands;
}

std::vector<int> ranks_of(const std::vector<const Process*>& processes) {
    std::vector<int> ranks;
    std::ranges::transform(processes, std::back_inserter(ranks), [](const Process* process) { return process->rank; });
    sort_unique(ranks);
    return ranks;
}

int64_t idle_ns(const Process& process) {
    return process.now_ns - std::max(process.last_activity_ns(), process.started_ns);
}

// How long ranks may wait outside of NCCL before it is a hang: as asked, else nearly as long as their watchdogs allow.
int64_t may_wait_ns(const Evidence& evidence, const std::vector<const Process*>& processes) {
    if (const int64_t asked_ns = evidence.options.asked_hang_after_ns(); asked_ns != 0) {
        return asked_ns;
    }
    int64_t longest_ns = 0;
    for (const Process* process : processes) {
        longest_ns = std::max(longest_ns, process->timeout_ns == 0 ? 0 : nearly_its_timeout_ns(*process));
    }
    return longest_ns == 0 ? kUsualTimeoutNs : longest_ns;
}

Sentence stand_text(const Stand& stand, const std::vector<const Process*>& processes) {
    const std::vector<int> ranks = ranks_of(processes);
    const bool over = std::ranges::any_of(processes, [](const Process* process) { return process->is_gone(); });
    const Sentence in = over ? phrase("{} [was|were] in {}", ranks_fact(ranks), stand.place)
                             : phrase("{} [is|are] in {}", ranks_fact(ranks), stand.place);
    return stand.wait.empty() ? in : phrase("{} ({})", in, stand.wait);
}

// All wait, and not in one place: those who are not where most are; all, where no place has most.
std::vector<int> not_with_the_most(const Stands& stands) {
    size_t most = 0;
    size_t places = 0;
    for (const auto& [stand, processes] : stands) {
        places = processes.size() == most ? places + 1 : processes.size() > most ? 1 : places;
        most = std::max(most, processes.size());
    }
    std::vector<int> ranks;
    for (const auto& [stand, processes] : stands) {
        if (stands.size() > 1 && (places > 1 || processes.size() < most)) {
            const std::vector<int> here = ranks_of(processes);
            ranks.insert(ranks.end(), here.begin(), here.end());
        }
    }
    return ranks;
}

// Who waits in vain fails in the end, by a timeout. Any other death is a cause of its own.
bool any_other_died(const Run& run, const OutsideWait& wait) {
    return std::ranges::any_of(run.processes, [&](const Process& process) {
        const bool waited = std::ranges::binary_search(wait.waiting, process.rank);
        return process.died() && !(waited && process.ending.failed());
    });
}

}  // namespace

std::optional<OutsideWait> find_outside_wait(const Evidence& evidence) {
    OutsideWait found;
    found.waited_ns = INT64_MAX;
    found.is_over = true;
    std::vector<const Process*> waiting;
    const Stands stands = stands_of(evidence.run);
    size_t shown = 0;
    for (auto stand = stands.rbegin(); stand != stands.rend(); ++stand) {  // those that wait come first
        const std::vector<int> ranks = ranks_of(stand->second);
        std::vector<int>& side = stand->first.wait.empty() ? found.elsewhere : found.waiting;
        side.insert(side.end(), ranks.begin(), ranks.end());
        if (shown++ < kShownPlaces) {
            found.story += phrase("{}{}", found.story.empty() ? "" : "; ", stand_text(stand->first, stand->second));
        }
        for (const Process* process : stand->second) {
            if (stand->first.wait.empty()) {
                continue;
            }
            found.is_over &= process->is_gone() || process->ending.asked();
            found.since_ns = std::max(found.since_ns, process->now_ns - idle_ns(*process));
            found.waited_ns = std::min(found.waited_ns, idle_ns(*process));
            waiting.push_back(process);
        }
    }
    if (shown > kShownPlaces) {
        found.story += phrase("; others are in {}", counted(shown - kShownPlaces, "more place"));
    }
    found.hang_after_ns = may_wait_ns(evidence, waiting);
    // The tracer dumps such a wait whether or not it ends well. Where all ranks wait, none is left to end it.
    const auto by_itself = [](const Process& process) {
        return process.source.reason == format::DumpReason::kStandstill;
    };
    sort_unique(found.waiting);
    sort_unique(found.elsewhere);
    if (found.elsewhere.empty() && std::ssize(found.waiting) == evidence.run.world_size) {
        found.elsewhere = not_with_the_most(stands);
    } else if (evidence.options.hang_after_s <= 0 && std::ranges::any_of(evidence.run.processes, by_itself)) {
        found.hang_after_ns = std::max(found.hang_after_ns, kGlooTimeoutNs);
    }
    return found.waiting.empty() || found.elsewhere.empty() ? std::nullopt : std::optional(std::move(found));
}

std::optional<OutsideWait> find_idle_job(const Evidence& evidence) {
    OutsideWait found;
    found.waited_ns = INT64_MAX;
    std::vector<const Process*> idle;
    for (const Process& process : evidence.run.processes) {
        const ThreadState* const thread = most_informative_thread_state(process);
        if (process.liveness != Liveness::kAlive || thread == nullptr || thread->call != 0 ||
            idle_ns(process) < kIdleNs) {
            return std::nullopt;
        }
        found.since_ns = std::max(found.since_ns, process.now_ns - idle_ns(process));
        found.waited_ns = std::min(found.waited_ns, idle_ns(process));
        found.usual_ns = std::max(found.usual_ns, longest_pause_ns(process));
        idle.push_back(&process);
    }
    found.hang_after_ns = may_wait_ns(evidence, idle);
    const Stands stands = stands_of(evidence.run);
    found.elsewhere = not_with_the_most(stands);
    for (const auto& [stand, processes] : stands) {
        const std::vector<int> ranks = ranks_of(processes);
        found.waiting.insert(found.waiting.end(), ranks.begin(), ranks.end());
        found.story += phrase("{}{}", found.story.empty() ? "" : "; ", stand_text(stand, processes));
    }
    sort_unique(found.waiting);
    const bool all_known = !found.waiting.empty() && std::ssize(found.waiting) == evidence.run.world_size;
    return all_known && stands.size() <= kShownPlaces ? std::optional(std::move(found)) : std::nullopt;
}

// All ranks have called nothing for longer than the watchdog allows a call, far longer than ever before, and most of
// them stand in one place of the program: those wait for the others.
std::optional<OutsideWait> find_standstill(const Evidence& evidence) {
    std::optional<OutsideWait> idle = find_idle_job(evidence);
    const bool is_overdue = idle && idle->usual_ns > 0 && idle->waited_ns / kBeyondUsual > idle->usual_ns;
    return is_overdue && !idle->elsewhere.empty() && idle->elsewhere.size() * 2 < idle->waiting.size() ? idle
                                                                                                       : std::nullopt;
}

void find_outside_nccl(const Evidence& evidence, ToldSoFar& told) {
    if (any_hangs(told.findings)) {
        return;
    }
    std::optional<OutsideWait> wait = find_outside_wait(evidence);
    const bool is_idle = !wait;
    if (is_idle) {
        wait = find_standstill(evidence);
    }
    if (!wait || wait->waited_ns < (wait->is_over ? kShortestNs : wait->hang_after_ns) ||
        any_other_died(evidence.run, *wait)) {
        return;
    }
    for (uint32_t index = 0; index < evidence.run.processes.size(); ++index) {
        if (evidence.run.processes[index].died()) {
            told.died_waiting.insert(index);
        }
    }
    Finding finding;
    finding.kind = FindingKind::kOutsideNccl;
    finding.ranks = wait->elsewhere;
    std::ranges::set_difference(wait->waiting, wait->elsewhere, std::back_inserter(finding.victims));
    finding.since_ns = wait->since_ns;
    finding.waited_ns = wait->waited_ns;
    finding.summary = phrase("{}; {} made no call of CUDA or NCCL for {}", wait->story, ranks_fact(wait->waiting),
                             duration_fact(wait->waited_ns));
    finding.evidence.emplace_back("no collective is pending for longer than usual; the stacks show these waits");
    if (is_idle) {
        finding.evidence.push_back(phrase("no rank has called CUDA or NCCL since; before, never for longer than {}",
                                          duration_fact(wait->usual_ns)));
    }
    if (!told.died_waiting.empty()) {
        finding.evidence.emplace_back("those who have exited made no further call before their error");
    }
    finding.depends_on(settled_by<Unknown::kGroupOutside>(ranks_fact(wait->elsewhere)),
                       wait->waited_ns < kGlooTimeoutNs ? Confidence::kPossible : Confidence::kLikely);
    told.findings.push_back(std::move(finding));
}

}  // namespace titan::analyzer
