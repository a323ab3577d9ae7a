// NCCL's proxy progress thread, as a profiler plugin sees it: it watches what kernels and the network do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace simgpu {

struct Core;

constexpr int kChannels = 2;  // of a collective; a send or receive has one

uint64_t device_timer();  // what a GPU's global timer would say, in ns

// What the device tells about one operation. Written by the stream's worker.
struct OpProgress {
    std::atomic<uint64_t> started[kChannels] = {};
    std::atomic<uint64_t> stopped[kChannels] = {};
    std::atomic<int> steps_done{0};
    int steps = 1;
    size_t chunk_bytes = 0;

    void start(int channels);
    void stop(int first_channel, int channels);
};

// What the thread shall watch of an operation on one channel.
struct ProxyItem {
    enum Kind { kKernel, kSend, kReceive };
    Kind kind;
    uint8_t channel;
    int peer;
    int mask;
    void* task;  // the plugin's event of the operation
    std::shared_ptr<OpProgress> progress;

    // The thread's own.
    void* op_event = nullptr;
    void* step_event = nullptr;
    int step = 0;
    bool step_open = false, saw_kernel = false, in_progress = false;
};

class Proxy {
  public:
    virtual ~Proxy() = default;  // ends the thread; what is unfinished stays so
    static std::unique_ptr<Proxy> start(Core& core);
    virtual void append(std::vector<ProxyItem> items) = 0;
    virtual void finish() = 0;  // waits until nothing is left to watch
};

}  // namespace simgpu
