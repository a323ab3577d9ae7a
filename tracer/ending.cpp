#include "ending.h"

#include <stdlib.h>
#include <unistd.h>

#include <atomic>

#include "clock.h"
#include "process.h"
#include "session.h"

namespace titan::tracer {
namespace {

constexpr uint64_t kSameRequest_s = 60;

constinit std::atomic<bool> watching{false};

void on_exit_status(int status, void*) {
    if (Session* const current = session(); current != nullptr && current->identity.pid == getpid()) {
        note_exit(*current->ring_file.header, status);
    }
}

}  // namespace

void note_end_signal(format::RingHeader& header, int number, int32_t sender) {
    const uint64_t ticks = now_ticks();
    const uint64_t before = std::atomic_ref(header.end_ticks).load(std::memory_order_relaxed);
    if (before != 0 && ticks - before < kSameRequest_s * header.ticks_per_second) {
        return;
    }
    std::atomic_ref(header.end_sender).store(sender, std::memory_order_relaxed);
    std::atomic_ref(header.end_signal).store(number, std::memory_order_relaxed);
    std::atomic_ref(header.end_ticks).store(ticks, std::memory_order_release);
}

void watch_exit_status() {
    if (!watching.exchange(true, std::memory_order_relaxed)) {
        on_exit(on_exit_status, nullptr);
    }
}

void note_exit(format::RingHeader& header, int status) {
    if (status >= 0) {
        header.exit_status_next = (status & 0xff) + 1;  // what a parent gets to see
    }
    header.exit_ticks = now_ticks();
}

bool exited_in_failure(const format::RingHeader& header) { return header.exit_status_next > 1; }

}  // namespace titan::tracer
