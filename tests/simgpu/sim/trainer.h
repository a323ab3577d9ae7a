// One rank's training loop on a simulated node: the calls that a Megatron-like program makes, on several streams, with
// data that is checked after every step.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rank_comm.h"

namespace simgpu {

struct TrainOptions {
    Layout layout;
    int64_t steps = 10;
    size_t bytes = 16 << 10;  // of one operation, per rank
    double step_ms = 5;       // work on the compute stream
    int64_t checkpoint_every = 5;
    bool sharded_gradients = true;  // reduce-scatter and all-gather instead of one all-reduce
    double hang_timeout_s = 0;      // 0: wait for ever, as NCCL does
    bool graphs = false;            // a step is captured once and then replayed
    bool one_process = false;       // ranks are threads: a capture must not forbid the others their calls
    double work_ms = 0;             // work of the host per step
    int kernels = 0;                // small kernels per step
    bool unmarked = false;          // steps are not told
    bool nvtx = false;              // ranges of NVTX instead of titantrace's markers
    bool poll = false;              // hosts ask whether a stream is done, again and again
};

class Trainer {
  public:
    Trainer(const TrainOptions& options, int rank, int device);
    ~Trainer();

    // The communicators to be made, in the order in which all ranks make them.
    static const std::vector<std::string>& comm_names();
    Membership member_of(const std::string& name) const;

    // Blocking, like NCCL's. A group of one is made only by a split, which all ranks have to call.
    void init_comm(const std::string& name, const std::function<ncclUniqueId()>& unique_id);
    void split_comm(const std::string& name);
    void adopt_comm(const std::string& name, ncclComm_t comm);
    void destroy_comms();

    // A step. Without `act_faults` the caller acts out the faults of the step's start itself.
    void begin_step(int64_t step, bool act_faults = true);
    void forward();
    void backward();
    void optimizer();
    void use_graphs() { options_.graphs = true; }
    void work();  // the three: one by one, or as a graph
    void checkpoint();
    void finish_step();  // waits for the device and checks what arrived
    void run();          // all of it, options.steps times

    RankState& state() { return state_; }

  private:
    struct Buffers;

    RankComm& comm(const std::string& name);
    void after(cudaStream_t waiting, cudaStream_t waited);
    void spin(double share);
    void forward_backward_optimizer();
    cudaGraphExec_t capture_step();
    void replay_step();
    float value_of(int rank, int salt) const;
    float group_sum(const std::string& name, int salt) const;
    int rank_in(const std::string& name, int group_rank) const;
    void wait_for(cudaStream_t stream);
    void expect(const char* what, const float* data, size_t count, float value);
    void watch();

    TrainOptions options_;
    RankState state_;
    size_t count_;
    std::unique_ptr<Buffers> buffers_;
    std::vector<std::unique_ptr<RankComm>> comms_;
    cudaStream_t compute_ = nullptr, tensor_ = nullptr, pipeline_ = nullptr, data_ = nullptr;
    std::vector<cudaEvent_t> events_;
    size_t next_event_ = 0;
    cudaGraphExec_t graph_ = nullptr;  // a step
    std::vector<int64_t> operations_;  // of each communicator in a step
    std::vector<float> seen_;          // a copy of what expect() looks at
    std::atomic<int64_t> progress_{0};
    std::atomic<bool> over_{false};
};

}  // namespace simgpu
