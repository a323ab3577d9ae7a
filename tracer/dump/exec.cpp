#include "exec.h"

#include <string.h>
#include <unistd.h>

#include <atomic>

#include "base/clock.h"
#include "base/maps.h"
#include "ending.h"
#include "session.h"
#include "tracer/record.h"

namespace titan::tracer {
namespace {

// The watch thread moves the heartbeat about once a second.
constexpr uint64_t kSilentSeconds = 3;

bool is_silent(const format::JobProcess& process) {
    const Fd ring = open_ring_at(process.ring_path);
    format::RingHeader header;
    return ring.valid() && read_at(ring.get(), 0, &header, sizeof(header)) == sizeof(header) &&
           header.pid == process.pid && now_ticks() > header.heartbeat_ticks &&
           now_ticks() - header.heartbeat_ticks > kSilentSeconds * header.ticks_per_second;
}

// False if the memory is gone, as in a process that ends, or must not be read.
bool has_mapped_other_than(const format::JobProcess& process) {
    const char* const slash = strrchr(process.ring_path, '/');
    char room[4400];
    MapsReader maps(process.pid, room, sizeof(room));
    bool any = false;
    for (Mapping mapping; maps.next(mapping);) {
        if (slash == nullptr || strstr(mapping.path, slash) != nullptr) {
            return false;
        }
        any = true;
    }
    return any && maps.error() == 0;
}

}  // namespace

BeforeExec note_exec() {
    Session* const current = session();
    // A child of vfork shares our memory.
    if (current == nullptr || current->identity.pid != getpid()) {
        return {};
    }
    format::RingHeader& header = *current->ring_file.header;
    auto running = format::ProcessState::kRunning;
    if (!std::atomic_ref(header.state).compare_exchange_strong(running, format::ProcessState::kExited)) {
        return {};
    }
    note_exit(header, -1);
    return {true, static_cast<uint32_t>(exchange_job_state(JobState::kExited))};
}

void note_exec_failed(const BeforeExec& before) {
    if (Session* const current = session(); before.was_recording && current != nullptr) {
        set_job_state(static_cast<JobState>(before.job_state));
        format::RingHeader& header = *current->ring_file.header;
        header.exit_ticks = 0;
        std::atomic_ref(header.state).store(format::ProcessState::kRunning, std::memory_order_release);
    }
}

bool was_replaced(const format::JobProcess& process) { return is_silent(process) && has_mapped_other_than(process); }

}  // namespace titan::tracer
