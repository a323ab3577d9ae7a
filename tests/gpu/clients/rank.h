// One rank of a GPU check: the driver API and NCCL only, so that it runs beside any version of the CUDA runtime.
// Functions of the driver are called by their names in the library (cuMemAlloc_v2), which no header version changes.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "../../e2e/clients/client.h"
#include "kernels.h"

namespace gpu_check {

inline void require(CUresult result, const char* what, int line) {
    if (result != CUDA_SUCCESS) {
        const char* name = nullptr;
        cuGetErrorName(result, &name);
        client::say("line %d: %s: %s", line, what, name ? name : "unknown error");
        _exit(1);
    }
}

#define DRIVER(call) gpu_check::require((call), #call, __LINE__)

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

class Rank {
  public:
    static constexpr size_t kCount = 1 << 18;

    int rank = client::number("RANK", 0), size = client::number("WORLD_SIZE", 1);
    // The rank that a check makes misbehave.
    int victim = client::number("GPU_CHECK_VICTIM", -1);
    CUstream stream = nullptr;
    ncclComm_t comm = nullptr;
    CUdeviceptr send = 0, receive = 0;

    Rank() {
        int devices = 0;
        CUdevice device = 0;
        CUcontext context = nullptr;
        DRIVER(cuInit(0));
        DRIVER(cuDeviceGetCount(&devices));
        DRIVER(cuDeviceGet(&device, rank % devices));
        DRIVER(cuDevicePrimaryCtxRetain(&context, device));
        DRIVER(cuCtxSetCurrent(context));
        DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        DRIVER(cuMemAlloc_v2(&send, kCount * sizeof(float)));
        DRIVER(cuMemAlloc_v2(&receive, kCount * sizeof(float)));
        fill(send, static_cast<float>(rank + 1));
    }

    void join() {
        const ncclUniqueId id = client::shared_id("id", rank, size);
        NCCL(ncclCommInitRank(&comm, size, id, rank));
    }
    bool is_victim() const { return rank == victim; }

    void fill(CUdeviceptr data, float value) const {
        DRIVER(cuMemsetD32Async(data, bits_of(value), kCount, stream));
        DRIVER(cuStreamSynchronize(stream));
    }
    void all_reduce(size_t count, CUstream where) const {
        NCCL(ncclAllReduce(reinterpret_cast<void*>(send), reinterpret_cast<void*>(receive), count, ncclFloat32, ncclSum,
                           comm, reinterpret_cast<cudaStream_t>(where)));
    }
    void all_reduce(size_t count = 1024) const { all_reduce(count, stream); }
    void sync() const { DRIVER(cuStreamSynchronize(stream)); }

    // The sum over all ranks arrived in the first `count` elements.
    void verify(size_t count = 1024) const {
        sync();
        std::vector<float> got(count);
        DRIVER(cuMemcpyDtoH_v2(got.data(), receive, count * sizeof(float)));
        const float expected = static_cast<float>(size * (size + 1) / 2);
        for (size_t i = 0; i < count; ++i) {
            if (got[i] != expected) {
                client::say("element %zu of %zu is %g, not %g", i, count, static_cast<double>(got[i]),
                            static_cast<double>(expected));
                _exit(3);
            }
        }
    }
    void leave() {
        sync();
        NCCL(ncclCommDestroy(comm));
        comm = nullptr;
        client::say("left");
    }
};

// A word that the device polls and the host sets, or a thread of ours when the check says so.
class Gate {
  public:
    Gate() {
        void* memory = nullptr;
        DRIVER(cuMemHostAlloc(&memory, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
        word_ = static_cast<uint32_t*>(memory);
        *word_ = 0;
        DRIVER(cuMemHostGetDevicePointer_v2(&address_, memory, 0));
    }
    CUdeviceptr address() const { return address_; }
    void open() { std::atomic_ref<uint32_t>(*word_).store(1); }

  private:
    uint32_t* word_ = nullptr;
    CUdeviceptr address_ = 0;
};

int overhead();
int steps();
int graphs();
int capture_safety();

}  // namespace gpu_check
