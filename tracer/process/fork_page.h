// State that must be empty in a forked child.
#pragma once

#include <atomic>
#include <cstdint>

namespace titan::tracer {

struct Session;

enum class Phase : uint32_t { kAsleep = 0, kStarting, kRunning, kOff };

// The kernel gives a forked child a zeroed copy of this page, whatever way it was forked: the child is asleep and its
// locks are free.
struct ForkPage {
    std::atomic<Session*> session;
    std::atomic<Phase> phase;
    std::atomic<int> starter;  // thread id
    std::atomic<uintptr_t> starter_frame;
    std::atomic<uint32_t> cold_lock;
    std::atomic<const void*> cold_lock_holder;  // the thread, by the address of its nesting
    std::atomic<uint32_t> signal_lock;          // lock of the table in signals.cpp
    std::atomic<uint32_t> own_threads;          // number of our threads that live (own_thread.h)
};
[[gnu::visibility("hidden")]] extern constinit std::atomic<ForkPage*> fork_page;

}  // namespace titan::tracer
