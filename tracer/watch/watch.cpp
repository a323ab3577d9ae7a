#include "watch.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/futex.h"
#include "call_sites_setup.h"
#include "capture_stacks.h"
#include "deaths.h"
#include "descriptor_room.h"
#include "dump_children.h"
#include "dump_path.h"
#include "dumper.h"
#include "log.h"
#include "own_thread.h"
#include "remote_request.h"
#include "requests.h"
#include "sampling.h"
#include "tick_times.h"
#include "watchdog.h"

namespace titan::tracer {
namespace {

using format::DumpReason;

constexpr uint64_t kTickNs = 1'000'000'000;
constexpr uint64_t kShortestTickNs = 50'000'000;

// The watch thread's own.
constinit uint64_t last_tick_ns = 0;
constinit TickWork tick_work = nullptr;

constinit std::atomic<int32_t> watch_tid{0};
constinit std::atomic<bool> started{false};

// What the C library does on the last thread of a program, with the status that it uses.
[[noreturn]] void end_program() {
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, nullptr);  // the program's exit handlers run here
    exit(EXIT_SUCCESS);
}

// What is due each second, whatever the pauses are.
void tick_of_second(Session& session) {
    format::RingHeader& header = *session.ring_file.header;
    std::atomic_ref(header.heartbeat_ticks).store(now_ticks(), std::memory_order_relaxed);
    write_anchor(header.last_anchor);
    watch_children();
    if (has_program_left()) {
        end_program();
    }
    const bool leads = hold_lease();
    set_remote_polling(leads);
    if (leads) {
        look_for_the_dead(session);
    }
}

// Returns true to be called again sooner than usual.
bool tick(Session& session) {
    const uint64_t now_ns = monotonic_now_ns();
    note_progress(session);
    if (now_ns - last_tick_ns >= kTickNs) {
        last_tick_ns = now_ns;
        tick_of_second(session);
    }
    poll_call_sites(session.call_sites);
    const bool soon = tick_work(session, now_ns);
    const bool memory_is_free = held_dump_due_ns() == UINT64_MAX;  // the stacks of a held dump lie in it
    poll_sampling(session, memory_is_free);
    char detail[sizeof(PendingDump::detail)];
    if (find_stuck(session, detail, sizeof(detail))) {
        request_dump(DumpReason::kTimeout, detail);
    } else if (memory_is_free && find_standstill(session, detail, sizeof(detail))) {
        request_dump(DumpReason::kStandstill, detail);
    }
    return soon;
}

uint64_t pause_ns(uint64_t usual_ns, bool soon) {
    const uint64_t pause_ns = soon ? std::min(kSoonNs, usual_ns) : usual_ns;
    const uint64_t due_ns = std::min(held_dump_due_ns(), next_sample_ns());
    const uint64_t now_ns = due_ns == UINT64_MAX ? 0 : monotonic_now_ns();
    return std::min(pause_ns, due_ns - std::min(due_ns, now_ns));
}

uint64_t tick_length_ns(const Config& config) {
    return config.timeout_ns == 0 ? kTickNs : std::clamp(config.timeout_ns / 8, kShortestTickNs, kTickNs);
}

void run_watch(void* argument) {
    Session& session = *static_cast<Session*>(argument);
    watch_tid.store(gettid(), std::memory_order_relaxed);
    const uint64_t usual_pause_ns = tick_length_ns(session.config);
    start_answering(*session.ring_file.header);
    for (;;) {
        // Read before looking for work: a wake-up after this makes the wait return at once.
        std::atomic<uint32_t>& word = wake_word();
        const uint32_t before = word.load(std::memory_order_acquire);
        const bool soon = tick(session);
        serve_requests(session);
        futex_wait(word, before, pause_ns(usual_pause_ns, soon), FutexScope::kShared);
    }
}

// Not in a forked child, not where the thread could not be had, and not on the thread itself.
bool someone_answers() {
    return session() != nullptr && started.load(std::memory_order_acquire) &&
           watch_tid.load(std::memory_order_relaxed) != gettid();
}

}  // namespace

bool start_watch(TickWork work, SaveWork save) {
    Session* current = session();
    if (current == nullptr) {
        return false;
    }
    last_tick_ns = 0;
    tick_work = work;
    started.store(false, std::memory_order_relaxed);
    start_dump_path();
    reset_watchdog();
    prepare_dumper(*current);
    keep_spare_descriptors(current->ring_file);
    start_ending(save);
    if (current->config.stacks.dump && !prepare_stacks(current->config.dump_signal != 0)) {
        warn_once("no memory for stacks: dumps go without");
    }
    start_sampling(*current);
    start_call_sites(current->call_sites);
    join_job(current->config, current->identity, current->ring_file);
    set_remote_polling(hold_lease());
    start_remote(*current);
    if (!start_own_thread("titan-watch", run_watch, current)) {
        warn_once("no thread for dumps: only the ring file will show what happened");
        return false;
    }
    started.store(true, std::memory_order_release);
    return true;
}

void request_dump(DumpReason reason, const char* detail) {
    const Session* const current = session();
    if (current != nullptr &&
        (row_of(reason).heard == Heard::kAlways || (current->config.dump_on & dump_bit(reason)) != 0)) {
        leave_request(reason, detail);
        wake_watchers();
    }
}

void request_peer_dump(const JobRequest& request) {
    leave_request_of_peer(request);
    wake_watchers();
}

bool wait_for_dump(uint64_t timeout_ns) { return someone_answers() && await_complete(timeout_ns); }

bool wait_for_snapshot(uint64_t timeout_ns) { return someone_answers() && await_snapshot(timeout_ns); }

}  // namespace titan::tracer
