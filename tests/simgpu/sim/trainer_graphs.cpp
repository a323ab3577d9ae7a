// Steps as CUDA graphs: the first runs eagerly, as a warm-up; then one is captured, over all streams, and replayed.
//
// A step that a fault strikes on this rank is captured anew, with the fault in it, and launched once.
#include "markers.h"
#include "simgpu.h"
#include "trainer_parts.h"

namespace simgpu {

void Trainer::forward_backward_optimizer() {
    forward();
    backward();
    optimizer();
}

void Trainer::work() {
    if (options_.graphs && !operations_.empty()) {
        replay_step();
        return;
    }
    forward_backward_optimizer();
    for (const auto& made : comms_) {
        operations_.push_back(made->issued_in_step());
    }
}

cudaGraphExec_t Trainer::capture_step() {
    Span span("capture");
    const auto mode = options_.one_process ? cudaStreamCaptureModeThreadLocal : cudaStreamCaptureModeGlobal;
    CUDA_CHECK(cudaStreamBeginCapture(compute_, mode));
    for (cudaStream_t stream : {tensor_, pipeline_, data_}) {
        after(stream, compute_);
    }
    forward_backward_optimizer();
    for (cudaStream_t stream : {tensor_, pipeline_, data_}) {
        after(compute_, stream);
    }
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA_CHECK(cudaStreamEndCapture(compute_, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return exec;
}

void Trainer::replay_step() {
    bool struck = false;
    for (size_t i = 0; i < comms_.size(); ++i) {
        struck |= comms_[i]->fault_among(operations_[i]);
    }
    cudaGraphExec_t exec = graph_;
    if (struck || !graph_) {
        exec = capture_step();
        graph_ = struck ? graph_ : exec;
    } else {
        for (size_t i = 0; i < comms_.size(); ++i) {
            comms_[i]->advance(operations_[i]);
        }
    }
    const auto skips = state_.faults.at({FaultPlace::kReplay, state_.rank, "", state_.step, 0, 0});
    if (skips.empty()) {
        Span span("replay");
        CUDA_CHECK(cudaGraphLaunch(exec, compute_));
    } else {
        state_.act(*skips.front());
    }
    if (struck) {
        CUDA_CHECK(cudaGraphExecDestroy(exec));  // the launch keeps what it needs
    }
}

}  // namespace simgpu
