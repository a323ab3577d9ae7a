#include "sampling.h"

#include <algorithm>
#include <atomic>

#include "ask_threads.h"
#include "base/clock.h"
#include "base/hash.h"
#include "capture_stacks.h"
#include "log.h"
#include "stack_samples.h"

namespace titan::tracer {
namespace {

constexpr uint64_t kShortestNs = 100'000'000;
constexpr uint64_t kMostOfTime = 20;  // a sample that took T of a processor is followed by so many T without one
constexpr uint64_t kNever = UINT64_MAX;

struct Sampling {
    StackSamples samples;
    uint64_t period_ns;
    uint64_t next_ns;
    uint64_t random;
};
constinit Sampling sampler{};

// By chance: a fixed period would see the same part of each step where a step takes as long.
void plan_next(uint64_t now_ns, uint64_t took_ns) {
    sampler.random = mix_hash(sampler.random, now_ns);
    sampler.next_ns =
        now_ns + std::max(sampler.period_ns / 2 + sampler.random % sampler.period_ns, kMostOfTime * took_ns);
}

// The main thread first.
size_t list_sampled(const Session& session, pid_t (&threads)[kAskedAtOnce]) {
    size_t count = 0;
    threads[count++] = session.identity.pid;
    for (uint64_t row = 0; row < session.thread_rows && count < kAskedAtOnce; ++row) {
        const auto thread =
            static_cast<pid_t>(std::atomic_ref(session.threads[row].thread).load(std::memory_order_acquire));
        if (thread != 0 && thread != session.identity.pid) {
            threads[count++] = thread;
        }
    }
    return count;
}

}  // namespace

void start_sampling(Session& session) {
    sampler.next_ns = kNever;
    char* const region = region_bytes(*session.header, format::RegionKind::kStackSamples, nullptr);
    if (!sampler.samples.start(region)) {
        if (region != nullptr) {
            warn_once("no memory for samples of stacks: there will be none");
        }
        return;
    }
    sampler.period_ns = std::max(session.config.stack_samples_ns, kShortestNs);
    sampler.random = mix_hash(static_cast<uint64_t>(session.identity.pid), session.identity.pid_start_ticks);
    plan_next(monotonic_now_ns(), 0);
}

void poll_sampling(const Session& session, bool memory_is_free) {
    const uint64_t now_ns = monotonic_now_ns();
    if (now_ns < sampler.next_ns) {
        return;
    }
    const uint64_t began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (memory_is_free) {
        pid_t threads[kAskedAtOnce];
        const size_t count = list_sampled(session, threads);
        const uint64_t ticks = now_ticks();
        const int64_t step = std::atomic_ref(session.header->step).load(std::memory_order_relaxed);
        sampler.samples.add(sample_stacks({threads, count}), ticks, step);
        release_sampled_memory();
    }
    plan_next(now_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns);
}

uint64_t next_sample_ns() { return sampler.next_ns; }

void name_samples_of(const Session& session, char* ring_copy) {
    sampler.samples.name_functions(*session.header, ring_copy);
}

}  // namespace titan::tracer
