#include "thread_state.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>

#include "base/map_private.h"
#include "own_thread.h"

namespace titan::tracer {

namespace {

constinit Thread nobody{};

}  // namespace

constinit __attribute__((tls_model("initial-exec"))) thread_local Nesting* this_nesting = &nobody;

namespace {

constexpr uint32_t kMaxThreads = 4096;

struct State : Thread {
    std::atomic<bool> taken;
    bool has_row;
    format::ThreadRecord spare;  // stands in when the ring's table is full
};

constinit State* states = nullptr;
constinit pthread_key_t thread_end_key{};
constinit bool key_made = false;

format::ThreadRecord* take_row(Session& session, uint32_t tid) {
    for (uint64_t i = 0; i < session.thread_rows; ++i) {
        const std::atomic_ref<uint32_t> owner(session.threads[i].thread);
        uint32_t free = 0;
        if (owner.load(std::memory_order_relaxed) == 0 &&
            owner.compare_exchange_strong(free, tid, std::memory_order_acq_rel)) {
            return &session.threads[i];
        }
    }
    count_loss(session, format::Loss::kThreadsUntracked);
    return nullptr;
}

// The watchdog may be reading: field by field, and first the one that says whether the rest means anything.
void clear_row(format::ThreadRecord& record) {
    store_field(record.entered_ticks, uint64_t{0});
    store_field(record.call, uint32_t{0});
    store_field(record.object, uint64_t{0});
    store_field(record.ticket, uint64_t{0});
    store_field(record.group, uint64_t{0});
    store_field(record.group_depth, uint32_t{0});
    store_field(record.last_call, uint32_t{0});
    store_field(record.last_call_ticks, uint64_t{0});
    store_field(record.span_depth, uint32_t{0});
    store_field(record.polls, uint32_t{0});
}

// Empty where nobody knows.
AddressRange own_stack() {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return {};
    }
    void* begin = nullptr;
    size_t bytes = 0;
    const bool known = pthread_attr_getstack(&attributes, &begin, &bytes) == 0;
    pthread_attr_destroy(&attributes);
    const auto first = reinterpret_cast<uint64_t>(begin);
    return known ? AddressRange{first, first + bytes} : AddressRange{};
}

// Null when more threads record than the tracer has room for (counted as a loss).
Thread* take_thread(Session& session) {
    for (uint32_t i = 0; i < kMaxThreads; ++i) {
        State& state = states[i];
        bool expected = false;
        if (state.taken.load(std::memory_order_relaxed) || !state.taken.compare_exchange_strong(expected, true)) {
            continue;
        }
        Thread& thread = state;
        thread = Thread{};
        thread.session = &session;
        thread.tid = static_cast<uint32_t>(gettid());
        if (session.call_sites.wants(format::kNativeSites)) {
            thread.stack = own_stack();
        }
        format::ThreadRecord* const row = take_row(session, thread.tid);
        state.has_row = row != nullptr;
        thread.record = row != nullptr ? row : &state.spare;
        clear_row(*thread.record);
        prctl(PR_GET_NAME, thread.record->name);
        if (key_made) {
            pthread_setspecific(thread_end_key, &thread);
        }
        return &thread;
    }
    count_loss(session, format::Loss::kThreadsUntracked);
    return nullptr;
}

void give_back_thread(Thread& thread) {
    if (thread.session == nullptr) {
        return;  // it belongs to the process that we were forked from
    }
    this_nesting = &nobody;
    State& state = static_cast<State&>(thread);
    clear_row(*thread.record);
    if (state.has_row) {
        std::atomic_ref(thread.record->thread).store(0, std::memory_order_release);
    }
    state.taken.store(false, std::memory_order_release);
}

void on_thread_end(void* opaque) { give_back_thread(*static_cast<Thread*>(opaque)); }

constinit Starters starters{};

Session* session_for(MayStart may_start) {
    Session* const current = session();
    if (current != nullptr || may_start == MayStart::kNever) {
        return current;
    }
    Session* (*const start)() = may_start == MayStart::kAlways ? starters.always : starters.of_rank;
    const int saved_errno = errno;
    Session* const started = start != nullptr ? start() : nullptr;
    errno = saved_errno;
    return started;
}

}  // namespace

bool start_threads_table() {
    if (states != nullptr) {
        return true;  // a forked child's own session: the kernel has wiped its parent's states
    }
    auto* const memory = map_private<State>(kMaxThreads);
    if (memory == nullptr) {
        return false;
    }
    madvise(memory, kMaxThreads * sizeof(State), MADV_WIPEONFORK);
    states = memory;
    key_made = pthread_key_create(&thread_end_key, on_thread_end) == 0;
    return true;
}

void wipe_threads_table() {
    if (states != nullptr) {
        memset(static_cast<void*>(states), 0, kMaxThreads * sizeof(State));
    }
}

Thread* attach_thread(MayStart may_start) {
    if (is_own_thread()) {
        return nullptr;
    }
    Session* const current = session_for(may_start);
    if (current == nullptr) {
        return nullptr;
    }
    if (this_thread()->session != current) {
        Thread* const taken = take_thread(*current);
        this_nesting = taken != nullptr ? taken : &nobody;
    }
    return this_thread() != &nobody ? this_thread() : nullptr;
}

void set_starters(const Starters& given) { starters = given; }

}  // namespace titan::tracer
