// A process that drives several devices as XLA does: a thread makes each rank's communicator and another one, kept for
// the device, calls its collectives; each call stands in a group; who waits, waits for an event on another stream.
//
// DEVICES ranks live in this process; which they are, NCCL alone knows: the launcher's RANK is that of the process.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "client.h"

namespace {

constexpr size_t kCount = 16;
constexpr int kSteps = 4, kStepOfFault = 2;

// All parties come, then all go on.
class Rendezvous {
  public:
    explicit Rendezvous(int parties) : parties_(parties) {}

    void meet() {
        std::unique_lock lock(mutex_);
        const int round = round_;
        if (++come_ == parties_) {
            come_ = 0;
            ++round_;
            all_.notify_all();
        }
        all_.wait(lock, [&] { return round_ != round; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable all_;
    int parties_, come_ = 0, round_ = 0;
};

struct Device {
    int ordinal, rank;
    ncclComm_t world = nullptr, half = nullptr;
    cudaStream_t compute = nullptr, collectives = nullptr;
    cudaEvent_t ready = nullptr, done = nullptr;
    float* data = nullptr;

    Device(int device, int global) : ordinal(device), rank(global) {
        CUDA(cudaSetDevice(ordinal));
        CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
        CUDA(cudaStreamCreateWithFlags(&collectives, cudaStreamNonBlocking));
        CUDA(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
        CUDA(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
        CUDA(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)));
    }

    void reduce(ncclComm_t comm) const {
        CUDA(cudaEventRecord(ready, compute));
        CUDA(cudaStreamWaitEvent(collectives, ready, 0));
        NCCL(ncclGroupStart());
        NCCL(ncclAllReduce(data, data, kCount, ncclFloat32, ncclSum, comm, collectives));
        NCCL(ncclGroupEnd());
        CUDA(cudaEventRecord(done, collectives));
        CUDA(cudaStreamWaitEvent(compute, done, 0));
    }
};

void poll_until_made(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        NCCL(ncclCommGetAsyncError(comm, &state));
        std::this_thread::yield();
    }
    REQUIRE(state == ncclSuccess);
}

ncclConfig_t configuration() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 1;
    return config;
}

struct Process {
    // Under other names where no launcher's shall be in the environment.
    int rank = client::number("E2E_RANK", client::number("RANK", 0));
    int size = client::number("E2E_SIZE", client::number("WORLD_SIZE", 1));
    int devices = client::number("DEVICES", 2);
    std::vector<std::unique_ptr<Device>> local;

    // A thread for each device, until all have ended.
    template <typename Work>
    void on_each(Work work) {
        std::vector<std::thread> threads;
        for (auto& device : local) {
            threads.emplace_back([&work, &device] {
                CUDA(cudaSetDevice(device->ordinal));
                work(*device);
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }

    Process() {
        for (int i = 0; i < devices; ++i) {
            local.push_back(std::make_unique<Device>(rank * devices + i, rank * devices + i));
        }
        const ncclUniqueId id = client::shared_id("id", rank, size);
        on_each([&](Device& device) {
            ncclConfig_t config = configuration();
            const ncclResult_t made = ncclCommInitRankConfig(&device.world, size * devices, id, device.rank, &config);
            REQUIRE(made == ncclSuccess || made == ncclInProgress);
            poll_until_made(device.world);
        });
        on_each([&](Device& device) {
            ncclConfig_t config = configuration();
            const ncclResult_t made = ncclCommSplit(device.world, device.rank % 2, device.rank, &device.half, &config);
            REQUIRE(made == ncclSuccess || made == ncclInProgress);
            poll_until_made(device.world);  // the handle of the new one is there when the parent is done
            poll_until_made(device.half);
        });
    }

    // `stays(device, step)`: the device's thread does something else for ever.
    template <typename Stays>
    void train(Stays stays) {
        Rendezvous rendezvous(devices);
        on_each([&](Device& device) {
            for (int step = 0; step < kSteps; ++step) {
                if (stays(device, step)) {
                    client::await("never");
                }
                rendezvous.meet();
                device.reduce(device.world);
                device.reduce(device.half);
                CUDA(cudaStreamSynchronize(device.compute));
            }
        });
    }
};

int healthy() {
    Process process;
    process.train([](const Device&, int) { return false; });
    client::say("done");
    client::await("go");
    return 0;
}

// One thread of the last process stays away. The other one waits for it, in the program: neither of its devices comes.
int process_stays() {
    Process process;
    process.train([&](const Device& device, int step) {
        return process.rank == process.size - 1 && &device == process.local.front().get() && step == kStepOfFault;
    });
    return 0;
}

// The thread of the newest device stays away; that of the other one does not wait for it.
int thread_stays() {
    Process process;
    process.on_each([&](const Device& device) {
        for (int step = 0; step < kSteps; ++step) {
            if (device.rank == process.size * process.devices - 1 && step == kStepOfFault) {
                client::await("never");
            }
            device.reduce(device.world);
            CUDA(cudaStreamSynchronize(device.compute));
        }
    });
    return 0;
}

constexpr client::Scenario kScenarios[] = {
    {"healthy", healthy}, {"process-stays", process_stays}, {"thread-stays", thread_stays}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }
