#include "trainer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "check.h"
#include "markers.h"
#include "simgpu.h"
#include "trainer_parts.h"

namespace simgpu {

namespace {

// What a value stands for: members add different amounts, so that a missing or doubled member shows.
enum Salt { kActivation = 1, kGradient = 20, kBucket = 40, kNorm = 60, kCheckpoint = 80 };

}  // namespace

const std::vector<std::string>& Trainer::comm_names() {
    static const std::vector<std::string> names = {"world", "tp", "dp", "pp"};
    return names;
}

Trainer::Trainer(const TrainOptions& options, int rank, int device) : options_(options) {
    set_speaker(rank);
    use_nvtx() = options.nvtx;
    state_.rank = rank;
    state_.faults = FaultScript::from_environment();
    CUDA_CHECK(cudaSetDevice(device));
    count_ = std::max<size_t>(1, options.bytes / sizeof(float));
    const size_t scratch = scratch_bytes(count_ * sizeof(float), options.layout.world());
    buffers_ = std::make_unique<Buffers>(count_, options.layout, scratch);
    for (cudaStream_t* stream : {&compute_, &tensor_, &pipeline_, &data_}) {
        CUDA_CHECK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    }
    events_.resize(16);
    for (cudaEvent_t& event : events_) {
        CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    for (const std::string& name : comm_names()) {
        comms_.push_back(std::make_unique<RankComm>(state_, member_of(name), buffers_->scratch));
    }
    for (const char* name : {"dp", "tp", "pp"}) {
        titan_label(name, std::to_string(member_of(name).rank).c_str());
    }
    std::thread([this] { watch(); }).detach();
}

// Only ever reached when everything went well; the device's resources end with the process.
Trainer::~Trainer() { over_ = true; }

Membership Trainer::member_of(const std::string& name) const { return membership(options_.layout, name, state_.rank); }

RankComm& Trainer::comm(const std::string& name) {
    size_t index = 0;
    while (comm_names()[index] != name) {
        ++index;
    }
    return *comms_[index];
}

namespace {

[[noreturn]] void never_create() {
    for (;;) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
    }
}

}  // namespace

void Trainer::init_comm(const std::string& name, const std::function<ncclUniqueId()>& unique_id) {
    RankComm& made = comm(name);
    const Membership& group = made.membership();
    if (group.size < 2) {
        return;
    }
    if (!made.may_create()) {
        never_create();
    }
    const ncclUniqueId id = unique_id();
    ncclComm_t handle = nullptr;
    if (name == "world") {
        NCCL_CHECK(ncclCommInitRank(&handle, group.size, id, group.rank));
    } else {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.commName = name.c_str();
        NCCL_CHECK(ncclCommInitRankConfig(&handle, group.size, id, group.rank, &config));
    }
    made.attach(handle);
}

void Trainer::split_comm(const std::string& name) {
    RankComm& made = comm(name);
    if (!made.may_create()) {
        never_create();
    }
    ncclComm_t handle = nullptr;
    NCCL_CHECK(ncclCommSplit(comm("world").get(), made.membership().color, state_.rank, &handle, nullptr));
    made.attach(handle);
}

void Trainer::adopt_comm(const std::string& name, ncclComm_t handle) { comm(name).attach(handle); }

void Trainer::destroy_comms() {
    over_ = true;
    for (auto made = comms_.rbegin(); made != comms_.rend(); ++made) {
        if ((*made)->get()) {
            NCCL_CHECK(ncclCommFinalize((*made)->get()));
            NCCL_CHECK(ncclCommDestroy((*made)->get()));
            (*made)->attach(nullptr);
        }
    }
}

// What a framework's watchdog does: it looks for asynchronous errors and for steps that do not end, and then aborts.
void Trainer::watch() {
    set_speaker(state_.rank);
    using Clock = std::chrono::steady_clock;
    int64_t seen = -1;
    auto since = Clock::now();
    while (!over_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (progress_ != seen) {
            seen = progress_;
            since = Clock::now();
        }
        ncclResult_t error = ncclSuccess;
        for (const auto& made : comms_) {
            ncclResult_t one = ncclSuccess;
            if (!over_ && seen > 0 && made->get() && ncclCommGetAsyncError(made->get(), &one) == ncclSuccess) {
                error = one != ncclSuccess && one != ncclInProgress ? one : error;
            }
        }
        const double waited_s = std::chrono::duration<double>(Clock::now() - since).count();
        const bool late = options_.hang_timeout_s > 0 && seen > 0 && waited_s > options_.hang_timeout_s;
        if (over_ || (error == ncclSuccess && !late)) {
            continue;
        }
        begin_end();  // an abort lets the training thread go on, with data that never arrived
        for (const auto& made : comms_) {
            if (made->get()) {
                ncclCommAbort(made->get());
            }
        }
        if (late) {
            die(kExitWatchdog, "step %ld did not end within %.1f s, communicators aborted",
                static_cast<long>(state_.step), options_.hang_timeout_s);
        }
        die(kExitAsyncError, "asynchronous error: %s", ncclGetErrorString(error));
    }
}

void Trainer::after(cudaStream_t waiting, cudaStream_t waited) {
    cudaEvent_t event = events_[next_event_++ % events_.size()];
    CUDA_CHECK(cudaEventRecord(event, waited));
    CUDA_CHECK(cudaStreamWaitEvent(waiting, event, 0));
}

namespace {

// Keeps a core busy, as a program's own code between its launches does.
void compute_on_host(double ms) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::milli>(ms);
    while (std::chrono::steady_clock::now() < end) {
        volatile float sum = 0;
        for (int i = 0; i < 1000; ++i) {
            sum = sum * 0.999f + static_cast<float>(i);
        }
    }
}

}  // namespace

// A share of the step's work: the host's, the small kernels', the large kernel's.
void Trainer::spin(double share) {
    if (options_.work_ms > 0) {
        compute_on_host(options_.work_ms * share);
    }
    const auto kernels = static_cast<int>(options_.kernels * share);
    for (int i = 0; i < kernels; ++i) {
        CUDA_CHECK(simgpu_launch_fill(buffers_->small, 1, 0, compute_));
    }
    CUDA_CHECK(simgpu_launch_spin(static_cast<uint64_t>(options_.step_ms * share * 1e6), compute_));
}

// A graph's kernels keep the arguments that they were captured with: there, a value is the same in every step.
float Trainer::value_of(int rank, int salt) const {
    return static_cast<float>(rank + 1 + salt + (options_.graphs ? 0 : state_.step % 7));
}

int Trainer::rank_in(const std::string& name, int group_rank) const {
    const Layout& l = options_.layout;
    int tp = l.tp_rank(state_.rank), dp = l.dp_rank(state_.rank), pp = l.pp_rank(state_.rank);
    (name == "tp" ? tp : name == "dp" ? dp : pp) = group_rank;
    return name == "world" ? group_rank : (pp * l.dp + dp) * l.tp + tp;
}

float Trainer::group_sum(const std::string& name, int salt) const {
    float sum = 0;
    for (int i = 0; i < member_of(name).size; ++i) {
        sum += value_of(rank_in(name, i), salt);
    }
    return sum;
}

void Trainer::begin_step(int64_t step, bool act_faults) {
    state_.step = step;
    ++progress_;
    if (!options_.unmarked) {
        titan_step(step);
    }
    for (auto& made : comms_) {
        made->begin_step();
    }
    if (act_faults) {
        state_.at_step_start();
    }
}

void Trainer::forward() {
    Span span("forward");
    RankComm& pp = comm("pp");
    RankComm& tp = comm("tp");
    const int stage = pp.membership().rank, last = pp.membership().size - 1;
    if (pp.usable() && stage > 0) {
        pp.issue({Request::kRecv, nullptr, buffers_->activation_in, count_, ncclFloat32, ncclSum, stage - 1},
                 pipeline_);
        after(compute_, pipeline_);
    }
    spin(0.35);
    CUDA_CHECK(simgpu_launch_fill(buffers_->activation, count_, value_of(state_.rank, kActivation), compute_));
    if (tp.usable()) {
        after(tensor_, compute_);
        tp.issue({Request::kAllReduce, buffers_->activation, buffers_->activation, count_}, tensor_);
        tp.issue({Request::kAllGather, buffers_->activation, buffers_->gathered, count_}, tensor_);
        after(compute_, tensor_);
    }
    if (pp.usable() && stage < last) {
        // The activation goes out and its gradient comes back as one group, as pipelines do to avoid a deadlock.
        after(pipeline_, compute_);
        NCCL_CHECK(ncclGroupStart());
        pp.issue({Request::kSend, buffers_->activation, nullptr, count_, ncclFloat32, ncclSum, stage + 1}, pipeline_);
        pp.issue({Request::kRecv, nullptr, buffers_->gradient_in, count_, ncclFloat32, ncclSum, stage + 1}, pipeline_);
        NCCL_CHECK(ncclGroupEnd());
    }
}

void Trainer::backward() {
    Span span("backward");
    RankComm& pp = comm("pp");
    RankComm& tp = comm("tp");
    RankComm& dp = comm("dp");
    const int stage = pp.membership().rank, last = pp.membership().size - 1;
    if (pp.usable() && stage < last) {
        after(compute_, pipeline_);
    }
    spin(0.45);
    CUDA_CHECK(simgpu_launch_fill(buffers_->gradient, count_, value_of(state_.rank, kGradient), compute_));
    if (tp.usable()) {
        after(tensor_, compute_);
        tp.issue({Request::kAllReduce, buffers_->gradient, buffers_->gradient, count_}, tensor_);
        after(compute_, tensor_);
    }
    if (pp.usable() && stage > 0) {
        after(pipeline_, compute_);
        pp.issue({Request::kSend, buffers_->gradient, nullptr, count_, ncclFloat32, ncclSum, stage - 1}, pipeline_);
    }
    const size_t bucket_count = count_ * static_cast<size_t>(options_.layout.dp);
    CUDA_CHECK(simgpu_launch_fill(buffers_->bucket, bucket_count, value_of(state_.rank, kBucket), compute_));
    if (dp.usable()) {
        after(data_, compute_);
        if (options_.sharded_gradients) {
            dp.issue({Request::kReduceScatter, buffers_->bucket, buffers_->shard, count_}, data_);
            dp.issue({Request::kAllGather, buffers_->shard, buffers_->parameters, count_}, data_);
        } else {
            dp.issue({Request::kAllReduce, buffers_->bucket, buffers_->parameters, bucket_count}, data_);
        }
    }
}

void Trainer::optimizer() {
    Span span("optimizer");
    RankComm& world = comm("world");
    after(data_, compute_);
    CUDA_CHECK(simgpu_launch_fill(buffers_->norm, 1, value_of(state_.rank, kNorm), data_));
    if (world.usable()) {
        world.issue({Request::kAllReduce, buffers_->norm, buffers_->norm, 1}, data_);
    }
    after(compute_, data_);
    CUDA_CHECK(simgpu_launch_axpy(buffers_->weights, buffers_->shard, count_, -0.001f, compute_));
    spin(0.2);
}

void Trainer::checkpoint() {
    Span span("checkpoint");
    RankComm& world = comm("world");
    mark("checkpoint");
    if (options_.graphs) {
        after(data_, compute_);  // which carries the graph
    }
    CUDA_CHECK(simgpu_launch_fill(buffers_->scratch, 1, value_of(state_.rank, kCheckpoint), data_));
    if (world.usable()) {
        world.issue({Request::kBroadcast, buffers_->scratch, buffers_->scratch, 1, ncclFloat32, ncclSum, 0}, data_);
        wait_for(data_);
        expect("the checkpoint's barrier", buffers_->scratch, 1, value_of(0, kCheckpoint));
    }
}

void Trainer::wait_for(cudaStream_t stream) {
    if (!options_.poll) {
        CUDA_CHECK(cudaStreamSynchronize(stream));
        return;
    }
    cudaError_t result = cudaErrorNotReady;
    while ((result = cudaStreamQuery(stream)) == cudaErrorNotReady) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CUDA_CHECK(result);
}

void Trainer::expect(const char* what, const float* data, size_t count, float value) {
    seen_.resize(std::max(seen_.size(), count));
    CUDA_CHECK(cudaMemcpyAsync(seen_.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost, compute_));
    wait_for(compute_);
    for (size_t i = 0; i < count; ++i) {
        if (seen_[i] != value) {
            die(kExitWrongData, "step %ld: %s has %g at %zu, expected %g", static_cast<long>(state_.step), what,
                static_cast<double>(seen_[i]), i, static_cast<double>(value));
        }
    }
}

void Trainer::finish_step() {
    for (cudaStream_t stream : {tensor_, pipeline_, data_, compute_}) {
        wait_for(stream);
    }
    const Membership pp = member_of("pp");
    if (comm("tp").usable()) {
        const float sum = group_sum("tp", kActivation);
        expect("the tp all-reduce", buffers_->activation, count_, sum);
        expect("the tp all-gather", buffers_->gathered, count_ * static_cast<size_t>(options_.layout.tp), sum);
        expect("the tp gradient", buffers_->gradient, count_, group_sum("tp", kGradient));
    }
    const auto of_stage = [&](int stage, int salt) {  // the sum of that stage's tensor group
        const int distance = rank_in("pp", stage) - state_.rank;
        return group_sum("tp", salt) + static_cast<float>(distance * member_of("tp").size);
    };
    if (comm("pp").usable() && pp.rank > 0) {
        expect("the activation from the stage before", buffers_->activation_in, count_,
               of_stage(pp.rank - 1, kActivation));
    }
    if (comm("pp").usable() && pp.rank + 1 < pp.size) {
        expect("the gradient from the stage after", buffers_->gradient_in, count_, of_stage(pp.rank + 1, kGradient));
    }
    if (comm("dp").usable()) {
        expect("the dp gradients", buffers_->parameters, count_ * static_cast<size_t>(options_.layout.dp),
               group_sum("dp", kBucket));
    }
    if (comm("world").usable()) {
        const float norm = group_sum("world", kNorm);
        expect("the gradient norm", buffers_->norm, 1, norm);
        titan_metric("grad_norm", static_cast<double>(norm));
    }
    ++progress_;
}

void Trainer::run() {
    for (int64_t step = 0; step < options_.steps; ++step) {
        begin_step(step);
        work();
        if (options_.checkpoint_every > 0 && (step + 1) % options_.checkpoint_every == 0) {
            checkpoint();
        }
        finish_step();
    }
}

}  // namespace simgpu
