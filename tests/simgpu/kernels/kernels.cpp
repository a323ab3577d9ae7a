// The ready-made kernels of simgpu.h, registered like nvcc's output when the program starts.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "simgpu.h"

extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* stub, char* device_stub, const char* name, int thread_limit,
                            void* tid, void* bid, void* block_dim, void* grid_dim, int* warp_size);
}

namespace {

using Clock = std::chrono::steady_clock;

template <typename T>
T arg(void** args, int index) {
    T value;
    std::memcpy(&value, args[index], sizeof(value));
    return value;
}

bool cancelled(void** args, int arg_count) {
    return std::atomic_ref<int32_t>(*static_cast<int32_t*>(args[arg_count])).load() != 0;
}

void spin_body(void** args) {
    const auto end = Clock::now() + std::chrono::nanoseconds(arg<uint64_t>(args, 0));
    // Sleeps: many ranks share few cores here, and a GPU's work costs the host nothing.
    while (Clock::now() < end && !cancelled(args, 1)) {
        std::this_thread::sleep_for(std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(5)));
    }
}

void hang_body(void** args) {
    while (!cancelled(args, 0)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

void fill_body(void** args) {
    float* data = arg<float*>(args, 0);
    const size_t count = arg<size_t>(args, 1);
    const float value = arg<float>(args, 2);
    for (size_t i = 0; i < count; ++i) {
        data[i] = value;
    }
}

void add_body(void** args) {
    float* data = arg<float*>(args, 0);
    const size_t count = arg<size_t>(args, 1);
    const float value = arg<float>(args, 2);
    for (size_t i = 0; i < count; ++i) {
        data[i] += value;
    }
}

void axpy_body(void** args) {
    float* y = arg<float*>(args, 0);
    const float* x = arg<const float*>(args, 1);
    const size_t count = arg<size_t>(args, 2);
    const float a = arg<float>(args, 3);
    for (size_t i = 0; i < count; ++i) {
        y[i] += a * x[i];
    }
}

// name, argument sizes
#define SIMGPU_KERNELS(X) \
    X(spin, 1, 8)         \
    X(hang, 0, 0)         \
    X(fill, 3, 8, 8, 4)   \
    X(add, 3, 8, 8, 4)    \
    X(axpy, 4, 8, 8, 8, 4)

#define ROW(name, count, ...) {"simgpu_" #name "_kernel", name##_body, count, {__VA_ARGS__}},
const SimgpuKernel kKernels[] = {SIMGPU_KERNELS(ROW)};
#undef ROW

// Stubs are addresses and nothing more, as the host side of a __global__ function is to the runtime.
#define STUB(name, ...) const char name##_stub = 0;
SIMGPU_KERNELS(STUB)
#undef STUB

SimgpuFatBinary g_binary = {SIMGPU_FATBIN_MAGIC, sizeof(kKernels) / sizeof(kKernels[0]), kKernels};

[[gnu::constructor]] void register_kernels() {
    void** handle = __cudaRegisterFatBinary(&g_binary);
#define REGISTER(name, ...)                                                                                         \
    __cudaRegisterFunction(handle, &name##_stub, nullptr, "simgpu_" #name "_kernel", -1, nullptr, nullptr, nullptr, \
                           nullptr, nullptr);
    SIMGPU_KERNELS(REGISTER)
#undef REGISTER
    __cudaRegisterFatBinaryEnd(handle);
}

int launch(const void* stub, void** args, void* stream) {
    return cudaLaunchKernel(stub, dim3(1), dim3(32), args, 0, static_cast<cudaStream_t>(stream));
}

}  // namespace

int simgpu_launch_spin(uint64_t duration_ns, void* stream) {
    void* args[] = {&duration_ns};
    return launch(&spin_stub, args, stream);
}

int simgpu_launch_hang(void* stream) { return launch(&hang_stub, nullptr, stream); }

int simgpu_launch_fill(float* data, size_t count, float value, void* stream) {
    void* args[] = {&data, &count, &value};
    return launch(&fill_stub, args, stream);
}

int simgpu_launch_add(float* data, size_t count, float value, void* stream) {
    void* args[] = {&data, &count, &value};
    return launch(&add_stub, args, stream);
}

int simgpu_launch_axpy(float* y, const float* x, size_t count, float a, void* stream) {
    void* args[] = {&y, &x, &count, &a};
    return launch(&axpy_stub, args, stream);
}
