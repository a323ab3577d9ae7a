// What calls cost the host and the device, as "key value" lines. Medians over batches.
#include <algorithm>
#include <chrono>

#include "rank.h"

namespace gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 9;
constexpr unsigned kBusyBlocks = 64;
constexpr uint64_t kStepNs = 5'000'000;
constexpr int kStepCalls = 20;

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

struct Cost {
    double host_ns, device_ns;
};

// Of one call of `issue`. The device's time is that between two events around a batch.
template <typename Issue>
Cost cost_of(const Rank& r, int calls, const Issue& issue) {
    CUevent begin = nullptr, end = nullptr;
    DRIVER(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    DRIVER(cuEventCreate(&end, CU_EVENT_DEFAULT));
    std::vector<double> host, device;
    for (int batch = 0; batch < kBatches; ++batch) {
        DRIVER(cuEventRecord(begin, r.stream));
        const auto start = Clock::now();
        for (int i = 0; i < calls; ++i) {
            issue();
        }
        const std::chrono::duration<double, std::nano> took = Clock::now() - start;
        DRIVER(cuEventRecord(end, r.stream));
        r.sync();
        float between_ms = 0;
        DRIVER(cuEventElapsedTime(&between_ms, begin, end));
        if (batch > 0) {  // the first one warms up
            host.push_back(took.count() / calls);
            device.push_back(static_cast<double>(between_ms) * 1e6 / calls);
        }
    }
    return {median(host), median(device)};
}

}  // namespace

int overhead() {
    Rank r;
    const Kernels kernels;
    r.join();
    r.all_reduce();
    r.sync();
    CUdeviceptr scratch = 0;
    DRIVER(cuMemAlloc_v2(&scratch, 1024 * sizeof(float)));
    const int calls = client::number("GPU_CHECK_CALLS", 500);

    const Cost kernel = cost_of(r, calls, [&] { kernels.add(scratch, 1024, 1.0f, r.stream); });
    const Cost reduce = cost_of(r, calls, [&] { r.all_reduce(); });
    const Cost both = cost_of(r, calls, [&] {
        kernels.add(scratch, 1024, 1.0f, r.stream);
        r.all_reduce();
    });
    std::vector<double> steps;
    for (int step = 0; step < client::number("GPU_CHECK_STEPS", 40); ++step) {
        const auto start = Clock::now();
        kernels.busy(kStepNs, kBusyBlocks, r.stream);
        for (int i = 0; i < kStepCalls; ++i) {
            r.all_reduce(1 << 16);
        }
        r.sync();
        steps.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    }
    client::say("launch_host_ns %.1f\nall_reduce_host_ns %.1f\nall_reduce_device_ns %.1f", kernel.host_ns,
                reduce.host_ns, reduce.device_ns);
    client::say("launch_and_all_reduce_host_ns %.1f\nlaunch_and_all_reduce_device_ns %.1f\nstep_ms %.4f", both.host_ns,
                both.device_ns, median(steps));
    r.leave();
    return 0;
}

}  // namespace gpu_check
