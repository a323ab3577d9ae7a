// The threads of a process that matter for NCCL, and what they may be held in.
#include <algorithm>
#include <set>

#include "analyzer/wait_graph.h"

namespace titan::analyzer {
namespace {

// Threads that issued none of the last calls have nothing to do with the next one.
constexpr size_t kRecentCalls = 512;

}  // namespace

bool is_being_created(const Member& member) {
    return member.state == CommState::kCreating && member.issued == 0 && member.created_ns != 0;
}

std::vector<const ThreadState*> issuing_threads(const Process& process) {
    std::set<uint32_t> ids{static_cast<uint32_t>(process.pid)};
    const size_t count = process.entries.size();
    for (size_t i = count > kRecentCalls ? count - kRecentCalls : 0; i < count; ++i) {
        ids.insert(process.entries[i].thread);
    }
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

}  // namespace titan::analyzer
