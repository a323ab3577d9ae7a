// What recording costs, in one process: an NCCL call whose real function does nothing, the markers, and (where LTTng is
// there) two tracepoints with the same fields. scripts/bench runs it with and without the preload and subtracts.
#include <benchmark/benchmark.h>
#include <nccl.h>

#include <cstdint>

#include "titantrace.h"
#ifdef TITAN_BENCH_LTTNG
#include "lttng_events.h"
#endif

namespace {

ncclComm_t communicator() {
    static ncclComm_t comm = [] {
        ncclUniqueId id;
        ncclComm_t made = nullptr;
        ncclGetUniqueId(&id);
        ncclCommInitRank(&made, 8, id, 3);
        return made;
    }();
    return comm;
}

void all_reduce(benchmark::State& state) {
    float buffer[4] = {};
    ncclComm_t comm = communicator();
    for (auto _ : state) {
        benchmark::DoNotOptimize(ncclAllReduce(buffer, buffer, 4, ncclFloat32, ncclSum, comm, nullptr));
    }
}
BENCHMARK(all_reduce);

void step(benchmark::State& state) {
    int64_t number = 0;
    for (auto _ : state) {
        titan_step(number++);
    }
}
BENCHMARK(step);

void span_begin_and_end(benchmark::State& state) {
    for (auto _ : state) {
        titan_span_begin("forward");
        titan_span_end();
    }
}
BENCHMARK(span_begin_and_end);

void metric(benchmark::State& state) {
    for (auto _ : state) {
        titan_metric("loss", 2.5);
    }
}
BENCHMARK(metric);

#ifdef TITAN_BENCH_LTTNG
void lttng_enter_and_leave(benchmark::State& state) {
    uint64_t sequence = 0;
    float buffer[4] = {};
    const auto address = reinterpret_cast<uint64_t>(&buffer[0]);
    for (auto _ : state) {
        ++sequence;
        lttng_ust_tracepoint(titan_bench, enter, 0x1234567890abcdef, sequence, 1, 4, 7, 0, -1, address, address, 0);
        lttng_ust_tracepoint(titan_bench, leave, 0x1234567890abcdef, sequence, 0, 0, 3, 0, 42, 17, 2, 0);
    }
}
BENCHMARK(lttng_enter_and_leave);
#endif

}  // namespace

BENCHMARK_MAIN();
