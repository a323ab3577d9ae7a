#include "ending.h"

#include <stdlib.h>
#include <unistd.h>

#include <atomic>

#include "base/clock.h"
#include "base/process.h"
#include "session.h"
#include "tracer/record.h"

namespace titan::tracer {
namespace {

constexpr uint64_t kSameRequestSeconds = 60;

constinit std::atomic<bool> watching{false};
constinit std::atomic<int> quick_exit_status{-1};

void on_exit_status(int status, void*) {
    if (Session* const current = session(); current != nullptr && current->identity.pid == getpid()) {
        note_exit(*current->ring_file.header, status);
    }
}

// The program's handlers that were registered before the session come after this one.
void on_quick_exit() { on_process_exit(quick_exit_status.load(std::memory_order_relaxed)); }

}  // namespace

bool is_asked_to_end(const format::RingHeader& header) {
    const uint64_t asked_ticks = __atomic_load_n(&header.end_ticks, __ATOMIC_ACQUIRE);
    return asked_ticks != 0 && now_ticks() - asked_ticks < kSameRequestSeconds * header.ticks_per_second;
}

void note_end_signal(format::RingHeader& header, int number, int32_t sender) {
    if (is_asked_to_end(header)) {
        return;
    }
    std::atomic_ref(header.end_sender).store(sender, std::memory_order_relaxed);
    std::atomic_ref(header.end_signal).store(number, std::memory_order_relaxed);
    std::atomic_ref(header.end_ticks).store(now_ticks(), std::memory_order_release);
}

void watch_exit_status() {
    if (!watching.exchange(true, std::memory_order_relaxed)) {
        on_exit(on_exit_status, nullptr);
        at_quick_exit(on_quick_exit);
    }
}

void note_quick_exit(int status) { quick_exit_status.store(status, std::memory_order_relaxed); }

void note_exit(format::RingHeader& header, int status) {
    if (status >= 0) {
        header.exit_status_next = (status & 0xff) + 1;  // the part that a parent sees
    }
    header.exit_ticks = now_ticks();
}

bool exited_in_failure(const format::RingHeader& header) { return header.exit_status_next > 1; }

}  // namespace titan::tracer
