#include "host_threads.h"

#include <algorithm>
#include <set>

#include "host_calls.h"

namespace titan::analyzer {
bool is_child(OpKind origin) {
    return origin == OpKind::kCommSplit || origin == OpKind::kCommShrink || origin == OpKind::kCommGrow;
}

bool is_creation(OpKind kind) { return kind == OpKind::kCommInit || kind == OpKind::kCommInitAll || is_child(kind); }

bool is_being_created(const Member& member) {
    return member.state == CommState::kCreating && member.issued == 0 && member.created_ns != 0;
}

std::vector<const ThreadState*> issuing_threads(const Process& process) {
    std::set<uint32_t> ids{static_cast<uint32_t>(process.pid)};
    ids.insert(process.callers.begin(), process.callers.end());
    for (const Member& member : process.members) {
        if (is_being_created(member)) {
            ids.insert(member.create_thread);
        }
    }
    std::vector<const ThreadState*> threads;
    for (const ThreadState& thread : process.threads) {
        if (ids.contains(thread.thread)) {
            threads.push_back(&thread);
        }
    }
    return threads;
}

bool is_inside_a_call(const Process& process) {
    const auto threads = issuing_threads(process);
    return std::any_of(threads.begin(), threads.end(), [](const ThreadState* thread) { return thread->call != 0; });
}

bool has_aborted(const Process& process) {
    return std::any_of(process.members.begin(), process.members.end(),
                       [](const Member& member) { return member.state == format::CommState::kAborted; });
}

int64_t gave_up_ns(const Process& process) {
    const auto last_call = std::find_if(process.entries.rbegin(), process.entries.rend(), [](const Entry& entry) {
        return (format::moves_data(entry.kind) || is_creation(entry.kind)) && entry.state != CallState::kFailed;
    });
    const int64_t last_call_ns = last_call == process.entries.rend() ? 0 : last_call->entered_ns;
    int64_t first_ns = 0;
    for (const Member& member : process.members) {
        const bool since = member.closed_ns != 0 && member.closed_ns >= last_call_ns;
        if (member.state == CommState::kAborted && since && (first_ns == 0 || member.closed_ns < first_ns)) {
            first_ns = member.closed_ns;
        }
    }
    return first_ns;
}

bool went_on_after_aborts(const Process& process) {
    return has_aborted(process) && gave_up_ns(process) == 0 && !process.has_ended();
}

bool has_aborted_in(const Process& process, const Entry& entry) {
    return entry.state != CallState::kFinished && entry.row != kNoIndex &&
           process.members[entry.row].state == CommState::kAborted;
}

bool tells_threads(const Process& process) {
    return std::any_of(process.callers.begin(), process.callers.end(), [](uint32_t thread) { return thread != 0; });
}

bool is_host_unseen(const Process& process) {
    return !process.sees.host_calls ||
           (process.streams_seen.recorded == 0 && process.streams_seen.launches == 0 &&
            std::none_of(process.threads.begin(), process.threads.end(), [&](const ThreadState& thread) {
                return HostCall(process.text(thread.call)).is_cuda() ||
                       HostCall(process.text(thread.last_call)).is_cuda();
            }));
}

const ThreadState* most_informative_thread_state(const Process& process) {
    const ThreadState* best = nullptr;
    for (const ThreadState* thread : issuing_threads(process)) {
        const auto worth = [](const ThreadState& t) {
            return std::pair(t.call != 0, t.call != 0 ? -t.entered_ns : t.last_call_ns);
        };
        if (best == nullptr || worth(*thread) > worth(*best)) {
            best = thread;
        }
    }
    if (best == nullptr && !process.threads.empty()) {
        best = &process.threads.front();
    }
    return best;
}

int32_t working_thread(const Process& process) {
    const ThreadState* const best = most_informative_thread_state(process);
    const bool main_is_seen =
        std::any_of(process.threads.begin(), process.threads.end(),
                    [&](const ThreadState& thread) { return static_cast<int32_t>(thread.thread) == process.pid; });
    return best == nullptr || main_is_seen ? process.pid : static_cast<int32_t>(best->thread);
}

const Process* process_of_rank(const Run& run, int rank) {
    const Process* numbered = nullptr;
    for (const Process& process : run.processes) {
        if (std::any_of(process.members.begin(), process.members.end(),
                        [&](const Member& member) { return member.global_rank == rank; })) {
            return &process;
        }
        numbered = numbered == nullptr && process.rank == rank ? &process : numbered;
    }
    return numbered;
}

bool is_asked_for(const Run& run, const Process& process, const std::set<int>& ranks) {
    return ranks.empty() ||
           std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return process_of_rank(run, rank) == &process; });
}

}  // namespace titan::analyzer
