// The device: streams, events, memory, launches, errors.
#include <atomic>

#include "node.h"

using namespace simgpu_test;

namespace {

cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream;
    REQUIRE(cudaStreamCreateWithFlags(&stream, flags) == cudaSuccess);
    return stream;
}

void append(cudaStream_t stream, std::vector<int>* log, int value) {
    struct Entry {
        std::vector<int>* log;
        int value;
    };
    REQUIRE(cudaLaunchHostFunc(
                stream,
                [](void* raw) {
                    auto* entry = static_cast<Entry*>(raw);
                    entry->log->push_back(entry->value);
                    delete entry;
                },
                new Entry{log, value}) == cudaSuccess);
}

}  // namespace

TEST_CASE("a stream is asynchronous and keeps its order") {
    cudaStream_t stream = new_stream();
    std::vector<int> log;
    Gate gate;
    CHECK(gate.hold(stream) == cudaSuccess);
    for (int i = 0; i < 5; ++i) {
        append(stream, &log, i);
    }
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    CHECK(cudaGetLastError() == cudaErrorNotReady);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(log.empty());
    gate.open = true;
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(log == std::vector<int>{0, 1, 2, 3, 4});
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("events order streams, and measure time") {
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t start, event;
    cudaEventCreate(&start);
    cudaEventCreate(&event);
    CHECK(cudaEventQuery(event) == cudaSuccess);  // never recorded
    std::vector<int> log;
    Gate gate;
    const auto begun = Clock::now();
    cudaEventRecord(start, first);
    simgpu_launch_spin(20'000'000, first);
    CHECK(gate.hold(first) == cudaSuccess);
    append(first, &log, 1);
    cudaEventRecord(event, first);
    CHECK(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);
    append(second, &log, 2);
    CHECK(cudaEventQuery(event) == cudaErrorNotReady);
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, start, event) == cudaErrorNotReady);
    gate.open = true;
    CHECK(cudaStreamSynchronize(second) == cudaSuccess);
    CHECK(log == std::vector<int>{1, 2});
    CHECK(cudaEventElapsedTime(&milliseconds, start, event) == cudaSuccess);
    CHECK(milliseconds >= 20);
    CHECK(milliseconds <= std::chrono::duration<float, std::milli>(Clock::now() - begun).count() + 1);
}

TEST_CASE("the legacy stream waits for blocking streams, and they for it") {
    cudaStream_t blocking = new_stream(cudaStreamDefault);
    std::vector<int> log;
    simgpu_launch_spin(15'000'000, blocking);
    append(blocking, &log, 1);
    append(nullptr, &log, 2);
    append(blocking, &log, 3);
    CHECK(cudaStreamSynchronize(blocking) == cudaSuccess);
    CHECK(log == std::vector<int>{1, 2, 3});
}

TEST_CASE("kernels take copies of their arguments; memory moves") {
    cudaStream_t stream = new_stream();
    float *a, *b;
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&a), 64) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&b), 64) == cudaSuccess);
    simgpu_launch_fill(a, 16, 3, stream);
    simgpu_launch_fill(b, 16, 1, stream);
    simgpu_launch_axpy(b, a, 16, 2, stream);
    float host[16] = {};
    CHECK(cudaMemcpyAsync(host, b, 64, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(host[15] == 7);
    CHECK(cudaMemset(a, 0, 64) == cudaSuccess);
    CHECK(cudaMemcpy(host, a, 64, cudaMemcpyDefault) == cudaSuccess);
    CHECK(host[3] == 0);
    CHECK(cudaFree(a) == cudaSuccess);
    CHECK(cudaFree(b) == cudaSuccess);
    CHECK(cudaFree(nullptr) == cudaSuccess);
    CHECK(cudaFree(host) == cudaErrorInvalidValue);
    static const char nobody = 0;
    CHECK(cudaLaunchKernel(&nobody, dim3(1), dim3(1), nullptr, 0, stream) == cudaErrorInvalidDeviceFunction);
}

TEST_CASE("devices belong to threads") {
    int device = -1;
    REQUIRE(cudaSetDevice(3) == cudaSuccess);
    std::thread([] {
        int own = -1;
        CHECK(cudaGetDevice(&own) == cudaSuccess);
        CHECK(own == 0);
        CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
        CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
    }).join();
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(device == 3);
    CHECK(cudaPeekAtLastError() != cudaErrorInvalidDevice);
    cudaSetDevice(0);
}

TEST_CASE("a device reset ends a kernel that hangs") {
    std::thread([] {
        cudaSetDevice(7);
        cudaStream_t stream = new_stream();
        cudaEvent_t event;
        cudaEventCreate(&event);
        CHECK(simgpu_launch_hang(stream) == cudaSuccess);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
        CHECK(cudaDeviceReset() == cudaSuccess);
        CHECK(cudaStreamQuery(stream) == cudaErrorInvalidResourceHandle);
        CHECK(cudaFree(nullptr) == cudaSuccess);  // the device can be used again
    }).join();
}
