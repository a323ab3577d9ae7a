#include "unmet_ends.h"

#include <algorithm>

#include "host_calls.h"

namespace titan::analyzer {
namespace {

// Has the thread that made the call waited for the GPU ever since?
bool still_waits(const Process& process, const Entry& entry) {
    return std::any_of(process.threads.begin(), process.threads.end(), [&](const ThreadState& thread) {
        return thread.thread == entry.thread && thread.call != 0 && thread.entered_ns >= entry.entered_ns &&
               HostCall(process.text(thread.call)).waits_for_gpu();
    });
}

// Has the other side of a send or receive not been called?
bool lacks_its_half(const Run& run, const Communicator& communicator, const Member& member, const Entry& entry) {
    const bool known = entry.peer >= 0 && static_cast<size_t>(entry.peer) < communicator.by_rank.size() &&
                       communicator.by_rank[static_cast<size_t>(entry.peer)].known();
    if (!known) {
        return false;
    }
    const Member& other = run.member(communicator.by_rank[static_cast<size_t>(entry.peer)]);
    const uint64_t made = entry.kind == OpKind::kSend ? other.received_from(member.rank) : other.sent_to(member.rank);
    return other.p2p_counted && made <= entry.sequence;
}

bool lacks_a_side(const Run& run, const Process& process, const Entry& entry) {
    if (entry.row == kNoIndex || entry.sequence == kNoSequence || process.members[entry.row].communicator == kNoIndex) {
        return false;
    }
    const Member& member = process.members[entry.row];
    const Communicator& communicator = run.communicators[member.communicator];
    if (format::is_collective(entry.kind)) {
        return entry.sequence >= communicator.least_issued;
    }
    return (entry.kind == OpKind::kSend || entry.kind == OpKind::kRecv) &&
           lacks_its_half(run, communicator, member, entry);
}

}  // namespace

void forget_unmet_ends(Run& run) {
    for (Process& process : run.processes) {
        if (process.gpu_progress || process.sees.by_watchdog) {
            continue;  // somebody saw them end
        }
        for (Entry& entry : process.entries) {
            if (entry.state == CallState::kFinished && entry.replay == 0 && lacks_a_side(run, process, entry) &&
                still_waits(process, entry)) {
                entry.state = CallState::kEnqueued;
                entry.device = DeviceState::kUnknown;
            }
        }
    }
}

}  // namespace titan::analyzer
