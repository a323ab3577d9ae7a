#include "standstill.h"

#include <algorithm>
#include <atomic>
#include <string_view>

#include "base/clock.h"
#include "base/text.h"
#include "capture_stacks.h"
#include "image_waits.h"

namespace titan::tracer {
namespace {

std::string_view wait_of_program(Session& session) {
    const std::span<const char> image = collect_stacks(0);
    std::string_view wait = wait_outside_nccl(image, session.identity.pid);
    for (uint64_t row = 0; wait.empty() && row < session.thread_rows; ++row) {
        const uint32_t thread = std::atomic_ref(session.threads[row].thread).load(std::memory_order_acquire);
        wait = thread == 0 ? wait : wait_outside_nccl(image, static_cast<pid_t>(thread));
    }
    return wait;
}

}  // namespace

bool find_standstill(Session& session, StandstillState& state, uint64_t moved_ns, char* detail, size_t capacity_bytes) {
    const uint64_t timeout_ns = session.config.timeout_ns;
    const uint64_t now_ns = monotonic_now_ns();
    PendingCollective pending{};
    if (timeout_ns == 0 || !session.config.stacks.dump || session.identity.world_size <= 1 ||
        state.reported_moved_ns == moved_ns || now_ns - std::max(moved_ns, state.looked_ns) <= timeout_ns ||
        session.gpu_progress.oldest_pending(pending)) {
        return false;
    }
    state.looked_ns = now_ns;
    const std::string_view wait = wait_of_program(session);
    if (!wait.empty()) {
        state.reported_moved_ns = moved_ns;
        TextWriter text(detail, capacity_bytes);
        text.format("no collective for %lu s, and a wait for others in ", (now_ns - moved_ns) / 1'000'000'000);
        text.text(wait.data(), wait.size());
    }
    release_stacks_memory();
    return !wait.empty();
}

}  // namespace titan::tracer
