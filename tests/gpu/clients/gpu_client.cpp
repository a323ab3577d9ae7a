// The ranks of scripts/gpu-check, one scenario per check.
#include <dlfcn.h>

#include <chrono>

#include "rank.h"

using client::say;
using gpu_check::Gate;
using gpu_check::Kernels;
using gpu_check::Rank;

namespace {

constexpr int kWarmups = 3;
constexpr size_t kSizes[] = {1, 1000, Rank::kCount};

const char* library_of(const void* function) {
    Dl_info info;
    return dladdr(function, &info) != 0 && info.dli_fname ? info.dli_fname : "?";
}

// Versions, as "key value" lines.
int info() {
    int devices = 0, driver = 0, nccl = 0, major = 0, minor = 0;
    DRIVER(cuInit(0));
    DRIVER(cuDeviceGetCount(&devices));
    DRIVER(cuDriverGetVersion(&driver));
    NCCL(ncclGetVersion(&nccl));
    CUdevice device = 0;
    char name[256] = "";
    size_t memory_bytes = 0;
    DRIVER(cuDeviceGet(&device, 0));
    DRIVER(cuDeviceGetName(name, sizeof(name), device));
    DRIVER(cuDeviceTotalMem_v2(&memory_bytes, device));
    DRIVER(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    DRIVER(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    say("gpu %s\ngpus %d\nmemory_bytes %zu\ncompute_capability %d.%d\ncuda_driver_api %d\nnccl %d", name, devices,
        memory_bytes, major, minor, driver, nccl);
    say("libcuda %s\nlibnccl %s", library_of(reinterpret_cast<const void*>(&cuInit)),
        library_of(reinterpret_cast<const void*>(&ncclGetVersion)));
    return 0;
}

void p2p_with_self(const Rank& r) {
    const auto stream = reinterpret_cast<cudaStream_t>(r.stream);
    DRIVER(cuMemsetD32Async(r.receive, 0, 1024, r.stream));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(reinterpret_cast<void*>(r.send), 1024, ncclFloat32, r.rank, r.comm, stream));
    NCCL(ncclRecv(reinterpret_cast<void*>(r.receive), 1024, ncclFloat32, r.rank, r.comm, stream));
    NCCL(ncclGroupEnd());
}

int single() {
    Rank r;
    r.join();
    for (const size_t count : kSizes) {
        DRIVER(cuMemsetD32Async(r.receive, 0, count, r.stream));
        r.all_reduce(count);
        r.verify(count);
        say("all_reduce of %zu: right", count);
    }
    p2p_with_self(r);
    r.verify();
    say("send and receive: right");
    client::await("go");
    r.leave();
    return 0;
}

int ranks() {
    Rank r;
    r.join();
    const auto begin = std::chrono::steady_clock::now();
    int calls = 0;
    for (int round = 0; round < 5; ++round) {
        for (const size_t count : kSizes) {
            DRIVER(cuMemsetD32Async(r.receive, 0, count, r.stream));
            r.all_reduce(count);
            r.verify(count);
            ++calls;
        }
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    say("ms_per_call %.3f", took.count() / calls);
    say("done");
    client::await("go");
    r.leave();
    return 0;
}

void warm_up(Rank& r) {
    r.join();
    for (int i = 0; i < kWarmups; ++i) {
        r.all_reduce();
    }
    r.verify();
}

// The victim's stream is busy with a kernel when the collective comes.
int blocked() {
    Rank r;
    const Kernels kernels;
    Gate gate;
    warm_up(r);
    if (r.is_victim()) {
        const auto bound_s = static_cast<uint64_t>(client::number("GPU_CHECK_BOUND_S", 20));
        kernels.hold(gate.address(), bound_s * 1'000'000'000, r.stream);
    }
    r.all_reduce();
    say("issued");
    std::thread opener([&] {
        client::await("release");
        gate.open();
    });
    r.sync();
    opener.join();
    r.verify();
    r.leave();
    return 0;
}

// The victim does something else than join.
int missing() {
    Rank r;
    warm_up(r);
    if (r.is_victim()) {
        say("issued");
        client::await("release");
    }
    r.all_reduce();
    if (!r.is_victim()) {
        say("issued");
    }
    r.verify();
    r.leave();
    return 0;
}

constexpr client::Scenario kScenarios[] = {
    {"info", info},
    {"single", single},
    {"ranks", ranks},
    {"blocked", blocked},
    {"missing", missing},
    {"graphs", gpu_check::graphs},
    {"capture-safety", gpu_check::capture_safety},
    {"overhead", gpu_check::overhead},
    {"steps", gpu_check::steps},
};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
