// The threads of a process that matter for NCCL, and what they may be held in.
#include <algorithm>
#include <set>

#include "analyzer/wait_graph.h"

namespace titan::analyzer {
bool is_creation(OpKind kind) {
    return kind == OpKind::kCommInit || kind == OpKind::kCommInitAll || kind == OpKind::kCommSplit ||
           kind == OpKind::kCommShrink || kind == OpKind::kCommGrow;
}

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

bool is_sync_call(const std::string& name) {
    // Synchronisation, and the calls that synchronise on the way.
    static constexpr const char* kParts[] = {"Synchronize", "Memcpy",    "Memset",    "Free",
                                             "Malloc",      "HostAlloc", "ModuleLoad"};
    return name.starts_with("cu") && name.find("Async") == std::string::npos &&
           std::any_of(std::begin(kParts), std::end(kParts),
                       [&](const char* part) { return name.find(part) != std::string::npos; });
}

bool is_host_unseen(const Process& process) {
    return process.only_calls ||
           (process.sight.recorded == 0 && process.sight.launches == 0 &&
            std::none_of(process.threads.begin(), process.threads.end(), [&](const ThreadState& thread) {
                return process.text(thread.call).starts_with("cu") || process.text(thread.last_call).starts_with("cu");
            }));
}

}  // namespace titan::analyzer
