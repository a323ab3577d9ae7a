// Helpers of the tests: a clique of communicators in one process, and streams and buffers for each member.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "simgpu.h"

namespace simgpu_test {

using Clock = std::chrono::steady_clock;

inline bool eventually(const std::function<bool()>& condition, int limit_ms = 30000) {
    const auto end = Clock::now() + std::chrono::milliseconds(limit_ms);
    while (Clock::now() < end) {
        if (condition()) {
            return true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return condition();
}

// Work that a stream does not finish before it is told to, however long the test is held up.
struct Gate {
    std::atomic<bool> open{false};

    cudaError_t hold(cudaStream_t stream) {
        const auto wait = [](void* raw) {
            while (!*static_cast<std::atomic<bool>*>(raw)) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        };
        return cudaLaunchHostFunc(stream, wait, &open);
    }
};

struct Stream {
    cudaStream_t handle;
    Stream() { REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess); }
    ~Stream() { cudaStreamDestroy(handle); }
    operator cudaStream_t() const { return handle; }
};

// A function of the driver, which no test links.
template <class F>
F* driver(F*, const char* name) {
    return reinterpret_cast<F*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}
#define DRIVER(name) driver(static_cast<decltype(&name)>(nullptr), #name)

struct Node {
    explicit Node(int size) : ranks(size), comms(static_cast<size_t>(size)), streams(static_cast<size_t>(size)) {
        REQUIRE(ncclCommInitAll(comms.data(), size, nullptr) == ncclSuccess);
        for (int r = 0; r < size; ++r) {
            cudaSetDevice(r);
            REQUIRE(cudaStreamCreateWithFlags(&streams[static_cast<size_t>(r)], cudaStreamNonBlocking) == cudaSuccess);
        }
    }

    // The same call on every member, in one group.
    ncclResult_t all(const std::function<ncclResult_t(int, ncclComm_t, cudaStream_t)>& call) {
        ncclGroupStart();
        for (int r = 0; r < ranks; ++r) {
            call(r, comms[static_cast<size_t>(r)], streams[static_cast<size_t>(r)]);
        }
        return ncclGroupEnd();
    }

    void sync() {
        for (cudaStream_t stream : streams) {
            REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
        }
    }

    bool idle(int rank) { return cudaStreamQuery(streams[static_cast<size_t>(rank)]) == cudaSuccess; }

    void abort() {
        for (ncclComm_t& comm : comms) {
            CHECK(ncclCommAbort(comm) == ncclSuccess);
            comm = nullptr;
        }
    }

    ~Node() {
        for (ncclComm_t comm : comms) {
            if (comm) {
                CHECK(ncclCommDestroy(comm) == ncclSuccess);
            }
        }
    }

    int ranks;
    std::vector<ncclComm_t> comms;
    std::vector<cudaStream_t> streams;
};

// One thread per member, as separate processes would do it.
inline void each_rank(int ranks, const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r) {
        threads.emplace_back([&body, r] {
            cudaSetDevice(r);
            body(r);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

}  // namespace simgpu_test
