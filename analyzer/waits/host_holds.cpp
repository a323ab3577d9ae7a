#include "host_holds.h"

#include <algorithm>

#include "host_threads.h"
#include "host_wait.h"

namespace titan::analyzer {

void PlacedCalls::insert_head(uint32_t process, uint32_t head, std::set<uint32_t>& nodes) const {
    for (const uint32_t index : orders[process].heads[head].entries) {
        if (const auto node = node_of_entry[process].find(index); node != node_of_entry[process].end()) {
            nodes.insert(node->second);
        }
    }
}

void PlacedCalls::insert_nodes_before(uint32_t process, uint32_t call, std::set<uint32_t>& nodes) const {
    if (const auto node = node_of_entry[process].find(call); node != node_of_entry[process].end()) {
        nodes.insert(node->second);
    } else if (const auto head = orders[process].behind.find(call); head != orders[process].behind.end()) {
        insert_head(process, head->second, nodes);
    }
}

const std::vector<uint32_t>& HostHolds::of_process(uint32_t process) {
    if (!known_[process]) {
        known_[process] = true;
        // Whatever else the process does, it may wait for the thread that waits there.
        std::set<uint32_t> nodes(placed_.lost[process].begin(), placed_.lost[process].end());
        for (const ThreadState* thread : issuing_threads(run_.processes[process])) {
            hold_thread(process, *thread, nodes);
        }
        // If the host's activity is unknown, it most likely waits for an unfinished call. A host that gave up waited
        // until then.
        if (is_host_unseen(run_.processes[process]) || (nodes.empty() && gave_up_ns(run_.processes[process]) != 0)) {
            for (const auto& [index, node] : placed_.node_of_entry[process]) {
                nodes.insert(node);
            }
        }
        holds_[process].assign(nodes.begin(), nodes.end());
    }
    return holds_[process];
}

std::vector<uint32_t> HostHolds::of_member(MemberRef ref) {
    const Process& owner = run_.process(ref);
    const auto drives_another = [&](const Member& member) {
        return member.global_rank != run_.member(ref).global_rank;
    };
    const auto last = std::find_if(owner.entries.rbegin(), owner.entries.rend(),
                                   [&](const Entry& entry) { return entry.row == ref.row; });
    if (last == owner.entries.rend() || std::ranges::none_of(owner.members, drives_another)) {
        return of_process(ref.process);
    }
    std::set<uint32_t> nodes;
    for (const ThreadState* thread : issuing_threads(owner)) {
        if (thread->thread == last->thread) {
            hold_thread(ref.process, *thread, nodes);
        }
    }
    return {nodes.begin(), nodes.end()};
}

void HostHolds::hold_thread(uint32_t process, const ThreadState& thread, std::set<uint32_t>& nodes) const {
    const Process& owner = run_.processes[process];
    if (thread.call == 0 || owner.is_gone()) {
        return;
    }
    const HostCall call(owner.text(thread.call));
    if (call.is_nccl()) {
        hold_in_nccl(process, thread, call, nodes);
    } else if (call.waits_for_gpu()) {
        if (!hold_by_streams(process, thread, nodes)) {
            hold_in_sync(process, thread, call, nodes);
        }
    } else if (call.launches()) {
        hold_by_streams(process, thread, nodes);
    }
}

// Uses the record of the stream or event: the calls that it waits for. True if that settles it.
bool HostHolds::hold_by_streams(uint32_t process, const ThreadState& thread, std::set<uint32_t>& nodes) const {
    const Process& owner = run_.processes[process];
    const Ahead ahead = awaited_by(owner, thread, placed_.queues[process]);
    for (const uint32_t call : ahead.calls) {
        placed_.insert_nodes_before(process, call, nodes);
    }
    int64_t oldest_ns = thread.entered_ns;
    for (const auto& [index, node] : placed_.node_of_entry[process]) {
        oldest_ns = std::min(oldest_ns, owner.entries[index].entered_ns);
    }
    // If all waits are recorded and no call is ahead, the host waits for the program's own work.
    const bool only_work = ahead.calls.empty() && !ahead.work.empty();
    return !ahead.calls.empty() ||
           (only_work && owner.streams_seen.waits_since(oldest_ns) && !waits_by_default_stream(owner));
}

void HostHolds::hold_in_nccl(uint32_t process, const ThreadState& thread, HostCall call,
                             std::set<uint32_t>& nodes) const {
    const Process& owner = run_.processes[process];
    const Entry* entry = thread.ticket == 0 ? nullptr : owner.entry_of_ticket(thread.ticket - 1);
    for (const auto& [index, node] : placed_.node_of_entry[process]) {
        const Entry& pending = owner.entries[index];
        const bool in_group = thread.group != 0 && pending.group == static_cast<uint32_t>(thread.group) &&
                              pending.thread == thread.thread;
        if (&pending == entry || in_group) {
            nodes.insert(node);
        }
    }
    const bool creating =
        entry != nullptr ? is_creation(entry->kind) : call.creates_communicators() || thread.group != 0;
    if (creating) {
        nodes.insert(placed_.creations[process].begin(), placed_.creations[process].end());
    }
}

void HostHolds::hold_in_sync(uint32_t process, const ThreadState& thread, HostCall call,
                             std::set<uint32_t>& nodes) const {
    // Only a stream's own wait can be told apart; an event or the device may stand for any stream.
    const bool one_stream = call.of_stream() && thread.object != 0;
    const Process& owner = run_.processes[process];
    const bool seen =
        std::ranges::any_of(owner.entries, [&](const Entry& entry) { return entry.stream == thread.object; });
    for (const auto& [index, node] : placed_.node_of_entry[process]) {
        if (!one_stream || !seen || owner.entries[index].stream == thread.object) {
            nodes.insert(node);
        }
    }
    // Calls on that stream that queue behind the head of another one (same communicator, other stream).
    for (const auto& [index, head] : placed_.orders[process].behind) {
        if (!one_stream || owner.entries[index].stream == thread.object) {
            placed_.insert_head(process, head, nodes);
        }
    }
}

}  // namespace titan::analyzer
